// Error codes of the runtime (aclrt...). The codes of the interface itself are in acl_base.h.
#ifndef GRADUS_ACL_ERROR_CODES_RT_ERROR_CODES_H
#define GRADUS_ACL_ERROR_CODES_RT_ERROR_CODES_H

// 107xxx: the call is at fault.
#define ACL_ERROR_RT_PARAM_INVALID 107000
#define ACL_ERROR_RT_INVALID_DEVICEID 107001
#define ACL_ERROR_RT_CONTEXT_NULL 107002    // the calling thread has no current context
#define ACL_ERROR_RT_STREAM_CONTEXT 107003  // the stream belongs to another context
#define ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID 107006
#define ACL_ERROR_RT_THREAD_SUBSCRIBE 107012
#define ACL_ERROR_RT_STREAM_NO_CB_REG 107015
#define ACL_ERROR_RT_INVALID_HANDLE 107017  // a handle that is not, or no longer, alive
#define ACL_ERROR_RT_SYSPARAMOPT_NOT_SET 107021

// 207xxx: the machine, or this library, cannot do it.
#define ACL_ERROR_RT_FEATURE_NOT_SUPPORT 207000
#define ACL_ERROR_RT_MEMORY_ALLOCATION 207001

// 507xxx: something failed on the way.
#define ACL_ERROR_RT_INTERNAL_ERROR 507000
#define ACL_ERROR_RT_CONTEXT_RELEASE_ERROR 507007
#define ACL_ERROR_RT_REPORT_TIMEOUT 507012
#define ACL_ERROR_RT_AICPU_EXCEPTION 507018
#define ACL_ERROR_RT_DEV_SETUP_ERROR 507033
#define ACL_ERROR_RT_STREAM_SYNC_TIMEOUT 507046
#define ACL_ERROR_RT_EVENT_SYNC_TIMEOUT 507047

#endif  // GRADUS_ACL_ERROR_CODES_RT_ERROR_CODES_H
