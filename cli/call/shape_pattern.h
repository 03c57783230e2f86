// A shape as the catalogue says it, in words over named sizes: "T1,N1,D", "2*N", "ceil(BT/8)", "N...,T,T",
// "...,2*N,...", "B|1,H|1,S,N", "N, 8*N >= BT; BT for bool", "any of rank 2".
#pragma once

#include <optional>

#include "cli/call/expression.h"

namespace gradus::cli {

// What the tensors given so far say about the sizes.
struct Bindings {
    Sizes sizes;
    std::map<std::string, Shape> runs;  // the dims that an ellipsis stands for, by its name
};

class ShapePattern {
  public:
    // "; BT for bool" is another shape for that dtype.
    ShapePattern(const std::string& words, aclDataType dtype);

    // Learns the sizes of a tensor; false if it cannot be such a one. Two tensors that contradict each other are left
    // to the operator's own check, whose word counts.
    bool bind(const Shape& shape, Bindings& known) const;
    // Nothing if a size is not known.
    std::optional<Shape> shape(const Bindings& known) const;
    // The sizes that are still needed, for a message.
    std::vector<std::string> missing(const Bindings& known) const;

  private:
    struct Dim {
        std::string expression;  // of a run: its name
        bool run = false, or_one = false;
    };
    bool any_ = false;
    std::vector<Dim> dims_;
    std::vector<std::string> conditions_;  // "8*N >= BT"
};

// All names of sizes in the words, whatever the dtype.
std::vector<std::string> size_names(const std::string& words);

}  // namespace gradus::cli
