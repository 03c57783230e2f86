// An operator written down once: the C functions, the call by name, the checks and the catalogue all read this.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "aclnn/aclnn_base.h"
#include "aclnn/objects.h"
#include "aclnn/trials.h"
#include "base/config.h"
#include "base/nonblocking.h"
#include "base/observer.h"
#include "base/scratch.h"
#include "base/status.h"
#include "base/tensor_view.h"
#include "gradus/gradus.h"

namespace gradus {

// One value of a call, in C order; what gradusArg carries, without the name.
struct Value {
    gradusKind kind;
    union {
        const aclTensor* tensor;
        const aclIntArray* array;
        int64_t integer;
        double real;
        bool boolean;
        const char* text;
    };

    constexpr Value(const aclTensor* v) : kind(GRADUS_TENSOR), tensor(v) {}      // NOLINT(google-explicit-constructor)
    constexpr Value(const aclIntArray* v) : kind(GRADUS_INT_ARRAY), array(v) {}  // NOLINT(google-explicit-constructor)
    constexpr Value(int64_t v) : kind(GRADUS_INT), integer(v) {}                 // NOLINT(google-explicit-constructor)
    constexpr Value(double v) : kind(GRADUS_DOUBLE), real(v) {}                  // NOLINT(google-explicit-constructor)
    constexpr Value(bool v) : kind(GRADUS_BOOL), boolean(v) {}                   // NOLINT(google-explicit-constructor)
    constexpr Value(const char* v) : kind(GRADUS_STRING), text(v) {}             // NOLINT(google-explicit-constructor)
};

enum class Direction { input, output, attribute };

struct Argument {
    const char* name;
    gradusKind kind;
    Direction direction;
    bool optional = false;
    std::span<const DType> dtypes = {};
    const char* shape = "";                    // in words over named sizes
    const char* allowed = "";                  // values an attribute may have, in words
    const char* limits = "";                   // what GRADUS_LIMITS=off lifts, in words
    const char* example = "";                  // how tools make one up, in the words of trials.h
    Promise promise = Promise::summed;         // of an output
    const char* terms = "1";                   // ... how many are summed, multiplied out, over sizes and attributes
    int roundings = 0;                         // ... how often 16-bit types round on the way, in half units
    std::array<const char*, 2> in_place = {};  // the inputs this output may be exactly
    Reads reads = Reads::all;
    std::optional<Value> preset = std::nullopt;

    bool is_tensor() const { return kind == GRADUS_TENSOR; }
    // Such an argument may be f64 as well, if precision is golden or magnitude.
    bool is_float() const { return is_tensor() && gradus::is_float(dtypes[0]); }
};

constexpr Argument input(const char* name, std::span<const DType> dtypes, const char* shape, const char* example = "",
                         const char* limits = "") {
    return {.name = name,
            .kind = GRADUS_TENSOR,
            .direction = Direction::input,
            .dtypes = dtypes,
            .shape = shape,
            .limits = limits,
            .example = example};
}
constexpr Argument output(const char* name, std::span<const DType> dtypes, const char* shape, Promise promise,
                          const char* terms = "1", const char* limits = "", std::array<const char*, 2> in_place = {}) {
    return {.name = name,
            .kind = GRADUS_TENSOR,
            .direction = Direction::output,
            .dtypes = dtypes,
            .shape = shape,
            .limits = limits,
            .promise = promise,
            .terms = terms,
            .in_place = in_place};
}
// An output on whose way the 16-bit type rounds so often, as the operator states.
constexpr Argument rounding(int times, Argument argument) {
    argument.roundings = times;
    return argument;
}
constexpr Argument attribute(const char* name, gradusKind kind, const char* allowed, const char* example = "") {
    return {.name = name, .kind = kind, .direction = Direction::attribute, .allowed = allowed, .example = example};
}
constexpr Argument attribute(const char* name, gradusKind kind, const char* allowed, Value preset) {
    return {.name = name, .kind = kind, .direction = Direction::attribute, .allowed = allowed, .preset = preset};
}
constexpr Argument reading(Reads reads, Argument argument) {
    argument.reads = reads;
    return argument;
}
constexpr Argument optional(Argument argument) {
    argument.optional = true;
    return argument;
}

// An optional output that tools ask for unless told not to.
constexpr Argument asked_for(Argument argument) {
    argument.example = "zeros";
    return optional(argument);
}

inline constexpr DType kFloats[] = {DType::f32, DType::f16, DType::bf16};

// Which products a document lists, by the names of aclrtGetSocName.
struct Products {
    bool a2 = false;         // 910B*
    bool a3 = false;         // 910_93*
    bool p910_95 = false;    // 910_95*
    bool inference = false;  // 310P*
};
enum class Product { unknown, a2, a3, p910_95, inference };
Product product_of(const char* soc_name);

// A call whose handles are resolved and whose views lie inside their storage. Arguments by their index in C order.
class Call {
  public:
    Call(std::span<const Value> values, const Config& options)
        : config(options), values_(values), tensors_(values.size()) {}

    bool given(int i) const { return tensors_[static_cast<size_t>(i)] != nullptr; }
    const TensorView& view(int i) const { return tensors_[static_cast<size_t>(i)]->view; }
    int64_t integer(int i) const { return values_[static_cast<size_t>(i)].integer; }
    double real(int i) const { return values_[static_cast<size_t>(i)].real; }
    bool boolean(int i) const { return values_[static_cast<size_t>(i)].boolean; }
    const char* text(int i) const { return values_[static_cast<size_t>(i)].text; }
    std::optional<std::vector<int64_t>> array(int i) const {
        const bool left_out = arrays_.empty() || !arrays_[static_cast<size_t>(i)];
        return left_out ? std::nullopt : std::optional(*arrays_[static_cast<size_t>(i)]);
    }

    const Config config;

  private:
    friend class Preparation;
    std::span<const Value> values_;
    std::vector<std::shared_ptr<Tensor>> tensors_;
    std::vector<std::shared_ptr<const std::vector<int64_t>>> arrays_;  // as long as the values, if there are any
};

// What phase one decided: an operator's plan, plain numbers and how to run them. Addresses are indexed like the
// arguments.
class Work {
  public:
    virtual ~Work() = default;
    virtual void run(std::byte* const* address, std::byte* workspace) const noexcept GRADUS_NONBLOCKING = 0;
};

struct Planned {
    std::unique_ptr<const Work> work;
    Scratch scratch;
    int64_t bytes = 0;      // touched by a run; small ones are not worth a thread
    const char* path = "";  // which kernel, for the log
    const char* why = "";   // and why that one, where there was a choice
};

struct Operator {
    const char* name;      // without aclnn
    const char* function;  // with it
    const char* family;
    const char* formula;
    const char* document;  // title of the document that describes it
    Products products;
    bool takes_labels;  // NCHW and its like are taken as ND
    std::span<const Argument> arguments;
    Status (*check)(const Call& call);
    Planned (*plan)(const Call& call);
    // Which optional argument the others ask for and is not there, by its index; -1: none.
    int (*missing)(std::span<const Value> values) = nullptr;
    const Trials* trials = nullptr;
    bool listed = true;  // in the catalogue; false: one of our own, which no document describes
};

}  // namespace gradus
