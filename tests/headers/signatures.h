// Every function of the interface, typed in a second time: SIGNATURE(result, name, arguments), defined by the including
// file. tests/check_compatibility.sh finds one that is missing.

SIGNATURE(aclError, aclInit, (const char*))
SIGNATURE(aclError, aclFinalize, (void))
SIGNATURE(aclError, aclFinalizeReference, (uint64_t*))
SIGNATURE(const char*, aclGetRecentErrMsg, (void))
SIGNATURE(size_t, aclDataTypeSize, (aclDataType))
SIGNATURE(float, aclFloat16ToFloat, (aclFloat16))
SIGNATURE(aclFloat16, aclFloatToFloat16, (float))

SIGNATURE(aclDataBuffer*, aclCreateDataBuffer, (void*, size_t))
SIGNATURE(aclError, aclDestroyDataBuffer, (const aclDataBuffer*))
SIGNATURE(aclError, aclUpdateDataBuffer, (aclDataBuffer*, void*, size_t))
SIGNATURE(void*, aclGetDataBufferAddr, (const aclDataBuffer*))
SIGNATURE(size_t, aclGetDataBufferSizeV2, (const aclDataBuffer*))

SIGNATURE(aclError, aclrtGetLastError, (aclrtLastErrLevel))
SIGNATURE(aclError, aclrtPeekAtLastError, (aclrtLastErrLevel))

SIGNATURE(aclError, aclrtSetDevice, (int32_t))
SIGNATURE(aclError, aclrtResetDevice, (int32_t))
SIGNATURE(aclError, aclrtResetDeviceForce, (int32_t))
SIGNATURE(aclError, aclrtGetDevice, (int32_t*))
SIGNATURE(aclError, aclrtGetDeviceCount, (uint32_t*))
SIGNATURE(aclError, aclrtGetRunMode, (aclrtRunMode*))
SIGNATURE(const char*, aclrtGetSocName, (void))
SIGNATURE(aclError, aclrtGetVersion, (int32_t*, int32_t*, int32_t*))
SIGNATURE(aclError, aclrtGetDeviceInfo, (uint32_t, aclrtDevAttr, int64_t*))
SIGNATURE(aclError, aclrtDeviceCanAccessPeer, (int32_t*, int32_t, int32_t))
SIGNATURE(aclError, aclrtDeviceEnablePeerAccess, (int32_t, uint32_t))
SIGNATURE(aclError, aclrtDeviceDisablePeerAccess, (int32_t))
SIGNATURE(aclError, aclrtSynchronizeDevice, (void))
SIGNATURE(aclError, aclrtSynchronizeDeviceWithTimeout, (int32_t))

SIGNATURE(aclError, aclrtCreateContext, (aclrtContext*, int32_t))
SIGNATURE(aclError, aclrtDestroyContext, (aclrtContext))
SIGNATURE(aclError, aclrtSetCurrentContext, (aclrtContext))
SIGNATURE(aclError, aclrtGetCurrentContext, (aclrtContext*))
SIGNATURE(aclError, aclrtCtxSetSysParamOpt, (aclSysParamOpt, int64_t))
SIGNATURE(aclError, aclrtCtxGetSysParamOpt, (aclSysParamOpt, int64_t*))
SIGNATURE(aclError, aclrtSetSysParamOpt, (aclSysParamOpt, int64_t))
SIGNATURE(aclError, aclrtGetSysParamOpt, (aclSysParamOpt, int64_t*))

SIGNATURE(aclError, aclrtCreateStream, (aclrtStream*))
SIGNATURE(aclError, aclrtCreateStreamWithConfig, (aclrtStream*, uint32_t, uint32_t))
SIGNATURE(aclError, aclrtDestroyStream, (aclrtStream))
SIGNATURE(aclError, aclrtDestroyStreamForce, (aclrtStream))
SIGNATURE(aclError, aclrtSynchronizeStream, (aclrtStream))
SIGNATURE(aclError, aclrtSynchronizeStreamWithTimeout, (aclrtStream, int32_t))
SIGNATURE(aclError, aclrtStreamQuery, (aclrtStream, aclrtStreamStatus*))
SIGNATURE(aclError, aclrtSetStreamFailureMode, (aclrtStream, uint64_t))

