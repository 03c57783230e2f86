// Every header, spelled in every way that programs spell it, among status macros that the program defines as well:
// before the headers and after them.
#define ACLNN_SUCCESS 0
#define ACLNN_ERR_PARAM_NULLPTR 161001

#include "acl/acl.h"
#include "acl/acl_base.h"
#include "acl/acl_rt.h"
#include "acl/error_codes/rt_error_codes.h"
#include "acl_meta.h"
#include "aclnn/acl_meta.h"
#include "aclnn/aclnn_base.h"
#include "aclnn/opdev/bfloat16.h"
#include "aclnn/opdev/fp16_t.h"
#include "aclnn_base.h"
#include "gradus/gradus.h"
#include "hccl/hccl.h"
#include "hccl/hccl_comm.h"
#include "hccl/hccl_types.h"
#include "operator_headers.h"  // made from the names in include/aclnnop

#define ACLNN_SUCCESS 0
#define ACLNN_ERR_PARAM_NULLPTR 161001
#define ACLNN_ERR_PARAM_INVALID 161002
#define ACLNN_ERR_RUNTIME_ERROR 361001
#define ACLNN_ERR_INNER 561000
#define ACLNN_ERR_INNER_CREATE_EXECUTOR 561101
#define ACLNN_ERR_INNER_NULLPTR 561103
