// extern "C": tensors, scalars, arrays and lists.
#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "aclnn/aclnn_base.h"
#include "aclnn/boundary.h"
#include "aclnn/objects.h"
#include "base/status.h"

using namespace gradus;

namespace {

aclnnStatus null_argument(const char* function, const char* argument) {
    return report(function, ACLNN_ERR_PARAM_NULLPTR, concat(argument, ": NULL"));
}

aclnnStatus not_alive(const char* function, const char* type) {
    return report(function, ACLNN_ERR_PARAM_NULLPTR, concat("not a live ", type));
}

// Creation answers NULL and leaves a message; nothing escapes.
template <typename Handle, typename Make>
Handle* create(const char* function, const Make& make) noexcept {
    try {
        return static_cast<Handle*>(make());
    } catch (const std::bad_alloc&) {
        report(function, ACLNN_ERR_RUNTIME_ERROR, "out of memory");
        return nullptr;
    }
}

template <typename Objects>
aclnnStatus destroy(const char* function, const char* type, const void* handle) noexcept {
    if (handle == nullptr) return ACLNN_SUCCESS;
    return Objects::instance().take(handle) ? ACLNN_SUCCESS : not_alive(function, type);
}

int64_t storage_elements(const int64_t* dims, uint64_t count) {
    int64_t product = 1;
    for (uint64_t d = 0; d < count; ++d) {
        if (dims[d] < 0) return 0;
        if (__builtin_mul_overflow(product, dims[d], &product)) return -1;
    }
    return product;
}

struct Description {
    const int64_t* dims;
    uint64_t rank;
    aclDataType dtype;
    const int64_t* stride;
    int64_t offset;
    aclFormat format;
    const int64_t* storage;
    uint64_t storage_rank;
    void* data;
};

Status make_tensor(const Description& d, std::shared_ptr<Tensor>& tensor) {
    if (d.dims == nullptr && d.rank > 0) return {ACLNN_ERR_PARAM_NULLPTR, "viewDims: NULL with a count above 0"};
    if (d.storage == nullptr && d.storage_rank > 0)
        return {ACLNN_ERR_PARAM_NULLPTR, "storageDims: NULL with a count above 0"};
    if (d.rank > kMaxRank || d.storage_rank > kMaxRank)
        return {ACLNN_ERR_PARAM_INVALID,
                concat(std::max(d.rank, d.storage_rank), " dimensions, expected at most ", kMaxRank)};
    tensor = std::make_shared<Tensor>();
    TensorView& view = tensor->view;
    view.rank = static_cast<int>(d.rank);
    std::copy_n(d.dims, d.rank, view.size.begin());
    if (d.stride != nullptr) {
        std::copy_n(d.stride, d.rank, view.stride.begin());
    } else {
        int64_t step = 1;  // row-major; an absurd size may wrap and is refused by the operator that gets the tensor
        for (int i = view.rank - 1; i >= 0; --i) {
            view.stride[static_cast<size_t>(i)] = step;
            step = static_cast<int64_t>(static_cast<uint64_t>(step) * static_cast<uint64_t>(view.of(i)));
        }
    }
    view.offset = d.offset;
    view.dtype = static_cast<DType>(d.dtype);
    view.format = d.format;
    view.storage = storage_elements(d.storage, d.storage_rank);
    tensor->storage_dims.assign(d.storage, d.storage + d.storage_rank);
    tensor->address = d.data;
    return {};
}

// The caller delete[]s the copy.
aclnnStatus copy_out(const int64_t* values, size_t count, int64_t** out, uint64_t* out_count, const char* function) {
    int64_t* copy = new (std::nothrow) int64_t[count];
    if (copy == nullptr) return report(function, ACLNN_ERR_RUNTIME_ERROR, "out of memory");
    std::copy_n(values, count, copy);
    *out = copy;
    *out_count = count;
    return ACLNN_SUCCESS;
}

template <typename Get>
aclnnStatus get_dims(const char* function, const aclTensor* handle, int64_t** out, uint64_t* count, const Get& get) {
    if (handle == nullptr || out == nullptr || count == nullptr) return null_argument(function, "argument");
    const auto tensor = Tensors::instance().find(handle);
    if (!tensor) return not_alive(function, "aclTensor");
    return get(*tensor);
}

template <typename T, typename Get>
aclnnStatus get_one(const char* function, const aclTensor* handle, T* out, const Get& get) {
    if (handle == nullptr || out == nullptr) return null_argument(function, handle == nullptr ? "tensor" : "result");
    const auto tensor = Tensors::instance().find(handle);
    if (!tensor) return not_alive(function, "aclTensor");
    *out = get(*tensor);
    return ACLNN_SUCCESS;
}

template <typename Handle, typename T>
Handle* create_array(const char* function, const T* values, uint64_t count) {
    if (values == nullptr && count > 0) {
        null_argument(function, "value");
        return nullptr;
    }
    return create<Handle>(function, [&] {
        auto array = std::make_shared<Array>();
        array->values = std::vector<T>(values, values + count);
        return Arrays::instance().add(std::move(array));
    });
}

template <typename T>
aclnnStatus array_size(const char* function, const void* handle, uint64_t* size) {
    if (handle == nullptr || size == nullptr) return null_argument(function, handle == nullptr ? "array" : "size");
    const auto array = Arrays::instance().find(handle);
    if (!array || !std::holds_alternative<std::vector<T>>(array->values))
        return not_alive(function, "array of that type");
    *size = std::get<std::vector<T>>(array->values).size();
    return ACLNN_SUCCESS;
}

template <typename Handle, typename Member>
Handle* create_list(const char* function, const Member* const* members, uint64_t count, bool of_tensors) {
    if (members == nullptr && count > 0) {
        null_argument(function, "value");
        return nullptr;
    }
    return create<Handle>(function, [&] {
        auto list = std::make_shared<List>();
        list->of_tensors = of_tensors;
        list->members.assign(members, members + count);
        return Lists::instance().add(std::move(list));
    });
}

aclnnStatus destroy_list(const char* function, const void* handle, bool of_tensors) noexcept {
    if (handle == nullptr) return ACLNN_SUCCESS;
    const auto found = Lists::instance().find(handle);
    if (!found || found->of_tensors != of_tensors) return not_alive(function, "list of that type");
    const auto list = Lists::instance().take(handle);
    if (!list) return not_alive(function, "list");
    for (const void* member : list->members) {
        if (of_tensors)
            Tensors::instance().take(member);
        else
            Scalars::instance().take(member);
    }
    return ACLNN_SUCCESS;
}

aclnnStatus list_size(const char* function, const void* handle, uint64_t* size, bool of_tensors) {
    if (handle == nullptr || size == nullptr) return null_argument(function, handle == nullptr ? "list" : "size");
    const auto list = Lists::instance().find(handle);
    if (!list || list->of_tensors != of_tensors) return not_alive(function, "list of that type");
    *size = list->members.size();
    return ACLNN_SUCCESS;
}

}  // namespace