SIGNATURE(aclError, aclrtCreateEvent, (aclrtEvent*))
SIGNATURE(aclError, aclrtCreateEventWithFlag, (aclrtEvent*, uint32_t))
SIGNATURE(aclError, aclrtCreateEventExWithFlag, (aclrtEvent*, uint32_t))
SIGNATURE(aclError, aclrtDestroyEvent, (aclrtEvent))
SIGNATURE(aclError, aclrtRecordEvent, (aclrtEvent, aclrtStream))
SIGNATURE(aclError, aclrtResetEvent, (aclrtEvent, aclrtStream))
SIGNATURE(aclError, aclrtStreamWaitEvent, (aclrtStream, aclrtEvent))
SIGNATURE(aclError, aclrtQueryEventWaitStatus, (aclrtEvent, aclrtEventWaitStatus*))
SIGNATURE(aclError, aclrtSetOpWaitTimeout, (uint32_t))
SIGNATURE(aclError, aclrtSynchronizeEvent, (aclrtEvent))
SIGNATURE(aclError, aclrtSynchronizeEventWithTimeout, (aclrtEvent, int32_t))
SIGNATURE(aclError, aclrtQueryEventStatus, (aclrtEvent, aclrtEventRecordedStatus*))
SIGNATURE(aclError, aclrtQueryEvent, (aclrtEvent, aclrtEventStatus*))
SIGNATURE(aclError, aclrtEventElapsedTime, (float*, aclrtEvent, aclrtEvent))
SIGNATURE(aclError, aclrtEventGetTimestamp, (aclrtEvent, uint64_t*))

SIGNATURE(aclError, aclrtLaunchHostFunc, (aclrtStream, void (*)(void*), void*))
SIGNATURE(aclError, aclrtSubscribeReport, (uint64_t, aclrtStream))
SIGNATURE(aclError, aclrtLaunchCallback, (void (*)(void*), void*, aclrtCallbackBlockType, aclrtStream))
SIGNATURE(aclError, aclrtProcessReport, (int32_t))
SIGNATURE(aclError, aclrtUnSubscribeReport, (uint64_t, aclrtStream))

SIGNATURE(aclError, aclrtMalloc, (void**, size_t, aclrtMemMallocPolicy))
SIGNATURE(aclError, aclrtMallocAlign32, (void**, size_t, aclrtMemMallocPolicy))
SIGNATURE(aclError, aclrtFree, (void*))
SIGNATURE(aclError, aclrtMallocHost, (void**, size_t))
SIGNATURE(aclError, aclrtFreeHost, (void*))
SIGNATURE(aclError, aclrtMallocWithCfg, (void**, size_t, aclrtMemMallocPolicy, aclrtMallocConfig*))
SIGNATURE(aclError, aclrtHostRegister, (void*, uint64_t, aclrtHostRegisterType, void**))
SIGNATURE(aclError, aclrtHostUnregister, (void*))
SIGNATURE(aclError, aclrtPointerGetAttributes, (const void*, aclrtPtrAttributes*))
SIGNATURE(aclError, aclrtGetMemInfo, (aclrtMemAttr, size_t*, size_t*))
SIGNATURE(aclError, aclrtMemcpy, (void*, size_t, const void*, size_t, aclrtMemcpyKind))
SIGNATURE(aclError, aclrtMemcpyAsync, (void*, size_t, const void*, size_t, aclrtMemcpyKind, aclrtStream))
SIGNATURE(aclError, aclrtMemcpy2d, (void*, size_t, const void*, size_t, size_t, size_t, aclrtMemcpyKind))
SIGNATURE(aclError, aclrtMemcpy2dAsync,
          (void*, size_t, const void*, size_t, size_t, size_t, aclrtMemcpyKind, aclrtStream))
SIGNATURE(aclError, aclrtMemset, (void*, size_t, int32_t, size_t))
SIGNATURE(aclError, aclrtMemsetAsync, (void*, size_t, int32_t, size_t, aclrtStream))

