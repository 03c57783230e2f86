// Tensors, scalars, arrays and lists: creation, getters, stale and mistaken handles.
#include <gtest/gtest.h>

#include "aclnn/aclnn_base.h"
#include "testing/call.h"

namespace gradus::testing {
namespace {

constexpr int64_t kShape[] = {2, 3}, kStride[] = {1, 2}, kStorage[] = {7, 9};

aclTensor* some_tensor() {
    return aclCreateTensor(kShape, 2, ACL_BF16, kStride, 5, ACL_FORMAT_NC, kStorage, 2,
                           reinterpret_cast<void*>(0x1000));
}

std::vector<int64_t> dims(aclnnStatus (*get)(const aclTensor*, int64_t**, uint64_t*), const aclTensor* tensor) {
    int64_t* values = nullptr;
    uint64_t count = 0;
    EXPECT_EQ(get(tensor, &values, &count), 0) << take_message();
    std::vector<int64_t> copy(values, values + count);
    delete[] values;
    return copy;
}

TEST(Tensor, Getters) {
    aclTensor* tensor = some_tensor();
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(dims(aclGetViewShape, tensor), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(dims(aclGetViewStrides, tensor), (std::vector<int64_t>{1, 2}));
    EXPECT_EQ(dims(aclGetStorageShape, tensor), (std::vector<int64_t>{7, 9}));
    int64_t offset = 0;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    aclDataType type = ACL_DT_UNDEFINED;
    void* address = nullptr;
    EXPECT_EQ(aclGetViewOffset(tensor, &offset), 0);
    EXPECT_EQ(aclGetFormat(tensor, &format), 0);
    EXPECT_EQ(aclGetDataType(tensor, &type), 0);
    EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), 0);
    EXPECT_EQ(offset, 5);
    EXPECT_EQ(format, ACL_FORMAT_NC);
    EXPECT_EQ(type, ACL_BF16);
    EXPECT_EQ(address, reinterpret_cast<void*>(0x1000));
    EXPECT_EQ(aclSetRawTensorAddr(tensor, nullptr), 0);
    EXPECT_EQ(aclGetRawTensorAddr(tensor, &address), 0);
    EXPECT_EQ(address, nullptr);
    EXPECT_EQ(aclDestroyTensor(tensor), 0);
}

TEST(Tensor, NullArguments) {
    aclTensor* tensor = some_tensor();
    int64_t* values = nullptr;
    uint64_t count = 0;
    for (auto* get : {aclGetViewShape, aclGetViewStrides, aclGetStorageShape}) {
        EXPECT_EQ(get(nullptr, &values, &count), 161001);
        EXPECT_EQ(get(tensor, nullptr, &count), 161001);
        EXPECT_EQ(get(tensor, &values, nullptr), 161001);
    }
    int64_t offset;
    EXPECT_EQ(aclGetViewOffset(nullptr, &offset), 161001);
    EXPECT_EQ(aclGetViewOffset(tensor, nullptr), 161001);
    EXPECT_EQ(aclGetFormat(tensor, nullptr), 161001);
    EXPECT_EQ(aclGetDataType(nullptr, nullptr), 161001);
    EXPECT_EQ(aclGetRawTensorAddr(tensor, nullptr), 161001);
    EXPECT_EQ(aclSetRawTensorAddr(nullptr, nullptr), 161001);
    EXPECT_EQ(aclDestroyTensor(nullptr), 0);
    EXPECT_EQ(aclDestroyTensor(tensor), 0);
}

// Where a function answers NULL, the code is the thread's last error.
void expect_failure(int code, const std::string& message) {
    EXPECT_EQ(aclrtGetLastError(ACL_RT_THREAD_LEVEL), code);
    EXPECT_EQ(take_message(), message);
}

TEST(Tensor, Creation) {
    const std::vector<int64_t> many(26, 1);
    take_message();
    EXPECT_EQ(aclCreateTensor(nullptr, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kShape, 2, nullptr), nullptr);
    expect_failure(161001, "aclCreateTensor: viewDims: NULL with a count above 0");
    EXPECT_EQ(aclCreateTensor(kShape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 2, nullptr), nullptr);
    expect_failure(161001, "aclCreateTensor: storageDims: NULL with a count above 0");
    for (const auto& [view, storage] : {std::pair{26, 26}, {26, 25}, {25, 26}}) {
        EXPECT_EQ(aclCreateTensor(many.data(), static_cast<uint64_t>(view), ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND,
                                  many.data(), static_cast<uint64_t>(storage), nullptr),
                  nullptr);
        expect_failure(161002, "aclCreateTensor: 26 dimensions, expected at most 25");
    }
    aclTensor* most = aclCreateTensor(many.data(), 25, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, many.data(), 25, nullptr);
    EXPECT_NE(most, nullptr);
    aclTensor* scalar = aclCreateTensor(nullptr, 0, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr);
    EXPECT_TRUE(dims(aclGetViewShape, scalar).empty()) << "0 dims: one element";
    // dtype, strides and address are judged by the operator, not here
    aclTensor* odd =
        aclCreateTensor(kShape, 2, static_cast<aclDataType>(55), nullptr, -5, ACL_FORMAT_UNDEFINED, kShape, 2, nullptr);
    EXPECT_EQ(dims(aclGetViewStrides, odd), (std::vector<int64_t>{3, 1})) << "NULL stride is row-major";
    for (aclTensor* tensor : {most, scalar, odd}) EXPECT_EQ(aclDestroyTensor(tensor), 0);
}

TEST(Tensor, DescribedAnew) {
    aclTensor* tensor = some_tensor();
    const int64_t one = 4;
    EXPECT_EQ(aclInitTensor(tensor, &one, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &one, 1, nullptr), 0);
    EXPECT_EQ(dims(aclGetViewShape, tensor), (std::vector<int64_t>{4}));
    EXPECT_EQ(aclInitTensor(nullptr, &one, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &one, 1, nullptr), 161001);
    EXPECT_NE(aclInitTensor(tensor, nullptr, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, &one, 1, nullptr), 0);
    EXPECT_EQ(dims(aclGetViewShape, tensor), (std::vector<int64_t>{4})) << "a refused call changes nothing";
    EXPECT_EQ(aclDestroyTensor(tensor), 0);
}

// A stale, foreign or mistaken handle is an answer, never a crash.
TEST(Handles, StaleAndMistaken) {
    aclTensor* tensor = some_tensor();
    int64_t offset;
    for (const int step : {1, 8, 15})
        EXPECT_EQ(aclGetViewOffset(reinterpret_cast<aclTensor*>(reinterpret_cast<uintptr_t>(tensor) + step), &offset),
                  161001)
            << "into a handle";
    EXPECT_EQ(aclDestroyTensor(tensor), 0);
    EXPECT_EQ(aclDestroyTensor(tensor), 161001);
    EXPECT_EQ(aclGetViewOffset(tensor, &offset), 161001);
    EXPECT_EQ(aclSetRawTensorAddr(tensor, nullptr), 161001);
    uint64_t junk[8] = {}, size = 0;
    EXPECT_EQ(aclGetViewOffset(reinterpret_cast<aclTensor*>(junk), &offset), 161001);
    const int64_t values[] = {4, 5, 6};
    aclIntArray* array = aclCreateIntArray(values, 3);
    EXPECT_EQ(aclGetViewOffset(reinterpret_cast<aclTensor*>(array), &offset), 161001);
    EXPECT_EQ(aclGetFloatArraySize(reinterpret_cast<aclFloatArray*>(array), &size), 161001);
    EXPECT_EQ(aclGetIntArraySize(array, &size), 0);
    EXPECT_EQ(aclGetIntArraySize(array, nullptr), 161001);
    EXPECT_EQ(size, 3u);
    EXPECT_EQ(aclDestroyIntArray(array), 0);
    EXPECT_EQ(aclDestroyIntArray(array), 161001);
    aclrtStream wrong = stream();
    EXPECT_EQ(aclDestroyTensor(static_cast<aclTensor*>(wrong)), 161001) << "a stream is no tensor";
    EXPECT_EQ(aclrtDestroyStream(tensor), 107017) << "a tensor is no stream";
    EXPECT_EQ(aclrtSynchronizeStream(wrong), 0) << "and the stream lives on";
}

TEST(Arrays, SizesAndNulls) {
    const float floats[] = {1, 2};
    const bool bools[] = {true, false, true};
    uint64_t size = 0;
    aclFloatArray* f = aclCreateFloatArray(floats, 2);
    aclBoolArray* b = aclCreateBoolArray(bools, 3);
    aclIntArray* none = aclCreateIntArray(nullptr, 0);
    EXPECT_EQ(aclGetFloatArraySize(f, &size), 0);
    EXPECT_EQ(size, 2u);
    EXPECT_EQ(aclGetBoolArraySize(b, &size), 0);
    EXPECT_EQ(size, 3u);
    EXPECT_EQ(aclGetIntArraySize(none, &size), 0);
    EXPECT_EQ(size, 0u);
    take_message();
    EXPECT_EQ(aclCreateIntArray(nullptr, 2), nullptr);
    expect_failure(161001, "aclCreateIntArray: value: NULL with a size above 0");
    EXPECT_EQ(aclCreateIntArray(reinterpret_cast<const int64_t*>(floats), INT64_MAX / 8 + 1), nullptr);
    expect_failure(161002, "aclCreateIntArray: size: 1152921504606846976, expected at most 1152921504606846975");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which end the process instead
    EXPECT_EQ(aclCreateIntArray(reinterpret_cast<const int64_t*>(floats), INT64_MAX / 8), nullptr);
    expect_failure(361001, "aclCreateIntArray: out of memory");
#endif
    EXPECT_EQ(aclGetIntArraySize(nullptr, &size), 161001);
    EXPECT_EQ(aclGetBoolArraySize(b, nullptr), 161001);
    EXPECT_EQ(aclDestroyFloatArray(f), 0);
    EXPECT_EQ(aclDestroyBoolArray(b), 0);
    EXPECT_EQ(aclDestroyIntArray(none), 0);
    EXPECT_EQ(aclDestroyIntArray(nullptr), 0);
}

TEST(Lists, DestroyTheirMembers) {
    aclTensor* members[] = {some_tensor(), some_tensor()};
    aclTensorList* list = aclCreateTensorList(members, 2);
    uint64_t size = 0;
    EXPECT_EQ(aclGetTensorListSize(list, &size), 0);
    EXPECT_EQ(size, 2u);
    EXPECT_EQ(aclDestroyScalarList(reinterpret_cast<aclScalarList*>(list)), 161001) << "the other kind of list";
    EXPECT_EQ(aclDestroyTensorList(list), 0);
    int64_t offset;
    EXPECT_EQ(aclGetViewOffset(members[0], &offset), 161001) << "gone with the list";
    EXPECT_EQ(aclDestroyTensorList(list), 161001);
    float value = 1;
    aclScalar* scalars[] = {aclCreateScalar(&value, ACL_FLOAT)};
    aclScalarList* scalar_list = aclCreateScalarList(scalars, 1);
    EXPECT_EQ(aclGetScalarListSize(scalar_list, &size), 0);
    EXPECT_EQ(size, 1u);
    EXPECT_EQ(aclDestroyScalarList(scalar_list), 0);
    EXPECT_EQ(aclDestroyScalar(scalars[0]), 161001);
    take_message();
    EXPECT_EQ(aclCreateScalar(nullptr, ACL_FLOAT), nullptr);
    expect_failure(161002, "aclCreateScalar: value: NULL");
    EXPECT_EQ(aclCreateScalar(&value, ACL_STRING), nullptr);
    expect_failure(161002, "aclCreateScalar: dataType: 13, expected a type with a size");
    EXPECT_EQ(aclCreateScalar(&value, static_cast<aclDataType>(55)), nullptr);
    expect_failure(161002, "aclCreateScalar: dataType: 55, expected a type with a size");
    const double wide[] = {1, 2};
    EXPECT_EQ(aclDestroyScalar(aclCreateScalar(const_cast<double*>(wide), ACL_COMPLEX128)), 0);
    EXPECT_EQ(aclDestroyScalar(nullptr), 0);
    EXPECT_EQ(aclDestroyTensorList(nullptr), 0);
    EXPECT_EQ(aclGetTensorListSize(nullptr, &size), 161001);
}

}  // namespace
}  // namespace gradus::testing
