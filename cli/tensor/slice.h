// Parts of a tensor, as NumPy writes them.
#pragma once

#include "cli/tensor/tensor.h"

namespace gradus::cli {

// "3", "0:4", "::2,3", "...,-1": a copy of that part; an index takes its dim away. A slice beyond the end is cut off as
// NumPy does. Failure(kUsage) for an index beyond it, for a slice that takes nothing and for steps backwards.
Tensor sliced(const Tensor& tensor, const std::string& slice);

}  // namespace gradus::cli
