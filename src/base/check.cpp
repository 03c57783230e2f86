#include "base/check.h"

#include <algorithm>

namespace gradus {

Text dtype_list(std::span<const DType> dtypes) {
    Text text;
    for (size_t i = 0; i < dtypes.size(); ++i)
        append(text, i == 0 ? "" : i + 1 == dtypes.size() ? " or " : ", ", dtype_name(dtypes[i]));
    return text;
}

Text shape_list(std::span<const int64_t> sizes) {
    Text text = "[";
    for (size_t i = 0; i < sizes.size(); ++i) append(text, i == 0 ? "" : ", ", sizes[i]);
    append(text, "]");
    return text;
}

Status expect_dtype(const char* argument, const TensorView& view, std::span<const DType> dtypes) {
    if (std::find(dtypes.begin(), dtypes.end(), view.dtype) != dtypes.end()) return {};
    return invalid(argument, "dtype ", dtype_name(view.dtype), ", expected ", dtype_list(dtypes));
}

Status expect_same_dtype(const char* argument, const TensorView& view, const char* other, const TensorView& as) {
    if (view.dtype == as.dtype) return {};
    return invalid(argument, "dtype ", dtype_name(view.dtype), ", expected ", dtype_name(as.dtype), " as ", other);
}

Status expect_result_dtype(const char* argument, const TensorView& view, const char* other, const TensorView& as) {
    return view.dtype == DType::f64 ? Status() : expect_same_dtype(argument, view, other, as);
}

Status expect_rank(const char* argument, const TensorView& view, int least, int most) {
    if (view.rank >= least && view.rank <= most) return {};
    const Text wanted = least == most ? concat(least) : concat(least, " to ", most);
    return invalid(argument, "rank ", view.rank, " of shape ", shape_text(view), ", expected rank ", wanted);
}

Status expect_shape(const char* argument, const TensorView& view, std::span<const int64_t> sizes) {
    if (static_cast<size_t>(view.rank) == sizes.size() && std::equal(sizes.begin(), sizes.end(), view.size.begin()))
        return {};
    return invalid(argument, "shape ", shape_text(view), ", expected ", shape_list(sizes));
}

}  // namespace gradus
