// What operators are called with, behind the opaque types of acl_meta.h.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <variant>
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

struct Array {
    std::variant<std::vector<int64_t>, std::vector<float>, std::vector<bool>> values;
};

// Lists own their members: destroying the list destroys them.
struct List {
    bool of_tensors;
    std::vector<const void*> members;
};

using Tensors = Registry<Tensor, HandleKind::tensor>;
using Scalars = Registry<Scalar, HandleKind::scalar>;
using Arrays = Registry<Array, HandleKind::array>;
using Lists = Registry<List, HandleKind::list>;

}  // namespace gradus
