// extern "C": tensors, scalars, arrays and lists.
#include <algorithm>
#include <cstring>
#include <limits>

#include "aclnn/api.h"
#include "aclnn/objects.h"

using namespace gradus;

namespace {

// Creation answers NULL and leaves a message.
template <typename Handle, typename Make>
Handle* create(const char* function, const Make& make) noexcept {
    return guarded_value<Handle*>(function, kAclnn, nullptr, [&]() -> Result<Handle*> {
        Result<void*> made = make();
        if (!made.ok()) return made.status();
        return static_cast<Handle*>(*made);
    });
}

template <typename Objects>
aclnnStatus destroy(const char* function, const char* type, const void* handle) noexcept {
    return guarded(function, kAclnn, [&]() -> Status {
        if (handle == nullptr || Objects::instance().take(handle)) return {};
        return not_alive(type);
    });
}

void tell_address(const aclTensor* tensor) {
    if (!observed()) return;
    const Lock lock = hold();
    observe([&](Observer& o) { o.on_address(tensor, 0); });
}

// Looks a handle up and gives the object to f.
template <typename Objects, typename F>
aclnnStatus with(const char* function, const char* type, const void* handle, const F& f) noexcept {
    return guarded(function, kAclnn, [&]() -> Status {
        GRADUS_TRY(not_null(kAclnn, type, handle));
        const auto object = Objects::instance().find(handle);
        if (!object) return not_alive(type);
        return f(*object);
    });
}

int64_t storage_elements(const int64_t* dims, uint64_t count) {
    int64_t product = 1;
    bool overflow = false;
    for (uint64_t d = 0; d < count; ++d) {
        if (dims[d] <= 0) return 0;
        overflow |= __builtin_mul_overflow(product, dims[d], &product);
    }
    return overflow ? -1 : product;
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

Result<std::shared_ptr<Tensor>> make_tensor(const Description& d) {
    if (d.dims == nullptr && d.rank > 0) return Status(ACLNN_ERR_PARAM_NULLPTR, "viewDims: NULL with a count above 0");
    if (d.storage == nullptr && d.storage_rank > 0)
        return Status(ACLNN_ERR_PARAM_NULLPTR, "storageDims: NULL with a count above 0");
    if (d.rank > kMaxRank || d.storage_rank > kMaxRank)
        return Status(ACLNN_ERR_PARAM_INVALID,
                      concat(std::max(d.rank, d.storage_rank), " dimensions, expected at most ", kMaxRank));
    auto tensor = std::make_shared<Tensor>();
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
    return tensor;
}

// A copy that the caller delete[]s.
Status copy_out(const int64_t* values, size_t count, int64_t** out, uint64_t* out_count) {
    auto* const copy = new int64_t[count];
    std::copy_n(values, count, copy);
    *out = copy;
    *out_count = count;
    return {};
}

// Dims of a tensor: `get` gives where they begin and how many there are.
template <typename Get>
aclnnStatus get_dims(const char* function, const aclTensor* tensor, int64_t** out, uint64_t* count, const Get& get) {
    return with<Tensors>(function, "aclTensor", tensor, [&](const Tensor& t) -> Status {
        GRADUS_TRY(not_null(kAclnn, "dims", static_cast<const void*>(out)));
        GRADUS_TRY(not_null(kAclnn, "dimsNum", count));
        const auto [values, rank] = get(t);
        return copy_out(values, rank, out, count);
    });
}

template <typename T, typename Get>
aclnnStatus get_one(const char* function, const aclTensor* tensor, T* out, const Get& get) {
    return with<Tensors>(function, "aclTensor", tensor, [&](const Tensor& t) -> Status {
        GRADUS_TRY(not_null(kAclnn, "result", static_cast<const void*>(out)));
        *out = get(t);
        return {};
    });
}

Status check_values(const void* values, uint64_t count) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max() / 8;  // of eight bytes, the longest that there are
    if (count > kMost) return {ACLNN_ERR_PARAM_INVALID, concat("size: ", count, ", expected at most ", kMost)};
    if (values == nullptr && count > 0) return {ACLNN_ERR_PARAM_NULLPTR, "value: NULL with a size above 0"};
    return {};
}

template <typename Arrays, typename Handle, typename T>
Handle* create_array(const char* function, const T* values, uint64_t count) {
    return create<Handle>(function, [&]() -> Result<void*> {
        GRADUS_TRY(check_values(values, count));
        return Arrays::instance().add(std::make_shared<std::vector<T>>(values, values + count));
    });
}

template <typename Arrays>
aclnnStatus array_size(const char* function, const char* type, const void* handle, uint64_t* size) {
    return with<Arrays>(function, type, handle, [&](const auto& array) -> Status {
        GRADUS_TRY(not_null(kAclnn, "size", size));
        *size = array.size();
        return {};
    });
}

template <typename Lists, typename Handle, typename Member>
Handle* create_list(const char* function, const Member* const* members, uint64_t count) {
    return create<Handle>(function, [&]() -> Result<void*> {
        GRADUS_TRY(check_values(members, count));
        auto list = std::make_shared<List>();
        list->members.assign(members, members + count);
        return Lists::instance().add(std::move(list));
    });
}

template <typename Lists, typename Members>
aclnnStatus destroy_list(const char* function, const char* type, const void* handle) noexcept {
    return guarded(function, kAclnn, [&]() -> Status {
        if (handle == nullptr) return {};
        const auto list = Lists::instance().take(handle);
        if (!list) return not_alive(type);
        for (const void* member : list->members) Members::instance().take(member);
        return {};
    });
}

template <typename Lists>
aclnnStatus list_size(const char* function, const char* type, const void* handle, uint64_t* size) {
    return with<Lists>(function, type, handle, [&](const List& list) -> Status {
        GRADUS_TRY(not_null(kAclnn, "size", size));
        *size = list.members.size();
        return {};
    });
}

}  // namespace

