// What operators are called with, behind the opaque types of acl_meta.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "aclnn/acl_meta.h"
#include "base/registry.h"
#include "base/tensor_view.h"

namespace gradus {

struct Tensor {
    TensorView view;
    std::vector<int64_t> storage_dims;
    std::atomic<void*> address = nullptr;  // the only part that changes: aclSetRawTensorAddr
};

struct Scalar {
    aclDataType dtype;
    std::array<std::byte, 16> value;
};

// Lists own their members: destroying the list destroys them.
struct List {
    std::vector<const void*> members;
};

using Tensors = Registry<Tensor, HandleKind::tensor>;
using Scalars = Registry<Scalar, HandleKind::scalar>;
using IntArrays = Registry<std::vector<int64_t>, HandleKind::int_array>;
using FloatArrays = Registry<std::vector<float>, HandleKind::float_array>;
using BoolArrays = Registry<std::vector<bool>, HandleKind::bool_array>;
using TensorLists = Registry<List, HandleKind::tensor_list>;
using ScalarLists = Registry<List, HandleKind::scalar_list>;

}  // namespace gradus
