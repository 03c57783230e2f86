// The header a program starts from: initialisation, the last message, and the runtime.
#ifndef GRADUS_ACL_ACL_H
#define GRADUS_ACL_ACL_H

#include "acl_base.h"
#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

// NULL or "" is the default configuration; a path is read as JSON, and keys that mean nothing here are ignored.
// Unreadable: ACL_ERROR_INVALID_FILE; malformed: ACL_ERROR_PARSE_FILE. While initialised a further call counts and
// returns ACL_ERROR_REPEAT_INITIALIZE, which is harmless. No function of the runtime asks for it.
ACL_FUNC_VISIBILITY aclError aclInit(const char* configPath);

// Ends initialisation, however often it was asked for; again: ACL_ERROR_REPEAT_FINALIZE. Memory, streams and devices of
// the program stay as they are, and aclInit may follow.
ACL_FUNC_VISIBILITY aclError aclFinalize(void);

// Takes back one aclInit; refCount (NULL allowed) receives how many are left.
ACL_FUNC_VISIBILITY aclError aclFinalizeReference(uint64_t* refCount);

// What went wrong last on the calling thread: function, argument, what was given and what is wanted. Reading clears it;
// NULL when there is nothing. The text is valid until the next call of this function on the same thread.
ACL_FUNC_VISIBILITY const char* aclGetRecentErrMsg(void);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_ACL_ACL_H
