// The header of a .npy file: a Python dictionary in ASCII. Written by others, so nothing in it is believed.
#pragma once

#include <string>

#include "cli/tensor/tensor.h"

namespace gradus::cli {

struct NpyHeader {
    std::string descr;
    bool fortran_order = false;
    Shape shape;
};

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. Failure(kUsage) with what is wrong with it.
NpyHeader parse_npy_header(const std::string& text);
// Version 1, padded to 64 bytes as NumPy does; magic included.
std::string npy_header(const std::string& descr, const Shape& shape);

// '<f4' and its like; '<V2' is what ml_dtypes writes for bf16. Failure(kUsage) for the big-endian, structured, object
// and all else.
aclDataType dtype_of_descr(const std::string& descr);
std::string descr_of(aclDataType dtype);

}  // namespace gradus::cli
