#include "base/check.h"

#include <algorithm>

namespace gradus {

std::string dtype_list(std::span<const DType> dtypes) {
    std::string text;
    for (size_t i = 0; i < dtypes.size(); ++i)
        text += concat(i == 0 ? "" : i + 1 == dtypes.size() ? " or " : ", ", dtype_name(dtypes[i]));
    return text;
}

std::string shape_list(std::span<const int64_t> sizes) {
    std::string text = "[";
    for (size_t i = 0; i < sizes.size(); ++i) text += concat(i == 0 ? "" : ", ", sizes[i]);
    return text + "]";
}

Status expect_dtype(const char* argument, const TensorView& view, std::span<const DType> dtypes) {
    if (std::find(dtypes.begin(), dtypes.end(), view.dtype) != dtypes.end()) return {};
    return invalid(argument, "dtype ", dtype_name(view.dtype), ", expected ", dtype_list(dtypes));
}

Status expect_same_dtype(const char* argument, const TensorView& view, const char* other, const TensorView& as) {
    if (view.dtype == as.dtype) return {};
    return invalid(argument, "dtype ", dtype_name(view.dtype), ", expected ", dtype_name(as.dtype), " as ", other);
}

Status expect_rank(const char* argument, const TensorView& view, int least, int most) {
    if (view.rank >= least && view.rank <= most) return {};
    const std::string wanted = least == most ? concat(least) : concat(least, " to ", most);
    return invalid(argument, "rank ", view.rank, " of shape ", shape_text(view), ", expected rank ", wanted);
}

Status expect_shape(const char* argument, const TensorView& view, std::span<const int64_t> sizes) {
    if (static_cast<size_t>(view.rank) == sizes.size() && std::equal(sizes.begin(), sizes.end(), view.size.begin()))
        return {};
    return invalid(argument, "shape ", shape_text(view), ", expected ", shape_list(sizes));
}

}  // namespace gradus
