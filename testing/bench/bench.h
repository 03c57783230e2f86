// What a family's bench.cpp is written with: tensors, trials, and the limits they are held against. The library is used
// through its public C interface alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"

namespace gradus::bench {

using Shape = std::vector<int64_t>;
std::string shape_text(const Shape& shape);

// Throws with the library's own message unless code is 0.
void check(int code, const char* what);

// A dense tensor in device memory, every page of it touched, full of random numbers of either sign and of magnitude 1/8
// to 4; of bool, false. A copy is the same tensor.
class Tensor {
  public:
    Tensor(const Shape& shape, aclDataType dtype);
    operator aclTensor*() const { return memory_->tensor; }  // NOLINT(google-explicit-constructor)
    std::byte* data() const { return memory_->data; }
    int64_t bytes() const { return memory_->bytes; }

  private:
    struct Memory {
        aclTensor* tensor = nullptr;
        std::byte* data = nullptr;
        int64_t bytes = 0;
        Memory() = default;
        Memory(const Memory&) = delete;
        Memory& operator=(const Memory&) = delete;
        ~Memory();
    };
    std::shared_ptr<Memory> memory_;
};

// Some outputs are aclTensor* in their prototypes, some const aclTensor*.
inline aclTensor* writable(const Tensor& tensor) {
    return const_cast<aclTensor*>(static_cast<const aclTensor*>(tensor));  // NOLINT: the handle is not written to
}

// The best this machine could do for the operator.
struct Limit {
    std::function<double()> seconds;  // runs it once
    double work = 0;                  // bytes or floating-point operations of one run, the operator's as well
    const char* unit = "GB/s";
    std::string kind;  // "stream: 3 reads, 2 writes, non-temporal"
};

// An operator on given tensors: both phases, and its limit.
struct Trial {
    std::function<aclnnStatus(uint64_t* size, aclOpExecutor** executor)> prepare;
    aclnnStatus (*launch)(void* workspace, uint64_t size, aclOpExecutor* executor, aclrtStream stream);
    Limit limit;  // without one for a tiny call
};

struct Case {
    std::string op;  // the aclnn name without the prefix
    Shape shape;     // of the operand that names the case
    aclDataType dtype;
    double target;                // least fraction of the limit; of a tiny call, most microseconds
    std::function<Trial()> make;  // allocates, so that one case at a time is in memory
};

// Families add their cases in the order in which they shall be shown.
class Bench {
  public:
    void add(Case c) { cases_.push_back(std::move(c)); }
    // The whole call on a tensor so small that only the call counts.
    void add_tiny(Case c) { tiny_.push_back(std::move(c)); }
    const std::vector<Case>& cases() const { return cases_; }
    const std::vector<Case>& tiny() const { return tiny_; }

  private:
    std::vector<Case> cases_, tiny_;
};

inline constexpr double kTinyMicroseconds = 10;

}  // namespace gradus::bench