SIGNATURE(aclTensor*, aclCreateTensor,
          (const int64_t*, uint64_t, aclDataType, const int64_t*, int64_t, aclFormat, const int64_t*, uint64_t, void*))
SIGNATURE(aclnnStatus, aclInitTensor,
          (aclTensor*, const int64_t*, uint64_t, aclDataType, const int64_t*, int64_t, aclFormat, const int64_t*,
           uint64_t, void*))
SIGNATURE(aclnnStatus, aclDestroyTensor, (const aclTensor*))
SIGNATURE(aclnnStatus, aclGetViewShape, (const aclTensor*, int64_t**, uint64_t*))
SIGNATURE(aclnnStatus, aclGetStorageShape, (const aclTensor*, int64_t**, uint64_t*))
SIGNATURE(aclnnStatus, aclGetViewStrides, (const aclTensor*, int64_t**, uint64_t*))
SIGNATURE(aclnnStatus, aclGetViewOffset, (const aclTensor*, int64_t*))
SIGNATURE(aclnnStatus, aclGetFormat, (const aclTensor*, aclFormat*))
SIGNATURE(aclnnStatus, aclGetDataType, (const aclTensor*, aclDataType*))
SIGNATURE(aclnnStatus, aclSetRawTensorAddr, (aclTensor*, void*))
SIGNATURE(aclnnStatus, aclGetRawTensorAddr, (const aclTensor*, void**))

SIGNATURE(aclScalar*, aclCreateScalar, (void*, aclDataType))
SIGNATURE(aclIntArray*, aclCreateIntArray, (const int64_t*, uint64_t))
SIGNATURE(aclFloatArray*, aclCreateFloatArray, (const float*, uint64_t))
SIGNATURE(aclBoolArray*, aclCreateBoolArray, (const bool*, uint64_t))
SIGNATURE(aclTensorList*, aclCreateTensorList, (const aclTensor* const*, uint64_t))
SIGNATURE(aclScalarList*, aclCreateScalarList, (const aclScalar* const*, uint64_t))
SIGNATURE(aclnnStatus, aclDestroyScalar, (const aclScalar*))
SIGNATURE(aclnnStatus, aclDestroyIntArray, (const aclIntArray*))
SIGNATURE(aclnnStatus, aclDestroyFloatArray, (const aclFloatArray*))
SIGNATURE(aclnnStatus, aclDestroyBoolArray, (const aclBoolArray*))
SIGNATURE(aclnnStatus, aclDestroyTensorList, (const aclTensorList*))
SIGNATURE(aclnnStatus, aclDestroyScalarList, (const aclScalarList*))
SIGNATURE(aclnnStatus, aclGetIntArraySize, (const aclIntArray*, uint64_t*))
SIGNATURE(aclnnStatus, aclGetFloatArraySize, (const aclFloatArray*, uint64_t*))
SIGNATURE(aclnnStatus, aclGetBoolArraySize, (const aclBoolArray*, uint64_t*))
SIGNATURE(aclnnStatus, aclGetTensorListSize, (const aclTensorList*, uint64_t*))
SIGNATURE(aclnnStatus, aclGetScalarListSize, (const aclScalarList*, uint64_t*))

SIGNATURE(aclnnStatus, aclnnInit, (const char*))
SIGNATURE(aclnnStatus, aclnnFinalize, (void))
SIGNATURE(aclnnStatus, aclSetAclOpExecutorRepeatable, (aclOpExecutor*))
SIGNATURE(aclnnStatus, aclDestroyAclOpExecutor, (aclOpExecutor*))
SIGNATURE(aclnnStatus, aclSetInputTensorAddr, (aclOpExecutor*, size_t, aclTensor*, void*))
SIGNATURE(aclnnStatus, aclSetOutputTensorAddr, (aclOpExecutor*, size_t, aclTensor*, void*))
SIGNATURE(aclnnStatus, aclSetTensorAddr, (aclOpExecutor*, size_t, aclTensor*, void*))
SIGNATURE(aclnnStatus, aclSetDynamicInputTensorAddr, (aclOpExecutor*, size_t, size_t, aclTensorList*, void*))
SIGNATURE(aclnnStatus, aclSetDynamicOutputTensorAddr, (aclOpExecutor*, size_t, size_t, aclTensorList*, void*))

