// Communicators: who takes part in a collective.
//
// Unless said otherwise a NULL is HCCL_E_PTR, and a communicator that is not alive HCCL_E_PARA; aclGetRecentErrMsg has
// a sentence about every code that is not 0.
#ifndef GRADUS_HCCL_HCCL_COMM_H
#define GRADUS_HCCL_HCCL_COMM_H

#include "acl/acl.h"
#include "hccl/hccl_types.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Opens the meeting point of one communicator in this process, and writes down how to reach it.
ACL_FUNC_VISIBILITY HcclResult HcclGetRootInfo(HcclRootInfo* rootInfo);

// These return when all ranks have come, or after HCCL_CONNECT_TIMEOUT seconds with HCCL_E_TIMEOUT.
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfo(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                                    HcclComm* comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitRootInfoConfig(uint32_t nRanks, const HcclRootInfo* rootInfo, uint32_t rank,
                                                          const HcclCommConfig* config, HcclComm* comm);

// clusterInfo: the path of a rank table in JSON.
ACL_FUNC_VISIBILITY HcclResult HcclCommInitClusterInfo(const char* clusterInfo, uint32_t rank, HcclComm* comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommInitClusterInfoConfig(const char* clusterInfo, uint32_t rank,
                                                             HcclCommConfig* config, HcclComm* comm);

// All ranks in this process, rank i on devices[i]. On failure nothing is left.
ACL_FUNC_VISIBILITY HcclResult HcclCommInitAll(uint32_t ndev, int32_t* devices, HcclComm* comms);

// Members pass the same ids; a rank that is none passes rankIds NULL and subCommId 0xFFFFFFFF, and gets no
// communicator.
ACL_FUNC_VISIBILITY HcclResult HcclCreateSubCommConfig(HcclComm* comm, uint32_t rankNum, uint32_t* rankIds,
                                                       uint64_t subCommId, uint32_t subCommRankId,
                                                       HcclCommConfig* config, HcclComm* subComm);

// Local: the other ranks may go on until they need this one. HCCL_E_AGAIN while its work is queued.
ACL_FUNC_VISIBILITY HcclResult HcclCommDestroy(HcclComm comm);

ACL_FUNC_VISIBILITY HcclResult HcclGetRankSize(HcclComm comm, uint32_t* rankSize);
ACL_FUNC_VISIBILITY HcclResult HcclGetRankId(HcclComm comm, uint32_t* rank);
ACL_FUNC_VISIBILITY HcclResult HcclGetCommName(HcclComm comm, char* commName);  // room for COMM_NAME_MAX_LENGTH
ACL_FUNC_VISIBILITY HcclResult HcclCommGetHandleWithName(const char* commName, HcclComm* comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommGetStatus(const char* commId, HcclCommStatus* status);
ACL_FUNC_VISIBILITY HcclResult HcclGetCommAsyncError(HcclComm comm,
                                                     HcclResult* asyncError);  // why the communicator is dead, or 0
ACL_FUNC_VISIBILITY const char* HcclGetErrorString(HcclResult code);

// HCCL_DETERMINISTIC: 0, 1 or 2. The order of a reduction is always fixed here.
ACL_FUNC_VISIBILITY HcclResult HcclSetConfig(HcclConfig config, HcclConfigValue configValue);
ACL_FUNC_VISIBILITY HcclResult HcclGetConfig(HcclConfig config, HcclConfigValue* configValue);
// A feature of HcclCommConfig is there if this is greater than its number.
ACL_FUNC_VISIBILITY uint32_t HcclGetCommConfigCapability(void);

// All streams that reach it go on together.
ACL_FUNC_VISIBILITY HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);

// Around inits of several ranks in one thread, and HcclCreateSubCommConfig, which run together at the end; or around
// sends and receives, which become one batch; or around collectives.
ACL_FUNC_VISIBILITY HcclResult HcclGroupStart(void);
ACL_FUNC_VISIBILITY HcclResult HcclGroupEnd(void);
ACL_FUNC_VISIBILITY HcclResult HcclGroupStatusGet(bool* isGroupEnabled);

// Of the device alone: HCCL_E_NOT_SUPPORT.
ACL_FUNC_VISIBILITY HcclResult HcclCommSuspend(HcclComm comm);
ACL_FUNC_VISIBILITY HcclResult HcclCommResume(HcclComm comm);

// Everything "not set", and which version of the structure the program was compiled with.
static inline void HcclCommConfigInit(HcclCommConfig* config) {
    if (config == NULL) return;
    char* const bytes = (char*)config;
    for (size_t i = 0; i < sizeof *config; ++i) bytes[i] = 0;
    *(size_t*)(void*)config->reserved = sizeof *config;
    *(uint32_t*)(void*)(config->reserved + 8) = 0xf0f0f0f0;
    *(uint32_t*)(void*)(config->reserved + 12) = 10;
    config->hcclBufferSize = 0xffffffff;
    config->hcclDeterministic = 0xffffffff;
    config->hcclRdmaTrafficClass = 0xffffffff;
    config->hcclRdmaServiceLevel = 0xffffffff;
    config->hcclExecTimeOut = -1;
    config->hcclQos = 0xffffffff;
}

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_HCCL_HCCL_COMM_H