extern "C" {

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
    return create<aclTensor>("aclCreateTensor", [&]() -> void* {
        std::shared_ptr<Tensor> tensor;
        const Status status = make_tensor(
            {viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData}, tensor);
        if (report("aclCreateTensor", status) != 0) return nullptr;
        return Tensors::instance().add(std::move(tensor));
    });
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorData) {
    return guarded("aclInitTensor", [&]() -> Status {
        std::shared_ptr<Tensor> fresh;
        GRADUS_TRY(make_tensor(
            {viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData}, fresh));
        if (Tensors::instance().replace(tensor, std::move(fresh))) return {};
        return {ACLNN_ERR_PARAM_NULLPTR, tensor == nullptr ? "tensor: NULL" : "not a live aclTensor"};
    });
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
    return destroy<Tensors>("aclDestroyTensor", "aclTensor", tensor);
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
    return get_dims("aclGetViewShape", tensor, viewDims, viewDimsNum, [&](const Tensor& t) {
        return copy_out(t.view.size.data(), static_cast<size_t>(t.view.rank), viewDims, viewDimsNum, "aclGetViewShape");
    });
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
    return get_dims("aclGetStorageShape", tensor, storageDims, storageDimsNum, [&](const Tensor& t) {
        return copy_out(t.storage_dims.data(), t.storage_dims.size(), storageDims, storageDimsNum,
                        "aclGetStorageShape");
    });
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** strides, uint64_t* stridesNum) {
    return get_dims("aclGetViewStrides", tensor, strides, stridesNum, [&](const Tensor& t) {
        return copy_out(t.view.stride.data(), static_cast<size_t>(t.view.rank), strides, stridesNum,
                        "aclGetViewStrides");
    });
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
    return get_one("aclGetViewOffset", tensor, offset, [](const Tensor& t) { return t.view.offset; });
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
    return get_one("aclGetFormat", tensor, format, [](const Tensor& t) { return t.view.format; });
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
    return get_one("aclGetDataType", tensor, dataType,
                   [](const Tensor& t) { return static_cast<aclDataType>(t.view.dtype); });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
    return get_one("aclGetRawTensorAddr", tensor, addr, [](const Tensor& t) { return t.address.load(); });
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
    if (tensor == nullptr) return null_argument("aclSetRawTensorAddr", "tensor");
    const auto found = Tensors::instance().find(tensor);
    if (!found) return not_alive("aclSetRawTensorAddr", "aclTensor");
    found->address = addr;
    return ACLNN_SUCCESS;
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
    const int64_t bytes = dtype_size(static_cast<DType>(dataType));
    if (value == nullptr || bytes == 0) {
        report("aclCreateScalar", ACLNN_ERR_PARAM_INVALID,
               value == nullptr ? std::string("value: NULL") : concat("dataType: ", static_cast<int>(dataType)));
        return nullptr;
    }
    return create<aclScalar>("aclCreateScalar", [&] {
        auto scalar = std::make_shared<Scalar>();
        scalar->dtype = dataType;
        std::memcpy(scalar->value.data(), value, static_cast<size_t>(bytes));
        return Scalars::instance().add(std::move(scalar));
    });
}

