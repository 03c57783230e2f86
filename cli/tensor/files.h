// Tensors in files: NumPy's .npy and .npz, and raw .bin as CANN's samples write them.
#pragma once

#include "cli/tensor/tensor.h"

namespace gradus::cli {

// .npy versions 1 to 3, either order of elements; FILE.npz/NAME, or FILE.npz whose array is the only one or is called
// `name`; - for stdin, which is either. `as`: take 2-byte words as that dtype (bf16 of raw uint16); bf16 of ml_dtypes
// is known by itself. Failure(kUsage) for whatever is not such a file; no allocation beyond the file's size. `doubles`:
// f64 as it is, which operators take in golden and magnitude alone, but a reference may be in.
Tensor read_npy(const std::string& path, const aclDataType* as = nullptr, bool doubles = false,
                const std::string& name = "");
// Failure(kUsage) unless the file has exactly that many bytes.
Tensor read_raw(const std::string& path, aclDataType dtype, const Shape& shape);

// The tensors of a directory of .npy files, or of a .npz, by name; none for a path that is neither.
struct Member {
    std::string name, path;  // path: for read_npy
};
std::vector<Member> members_of(const std::string& path);

// .npy, or raw when the name ends in .bin. bf16 as ml_dtypes does. Whole or not at all.
void write_tensor(const std::string& path, const Tensor& tensor);

}  // namespace gradus::cli