SIGNATURE(aclnnStatus, aclnnExpSegsumGetWorkspaceSize, (const aclTensor*, aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnExpSegsum, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(aclnnStatus, aclnnExpSegsumBackwardGetWorkspaceSize,
          (const aclTensor*, const aclTensor*, aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnExpSegsumBackward, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(aclnnStatus, aclnnNsaSelectedAttentionGetWorkspaceSize,
          (const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, const aclIntArray*,
           const aclIntArray*, double, int64_t, char*, int64_t, int64_t, int64_t, const aclTensor*, const aclTensor*,
           const aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnNsaSelectedAttention, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(aclnnStatus, aclnnNsaSelectedAttentionGradGetWorkspaceSize,
          (const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*,
           const aclTensor*, const aclTensor*, const aclIntArray*, const aclIntArray*, const aclTensor*, double,
           int64_t, int64_t, int64_t, char*, int64_t, const aclTensor*, const aclTensor*, const aclTensor*, uint64_t*,
           aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnNsaSelectedAttentionGrad, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(aclnnStatus, aclnnScaledMaskedSoftmaxGetWorkspaceSize,
          (const aclTensor*, const aclTensor*, double, bool, aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnScaledMaskedSoftmax, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(aclnnStatus, aclnnScaledMaskedSoftmaxBackwardGetWorkspaceSize,
          (const aclTensor*, const aclTensor*, const aclTensor*, double, bool, aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnScaledMaskedSoftmaxBackward, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(aclnnStatus, aclnnSwiGluGetWorkspaceSize,
          (const aclTensor*, int64_t, const aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnSwiGlu, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(aclnnStatus, aclnnSwiGluGradGetWorkspaceSize,
          (const aclTensor*, const aclTensor*, int64_t, const aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnSwiGluGrad, (void*, uint64_t, aclOpExecutor*, aclrtStream))

SIGNATURE(aclnnStatus, aclnnFusedLinearOnlineMaxSumGetWorkspaceSize,
          (const aclTensor*, const aclTensor*, const aclTensor*, int64_t, int64_t, aclTensor*, aclTensor*, aclTensor*,
           aclTensor*, aclTensor*, aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnFusedLinearOnlineMaxSum, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(aclnnStatus, aclnnFusedCrossEntropyLossWithMaxSumGetWorkspaceSize,
          (const aclTensor*, const aclTensor*, const aclTensor*, float, const aclTensor*, const aclTensor*,
           const aclTensor*, aclTensor*, aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnFusedCrossEntropyLossWithMaxSum, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(aclnnStatus, aclnnFusedLinearCrossEntropyLossGradGetWorkspaceSize,
          (const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, const aclTensor*, float,
           const aclTensor*, const aclTensor*, const aclTensor*, aclTensor*, aclTensor*, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, aclnnFusedLinearCrossEntropyLossGrad, (void*, uint64_t, aclOpExecutor*, aclrtStream))

SIGNATURE(const char*, gradusVersion, (void))
SIGNATURE(aclError, gradusSetOption, (const char*, const char*))
SIGNATURE(aclError, gradusSetThreadOption, (const char*, const char*))
SIGNATURE(const char*, gradusGetOption, (const char*))
SIGNATURE(const char*, gradusCatalogue, (void))
SIGNATURE(aclnnStatus, gradusRun, (const char*, const gradusArg*, uint64_t))
SIGNATURE(aclError, gradusSetLoop, (gradusLoop, void*))
SIGNATURE(aclnnStatus, gradusPrepare, (const char*, const gradusArg*, uint64_t, uint64_t*, aclOpExecutor**))
SIGNATURE(aclnnStatus, gradusLaunch, (void*, uint64_t, aclOpExecutor*, aclrtStream))
SIGNATURE(const char*, gradusPath, (const aclOpExecutor*))

SIGNATURE(HcclResult, HcclGetRootInfo, (HcclRootInfo*))
SIGNATURE(HcclResult, HcclCommInitRootInfo, (uint32_t, const HcclRootInfo*, uint32_t, HcclComm*))
SIGNATURE(HcclResult, HcclCommInitRootInfoConfig,
          (uint32_t, const HcclRootInfo*, uint32_t, const HcclCommConfig*, HcclComm*))
SIGNATURE(HcclResult, HcclCommInitClusterInfo, (const char*, uint32_t, HcclComm*))
SIGNATURE(HcclResult, HcclCommInitClusterInfoConfig, (const char*, uint32_t, HcclCommConfig*, HcclComm*))
SIGNATURE(HcclResult, HcclCommInitAll, (uint32_t, int32_t*, HcclComm*))
SIGNATURE(HcclResult, HcclCreateSubCommConfig,
          (HcclComm*, uint32_t, uint32_t*, uint64_t, uint32_t, HcclCommConfig*, HcclComm*))
SIGNATURE(HcclResult, HcclCommDestroy, (HcclComm))
SIGNATURE(HcclResult, HcclGetRankSize, (HcclComm, uint32_t*))
SIGNATURE(HcclResult, HcclGetRankId, (HcclComm, uint32_t*))
SIGNATURE(HcclResult, HcclGetCommName, (HcclComm, char*))
SIGNATURE(HcclResult, HcclCommGetHandleWithName, (const char*, HcclComm*))
SIGNATURE(HcclResult, HcclCommGetStatus, (const char*, HcclCommStatus*))
SIGNATURE(HcclResult, HcclGetCommAsyncError, (HcclComm, HcclResult*))
SIGNATURE(const char*, HcclGetErrorString, (HcclResult))
SIGNATURE(HcclResult, HcclSetConfig, (HcclConfig, HcclConfigValue))
SIGNATURE(HcclResult, HcclGetConfig, (HcclConfig, HcclConfigValue*))
SIGNATURE(uint32_t, HcclGetCommConfigCapability, (void))
SIGNATURE(HcclResult, HcclBarrier, (HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclGroupStart, (void))
SIGNATURE(HcclResult, HcclGroupEnd, (void))
SIGNATURE(HcclResult, HcclGroupStatusGet, (bool*))
SIGNATURE(HcclResult, HcclCommSuspend, (HcclComm))
SIGNATURE(HcclResult, HcclCommResume, (HcclComm))
INLINE_SIGNATURE(void, HcclCommConfigInit, (HcclCommConfig*))
SIGNATURE(HcclResult, HcclAllReduce, (void*, void*, uint64_t, HcclDataType, HcclReduceOp, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclReduce, (void*, void*, uint64_t, HcclDataType, HcclReduceOp, uint32_t, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclReduceScatter, (void*, void*, uint64_t, HcclDataType, HcclReduceOp, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclReduceScatterV,
          (void*, const void*, const void*, void*, uint64_t, HcclDataType, HcclReduceOp, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclBroadcast, (void*, uint64_t, HcclDataType, uint32_t, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclScatter, (void*, void*, uint64_t, HcclDataType, uint32_t, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclAllGather, (void*, void*, uint64_t, HcclDataType, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclAllGatherV,
          (void*, uint64_t, void*, const void*, const void*, HcclDataType, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclAlltoAll,
          (const void*, uint64_t, HcclDataType, const void*, uint64_t, HcclDataType, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclAlltoAllV,
          (const void*, const void*, const void*, HcclDataType, const void*, const void*, const void*, HcclDataType,
           HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclAlltoAllVC,
          (const void*, const void*, HcclDataType, const void*, HcclDataType, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclSend, (void*, uint64_t, HcclDataType, uint32_t, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclRecv, (void*, uint64_t, HcclDataType, uint32_t, HcclComm, aclrtStream))
SIGNATURE(HcclResult, HcclBatchSendRecv, (HcclSendRecvItem*, uint32_t, HcclComm, aclrtStream))
