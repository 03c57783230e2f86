#include "base/dtype.h"

namespace gradus {

int64_t dtype_size(DType dtype) {
    switch (static_cast<aclDataType>(dtype)) {
        case ACL_BOOL:
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_HIFLOAT8:
        case ACL_FLOAT8_E5M2:
        case ACL_FLOAT8_E4M3FN:
        case ACL_FLOAT8_E8M0:
        case ACL_FLOAT6_E3M2:  // stored one a byte, as are the narrower ones
        case ACL_FLOAT6_E2M3:
        case ACL_FLOAT4_E2M1:
        case ACL_FLOAT4_E1M2:
        case ACL_INT4:
        case ACL_UINT1:
            return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16:
            return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
        case ACL_COMPLEX32:
            return 4;
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_DOUBLE:
        case ACL_COMPLEX64:
            return 8;
        case ACL_COMPLEX128:
            return 16;
        case ACL_STRING:
        case ACL_DT_UNDEFINED:
            return 0;
    }
    return 0;
}

Text dtype_name(DType dtype) {
    switch (static_cast<int>(dtype)) {
        case ACL_FLOAT:
            return "f32";
        case ACL_FLOAT16:
            return "f16";
        case ACL_BF16:
            return "bf16";
        case ACL_DOUBLE:
            return "f64";
        case ACL_INT8:
            return "int8";
        case ACL_INT16:
            return "int16";
        case ACL_INT32:
            return "int32";
        case ACL_INT64:
            return "int64";
        case ACL_UINT8:
            return "uint8";
        case ACL_UINT16:
            return "uint16";
        case ACL_UINT32:
            return "uint32";
        case ACL_UINT64:
            return "uint64";
        case ACL_BOOL:
            return "bool";
        default:
            return concat("number ", static_cast<int>(dtype));
    }
}

}  // namespace gradus
