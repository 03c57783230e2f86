// The vocabulary of validation: each word is one refusal with a message that names argument, got and wanted.
#pragma once

#include <span>

#include "aclnn/aclnn_base.h"
#include "base/status.h"
#include "base/tensor_view.h"

namespace gradus {

template <typename... Parts>
Status invalid(const char* argument, const Parts&... parts) {
    return {ACLNN_ERR_PARAM_INVALID, concat(argument, ": ", parts...)};
}

// A refusal that comes from the device and not from the mathematics.
template <typename... Parts>
Status beyond_limit(const char* argument, const Parts&... parts) {
    return invalid(argument, parts..., " (a limit of the device: GRADUS_LIMITS=off lifts it)");
}

Text dtype_list(std::span<const DType> dtypes);  // "f32, f16 or bf16"
Text shape_list(std::span<const int64_t> sizes);

Status expect_dtype(const char* argument, const TensorView& view, std::span<const DType> dtypes);
Status expect_same_dtype(const char* argument, const TensorView& view, const char* other, const TensorView& as);
// An output of golden or magnitude may be f64, whatever the inputs are.
Status expect_result_dtype(const char* argument, const TensorView& view, const char* other, const TensorView& as);
Status expect_rank(const char* argument, const TensorView& view, int least, int most);
Status expect_shape(const char* argument, const TensorView& view, std::span<const int64_t> sizes);

}  // namespace gradus
