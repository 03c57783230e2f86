// Collectives between ranks. Each is a task of its stream: the call returns at once, and aclrtSynchronizeStream tells
// how it ended. All ranks make the same calls in the same order, with the same count, types, operation and root.
//
// Results do not depend on where the ranks are, and are the same on all of them: element i is the operation over ranks
// 0, 1, 2 ... in that order; 16-bit floats are reduced in f32 and rounded once.
//
// In this order: count 0 is HCCL_SUCCESS at once; NULL for stream, comm or a buffer is HCCL_E_PTR; a count above
// 0x7FFFFFFFF HCCL_E_PARA; a type or operation that the device does not take HCCL_E_NOT_SUPPORT.
#ifndef GRADUS_HCCL_HCCL_H
#define GRADUS_HCCL_HCCL_H

#include "hccl/hccl_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

// send and receive buffer may be the same.
ACL_FUNC_VISIBILITY HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType,
                                             HcclReduceOp op, HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType,
                                          HcclReduceOp op, uint32_t root, HcclComm comm, aclrtStream stream);
// sendBuf: recvCount elements for every rank.
ACL_FUNC_VISIBILITY HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount,
                                                 HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                                                 aclrtStream stream);
// Counts and displacements: uint64_t for every rank, in elements.
ACL_FUNC_VISIBILITY HcclResult HcclReduceScatterV(void* sendBuf, const void* sendCounts, const void* sendDispls,
                                                  void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                                                  HcclReduceOp op, HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root,
                                             HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType,
                                           uint32_t root, HcclComm comm, aclrtStream stream);
// sendBuf may be the rank's own place in recvBuf, or its beginning.
ACL_FUNC_VISIBILITY HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType,
                                             HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAllGatherV(void* sendBuf, uint64_t sendCount, void* recvBuf, const void* recvCounts,
                                              const void* recvDispls, HcclDataType dataType, HcclComm comm,
                                              aclrtStream stream);

ACL_FUNC_VISIBILITY HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType,
                                            const void* recvBuf, uint64_t recvCount, HcclDataType recvType,
                                            HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls,
                                             HcclDataType sendType, const void* recvBuf, const void* recvCounts,
                                             const void* rdispls, HcclDataType recvType, HcclComm comm,
                                             aclrtStream stream);
// sendCountMatrix[s * ranks + d]: what rank s sends to rank d.
ACL_FUNC_VISIBILITY HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType,
                                              const void* recvBuf, HcclDataType recvType, HcclComm comm,
                                              aclrtStream stream);

// In the stream these wait for the partner.
ACL_FUNC_VISIBILITY HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank,
                                        HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank,
                                        HcclComm comm, aclrtStream stream);
ACL_FUNC_VISIBILITY HcclResult HcclBatchSendRecv(HcclSendRecvItem* sendRecvInfo, uint32_t itemNum, HcclComm comm,
                                                 aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  // GRADUS_HCCL_HCCL_H