aclnnStatus aclDestroyScalar(const aclScalar* scalar) {
    return destroy<Scalars>("aclDestroyScalar", "aclScalar", scalar);
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
    return create_array<aclIntArray>("aclCreateIntArray", value, size);
}
aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
    return create_array<aclFloatArray>("aclCreateFloatArray", value, size);
}
aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
    return create_array<aclBoolArray>("aclCreateBoolArray", value, size);
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
    return destroy<Arrays>("aclDestroyIntArray", "aclIntArray", array);
}
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
    return destroy<Arrays>("aclDestroyFloatArray", "aclFloatArray", array);
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
    return destroy<Arrays>("aclDestroyBoolArray", "aclBoolArray", array);
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
    return array_size<int64_t>("aclGetIntArraySize", array, size);
}
aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
    return array_size<float>("aclGetFloatArraySize", array, size);
}
aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
    return array_size<bool>("aclGetBoolArraySize", array, size);
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
    return create_list<aclTensorList>("aclCreateTensorList", value, size, true);
}
aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
    return create_list<aclScalarList>("aclCreateScalarList", value, size, false);
}
aclnnStatus aclDestroyTensorList(const aclTensorList* list) { return destroy_list("aclDestroyTensorList", list, true); }
aclnnStatus aclDestroyScalarList(const aclScalarList* list) {
    return destroy_list("aclDestroyScalarList", list, false);
}
aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size) {
    return list_size("aclGetTensorListSize", list, size, true);
}
aclnnStatus aclGetScalarListSize(const aclScalarList* list, uint64_t* size) {
    return list_size("aclGetScalarListSize", list, size, false);
}

}  // extern "C"
