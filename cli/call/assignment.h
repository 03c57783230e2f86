// One name=value of the command line, taken apart.
#pragma once

#include <optional>

#include "cli/call/expression.h"

namespace gradus::cli {

// name:dtype=value.
struct Assignment {
    std::string name, value;
    std::optional<aclDataType> dtype;
};
Assignment parse_assignment(const std::string& text);

// How a tensor is wished for: base[shape]:dtype[slice],option=value. A .npy or .npz says its shape by itself: its
// brackets are a slice whatever is in them. A .bin says none: its first brackets without a colon are the shape.
struct Wish {
    std::string base;  // a generator or a path; empty: as the catalogue's example says
    std::optional<Shape> shape;
    std::optional<std::string> slice;  // of a file: what lies between the brackets
    std::optional<aclDataType> dtype;
    std::map<std::string, std::string> options;
};
// Sizes: what the brackets may refer to.
Wish parse_wish(const std::string& value, const Sizes& sizes);

// "[128,256]", "[T1/2,T1]".
std::vector<int64_t> parse_list(const std::string& value, const Sizes& sizes);

bool is_file(const std::string& base);
bool is_raw_file(const std::string& path);  // .bin

}  // namespace gradus::cli