extern "C" {

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
    return create<aclTensor>(__func__, [&]() -> Result<void*> {
        auto tensor = make_tensor(
            {viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData});
        if (!tensor.ok()) return tensor.status();
        return Tensors::instance().add(std::move(*tensor));
    });
}

aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t* stride, int64_t offset, aclFormat format, const int64_t* storageDims,
                          uint64_t storageDimsNum, void* tensorData) {
    return guarded(__func__, kAclnn, [&]() -> Status {
        GRADUS_TRY(not_null(kAclnn, "tensor", tensor));
        auto fresh = make_tensor(
            {viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum, tensorData});
        if (!fresh.ok()) return fresh.status();
        if (!Tensors::instance().replace(tensor, std::move(*fresh))) return not_alive("aclTensor");
        tell_address(tensor);
        return {};
    });
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) { return destroy<Tensors>(__func__, "aclTensor", tensor); }

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
    return get_dims(__func__, tensor, viewDims, viewDimsNum,
                    [](const Tensor& t) { return std::pair(t.view.size.data(), static_cast<size_t>(t.view.rank)); });
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
    return get_dims(__func__, tensor, storageDims, storageDimsNum,
                    [](const Tensor& t) { return std::pair(t.storage_dims.data(), t.storage_dims.size()); });
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** strides, uint64_t* stridesNum) {
    return get_dims(__func__, tensor, strides, stridesNum,
                    [](const Tensor& t) { return std::pair(t.view.stride.data(), static_cast<size_t>(t.view.rank)); });
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
    return get_one(__func__, tensor, offset, [](const Tensor& t) { return t.view.offset; });
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
    return get_one(__func__, tensor, format, [](const Tensor& t) { return t.view.format; });
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
    return get_one(__func__, tensor, dataType, [](const Tensor& t) { return static_cast<aclDataType>(t.view.dtype); });
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
    return get_one(__func__, tensor, addr, [](const Tensor& t) { return t.address.load(); });
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
    return with<Tensors>(__func__, "aclTensor", tensor, [&](Tensor& t) -> Status {
        t.address = addr;
        tell_address(tensor);
        return {};
    });
}

aclScalar* aclCreateScalar(void* value, aclDataType dataType) {
    return create<aclScalar>(__func__, [&]() -> Result<void*> {
        const int64_t bytes = dtype_size(static_cast<DType>(dataType));
        if (value == nullptr) return Status(ACLNN_ERR_PARAM_INVALID, "value: NULL");
        if (bytes == 0)
            return Status(ACLNN_ERR_PARAM_INVALID,
                          concat("dataType: ", static_cast<int>(dataType), ", expected a type with a size"));
        auto scalar = std::make_shared<Scalar>();
        scalar->dtype = dataType;
        std::memcpy(scalar->value.data(), value, static_cast<size_t>(bytes));
        return Scalars::instance().add(std::move(scalar));
    });
}

aclnnStatus aclDestroyScalar(const aclScalar* scalar) { return destroy<Scalars>(__func__, "aclScalar", scalar); }

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
    return create_array<IntArrays, aclIntArray>(__func__, value, size);
}
aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size) {
    return create_array<FloatArrays, aclFloatArray>(__func__, value, size);
}
aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
    return create_array<BoolArrays, aclBoolArray>(__func__, value, size);
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) { return destroy<IntArrays>(__func__, "aclIntArray", array); }
aclnnStatus aclDestroyFloatArray(const aclFloatArray* array) {
    return destroy<FloatArrays>(__func__, "aclFloatArray", array);
}
aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
    return destroy<BoolArrays>(__func__, "aclBoolArray", array);
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
    return array_size<IntArrays>(__func__, "aclIntArray", array, size);
}
aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size) {
    return array_size<FloatArrays>(__func__, "aclFloatArray", array, size);
}
aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
    return array_size<BoolArrays>(__func__, "aclBoolArray", array, size);
}

aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size) {
    return create_list<TensorLists, aclTensorList>(__func__, value, size);
}
aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size) {
    return create_list<ScalarLists, aclScalarList>(__func__, value, size);
}
aclnnStatus aclDestroyTensorList(const aclTensorList* list) {
    return destroy_list<TensorLists, Tensors>(__func__, "aclTensorList", list);
}
aclnnStatus aclDestroyScalarList(const aclScalarList* list) {
    return destroy_list<ScalarLists, Scalars>(__func__, "aclScalarList", list);
}
aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size) {
    return list_size<TensorLists>(__func__, "aclTensorList", list, size);
}
aclnnStatus aclGetScalarListSize(const aclScalarList* list, uint64_t* size) {
    return list_size<ScalarLists>(__func__, "aclScalarList", list, size);
}

}  // extern "C"
