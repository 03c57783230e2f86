// A call while it is put together: what is given, what follows from it, what is made up.
#pragma once

#include <optional>

#include "cli/base/failure.h"
#include "cli/call/assignment.h"
#include "cli/call/call.h"
#include "cli/call/shape_pattern.h"

namespace gradus::cli {

// Runs a piece of work; its Failure gets the argument's name in front.
template <typename F>
auto naming(const std::string& argument, F&& work) {
    try {
        return work();
    } catch (const Failure& failure) {
        throw Failure(failure.exit, argument + ": " + failure.what());
    }
}

// "@ExpSegsum.out": an output of another operator.
inline bool is_reference(const std::string& example) { return !example.empty() && example[0] == '@'; }

class Builder {
  public:
    Builder(const Operator& op, uint64_t seed, std::optional<aclDataType> dtype, bool judged = false)
        : op_(op), seed_(seed), dtype_(dtype), judged_(judged) {}

    void read(const std::vector<std::string>& words);
    // What another call has already, for the arguments of the same name.
    void inherit(const Builder& other);
    Call complete();

  private:
    void place(const Assignment& word);
    void expect_dtype() const;
    [[noreturn]] void unknown(const std::string& name) const;
    bool absent(const Argument& argument) const;
    bool is_auto(const Argument& argument) const;
    void expect_given(const Argument& argument) const;
    void bind(const Argument& argument, aclDataType dtype, const Shape& shape);

    nlohmann::json parse_attribute(const Argument& argument, const std::string& text) const;
    void set_attribute(const Argument& argument, nlohmann::json value);
    void complete_attributes(bool last);

    std::optional<aclDataType> settled_dtype(const Argument& argument) const;
    std::optional<aclDataType> alike(const Argument& argument) const;
    aclDataType choose_dtype(const Argument& argument) const;
    Shape infer_shape(const Argument& argument, aclDataType dtype) const;
    void load_file(const Argument& argument, Wish& wish);
    void make_input(const Argument& argument);
    void make_output(const Argument& argument);
    Tensor referred(const Argument& argument);

    const Operator& op_;
    uint64_t seed_;
    std::optional<aclDataType> dtype_;
    Bindings known_;
    std::map<std::string, std::string> texts_;              // attributes as written
    std::map<std::string, std::string> wish_texts_;         // tensors as written
    std::map<std::string, std::optional<aclDataType>> as_;  // name:dtype=
    std::map<std::string, Wish> wishes_;
    std::map<std::string, Tensor> tensors_;
    std::map<std::string, nlohmann::json> attributes_;
    std::map<std::string, std::vector<int64_t>> arrays_;
    std::map<std::string, Call> forwards_;  // run already, by operator and changes
    std::map<std::string, std::string> origins_;
    bool strict_ = false;  // an input is a file: nothing is made up unasked
    bool judged_;          // factors must be given, too
    std::string line_, misfit_;
};

}  // namespace gradus::cli
