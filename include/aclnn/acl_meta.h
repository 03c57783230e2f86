// What operators are called with: tensors, scalars, arrays and lists.
#ifndef GRADUS_ACLNN_ACL_META_H
#define GRADUS_ACLNN_ACL_META_H

#include "../acl/acl_base.h"

#define ACLNN_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t aclnnStatus;

typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef struct aclOpExecutor aclOpExecutor;

// ---- Tensors

// A view of memory that stays the caller's: element i is at data + size(dataType) * (offset + sum of i[d] * stride[d]).
// The arrays are copied. stride NULL: row-major; 0 dimensions: one element; strides and offset count elements, and a
// stride of 0 broadcasts. NULL is returned for NULL dimensions with a count above 0, for more than 25 dimensions, and
// when memory is out; all else is judged by the operator, which refuses a view that leaves the product of storageDims.
ACLNN_API aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                     const int64_t* stride, int64_t offset, aclFormat format,
                                     const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData);
// Describes an existing tensor anew.
ACLNN_API aclnnStatus aclInitTensor(aclTensor* tensor, const int64_t* viewDims, uint64_t viewDimsNum,
                                    aclDataType dataType, const int64_t* stride, int64_t offset, aclFormat format,
                                    const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData);
// May be called as soon as phase two has returned: queued work owns what it needs. Destroying NULL succeeds, here and
// below.
ACLNN_API aclnnStatus aclDestroyTensor(const aclTensor* tensor);

// The three below return a new array: delete[] it in C++. A NULL argument of any getter: ACLNN_ERR_PARAM_NULLPTR.
ACLNN_API aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum);
ACLNN_API aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum);
ACLNN_API aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** strides, uint64_t* stridesNum);
ACLNN_API aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset);
ACLNN_API aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format);
ACLNN_API aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType);

// An address that is set between the two phases of an operator takes effect.
ACLNN_API aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr);
ACLNN_API aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr);

// ---- Scalars and arrays: the values are copied

ACLNN_API aclScalar* aclCreateScalar(void* value, aclDataType dataType);
ACLNN_API aclnnStatus aclDestroyScalar(const aclScalar* scalar);

ACLNN_API aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size);
ACLNN_API aclnnStatus aclDestroyIntArray(const aclIntArray* array);
ACLNN_API aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size);

ACLNN_API aclFloatArray* aclCreateFloatArray(const float* value, uint64_t size);
ACLNN_API aclnnStatus aclDestroyFloatArray(const aclFloatArray* array);
ACLNN_API aclnnStatus aclGetFloatArraySize(const aclFloatArray* array, uint64_t* size);

ACLNN_API aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size);
ACLNN_API aclnnStatus aclDestroyBoolArray(const aclBoolArray* array);
ACLNN_API aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size);

// ---- Lists: they take over their members and destroy them

ACLNN_API aclTensorList* aclCreateTensorList(const aclTensor* const* value, uint64_t size);
ACLNN_API aclnnStatus aclDestroyTensorList(const aclTensorList* list);
ACLNN_API aclnnStatus aclGetTensorListSize(const aclTensorList* list, uint64_t* size);

ACLNN_API aclScalarList* aclCreateScalarList(const aclScalar* const* value, uint64_t size);
ACLNN_API aclnnStatus aclDestroyScalarList(const aclScalarList* list);
ACLNN_API aclnnStatus aclGetScalarListSize(const aclScalarList* list, uint64_t* size);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACLNN_ACL_META_H
