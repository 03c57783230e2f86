// Parts of a tensor, as NumPy writes them.
#pragma once

#include "cli/tensor/tensor.h"

namespace gradus::cli {

// "0:4", "::2,3", "...,-1": a copy of that part. A slice beyond the end is cut off as NumPy does, an index beyond it is
// Failure(kUsage), and so are steps backwards.
Tensor sliced(const Tensor& tensor, const std::string& slice);

}  // namespace gradus::cli
