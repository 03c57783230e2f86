// A tensor as the judge reads it: its elements as doubles, whatever the dtype, wherever they lie.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "cli/tensor/tensor.h"

namespace gradus::cli {

// The spacing of a dtype's numbers.
struct Grid {
    int digits, least_exponent, most_exponent;
    bool integer;

    double ulp(double magnitude) const;  // the subnormal spacing below the least exponent; 1 of an integer dtype
    double top() const;                  // the first power of two that overflows
    double least_normal() const;         // 0 of an integer dtype
    double rounded(double x) const;      // to nearest even
};
Grid grid_of(aclDataType dtype);

// Half a unit of the last place, relative: what one rounding to the dtype leaves at most.
double half_unit(aclDataType dtype);

class Values {
  public:
    Values() = default;
    Values(const Tensor& tensor);  // NOLINT(google-explicit-constructor): shares the tensor
    Values(aclDataType dtype, const std::byte* data, int64_t count, std::shared_ptr<const void> owner = nullptr)
        : dtype_(dtype), data_(data), count_(count), owner_(std::move(owner)) {}

    bool given() const { return data_ != nullptr || count_ == 0; }
    aclDataType dtype() const { return dtype_; }
    int64_t count() const { return count_; }
    double at(int64_t i) const;
    void load(int64_t first, std::span<double> to) const;

  private:
    aclDataType dtype_ = ACL_FLOAT;
    const std::byte* data_ = nullptr;
    int64_t count_ = -1;
    std::shared_ptr<const void> owner_;
};

// work(i) for every i below count, on as many threads as the library may use.
void in_parallel(int64_t count, const std::function<void(int64_t)>& work);

}  // namespace gradus::cli
