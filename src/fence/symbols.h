/* Every driver function the fence knows by name.
 *
 *   HOOK(name, base, since)  defined in this library; counts, answers or checks
 *   GATE(name, base, since)  passes on whole cards; refused as soon as a card of the fence is capped,
 *                            because it could bring memory past the cap that is not counted yet, or
 *                            would show other tenants' processes
 *   AID(name)                called by the fence, never replaced
 *
 * base and since say what cuGetProcAddress calls the function and from which CUDA version on it
 * hands out this variant; they matter only if the driver returns a pointer that it does not export. */
#ifndef RF_FENCE_SYMBOLS_H
#define RF_FENCE_SYMBOLS_H

/* The newest CUDA of which every variant of every function is known here. Programs that ask for a newer one by
 * cuGetProcAddress() get this one's. */
#define RF_CUDA_NEWEST 13040

#define RF_CUDA_SYMBOLS(HOOK, GATE, AID)                                                           \
	HOOK(cuInit, "cuInit", 2000)                                                               \
	HOOK(cuDriverGetVersion, "cuDriverGetVersion", 2020)                                       \
	HOOK(cuGetProcAddress, "cuGetProcAddress", 11030)                                          \
	HOOK(cuGetProcAddress_v2, "cuGetProcAddress", 12000)                                       \
	HOOK(cuMemAlloc_v2, "cuMemAlloc", 3020)                                                    \
	HOOK(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020)                                          \
	HOOK(cuMemAllocManaged, "cuMemAllocManaged", 6000)                                         \
	HOOK(cuMemFree_v2, "cuMemFree", 3020)                                                      \
	HOOK(cuMemAllocAsync, "cuMemAllocAsync", 11020)                                            \
	HOOK(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020)                                       \
	HOOK(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020)                            \
	HOOK(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020)                       \
	HOOK(cuMemFreeAsync, "cuMemFreeAsync", 11020)                                              \
	HOOK(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020)                                         \
	HOOK(cuMemPoolCreate, "cuMemPoolCreate", 11020)                                            \
	HOOK(cuMemPoolDestroy, "cuMemPoolDestroy", 11020)                                          \
	HOOK(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020)                                            \
	HOOK(cuMemCreate, "cuMemCreate", 10020)                                                    \
	HOOK(cuMemRelease, "cuMemRelease", 10020)                                                  \
	HOOK(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000)                    \
	HOOK(cuMemMap, "cuMemMap", 10020)                                                          \
	HOOK(cuMemUnmap, "cuMemUnmap", 10020)                                                      \
	HOOK(cuArrayCreate_v2, "cuArrayCreate", 3020)                                              \
	HOOK(cuArray3DCreate_v2, "cuArray3DCreate", 3020)                                          \
	HOOK(cuArrayDestroy, "cuArrayDestroy", 2000)                                               \
	HOOK(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000)                               \
	HOOK(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000)                             \
	HOOK(cuMemGetInfo_v2, "cuMemGetInfo", 3020)                                                \
	HOOK(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020)                                        \
	HOOK(cuCtxDestroy, "cuCtxDestroy", 2000)                                                   \
	HOOK(cuCtxDestroy_v2, "cuCtxDestroy", 4000)                                                \
	HOOK(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000)                           \
	HOOK(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000)                         \
	HOOK(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000)                     \
	HOOK(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000)                             \
	HOOK(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000)                         \
	HOOK(cuCtxSetLimit, "cuCtxSetLimit", 3010)                                                 \
	HOOK(cuGraphAddNode, "cuGraphAddNode", 12020)                                              \
	HOOK(cuGraphAddNode_v2, "cuGraphAddNode", 12030)                                           \
	HOOK(cuGraphAddNode_v3, "cuGraphAddNode", 13040)                                           \
	HOOK(cuLaunchKernel, "cuLaunchKernel", 4000)                                               \
	HOOK(cuLaunchKernel_ptsz, "cuLaunchKernel", 4000)                                          \
	HOOK(cuLaunchKernelEx, "cuLaunchKernelEx", 11060)                                          \
	HOOK(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060)                                     \
	HOOK(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000)                         \
	HOOK(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000)                    \
	HOOK(cuGraphLaunch, "cuGraphLaunch", 10000)                                                \
	HOOK(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000)                                           \
	HOOK(cuLaunchCooperativeKernelMultiDevice, "cuLaunchCooperativeKernelMultiDevice", 9000)   \
	HOOK(cuLaunch, "cuLaunch", 2000)                                                           \
	HOOK(cuLaunchGrid, "cuLaunchGrid", 2000)                                                   \
	HOOK(cuLaunchGridAsync, "cuLaunchGridAsync", 2000)                                         \
	HOOK(cuCtxSynchronize, "cuCtxSynchronize", 2000)                                           \
	HOOK(cuCtxSynchronize_v2, "cuCtxSynchronize", 13000)                                       \
	HOOK(cuStreamSynchronize, "cuStreamSynchronize", 2000)                                     \
	HOOK(cuStreamSynchronize_ptsz, "cuStreamSynchronize", 2000)                                \
	HOOK(cuStreamQuery, "cuStreamQuery", 2000)                                                 \
	HOOK(cuStreamQuery_ptsz, "cuStreamQuery", 2000)                                            \
	HOOK(cuEventSynchronize, "cuEventSynchronize", 2000)                                       \
	HOOK(cuEventQuery, "cuEventQuery", 2000)                                                   \
	HOOK(cuStreamDestroy, "cuStreamDestroy", 2000)                                             \
	HOOK(cuStreamDestroy_v2, "cuStreamDestroy", 4000)                                          \
	HOOK(cuStreamBeginCapture, "cuStreamBeginCapture", 10000)                                  \
	HOOK(cuStreamBeginCapture_ptsz, "cuStreamBeginCapture", 10000)                             \
	HOOK(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010)                               \
	HOOK(cuStreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010)                          \
	HOOK(cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030)                    \
	HOOK(cuStreamBeginCaptureToGraph_ptsz, "cuStreamBeginCaptureToGraph", 12030)               \
	HOOK(cuStreamEndCapture, "cuStreamEndCapture", 10000)                                      \
	HOOK(cuStreamEndCapture_ptsz, "cuStreamEndCapture", 10000)                                 \
	HOOK(cuMemsetD8_v2, "cuMemsetD8", 3020)                                                    \
	HOOK(cuMemsetD8_v2_ptds, "cuMemsetD8", 3020)                                               \
	HOOK(cuMemsetD8Async, "cuMemsetD8Async", 3020)                                             \
	HOOK(cuMemsetD8Async_ptsz, "cuMemsetD8Async", 3020)                                        \
	HOOK(cuMemsetD16_v2, "cuMemsetD16", 3020)                                                  \
	HOOK(cuMemsetD16_v2_ptds, "cuMemsetD16", 3020)                                             \
	HOOK(cuMemsetD16Async, "cuMemsetD16Async", 3020)                                           \
	HOOK(cuMemsetD16Async_ptsz, "cuMemsetD16Async", 3020)                                      \
	HOOK(cuMemsetD32_v2, "cuMemsetD32", 3020)                                                  \
	HOOK(cuMemsetD32_v2_ptds, "cuMemsetD32", 3020)                                             \
	HOOK(cuMemsetD32Async, "cuMemsetD32Async", 3020)                                           \
	HOOK(cuMemsetD32Async_ptsz, "cuMemsetD32Async", 3020)                                      \
	HOOK(cuMemsetD2D8_v2, "cuMemsetD2D8", 3020)                                                \
	HOOK(cuMemsetD2D8_v2_ptds, "cuMemsetD2D8", 3020)                                           \
	HOOK(cuMemsetD2D8Async, "cuMemsetD2D8Async", 3020)                                         \
	HOOK(cuMemsetD2D8Async_ptsz, "cuMemsetD2D8Async", 3020)                                    \
	HOOK(cuMemsetD2D16_v2, "cuMemsetD2D16", 3020)                                              \
	HOOK(cuMemsetD2D16_v2_ptds, "cuMemsetD2D16", 3020)                                         \
	HOOK(cuMemsetD2D16Async, "cuMemsetD2D16Async", 3020)                                       \
	HOOK(cuMemsetD2D16Async_ptsz, "cuMemsetD2D16Async", 3020)                                  \
	HOOK(cuMemsetD2D32_v2, "cuMemsetD2D32", 3020)                                              \
	HOOK(cuMemsetD2D32_v2_ptds, "cuMemsetD2D32", 3020)                                         \
	HOOK(cuMemsetD2D32Async, "cuMemsetD2D32Async", 3020)                                       \
	HOOK(cuMemsetD2D32Async_ptsz, "cuMemsetD2D32Async", 3020)                                  \
	HOOK(cuMemcpyDtoD_v2, "cuMemcpyDtoD", 3020)                                                \
	HOOK(cuMemcpyDtoD_v2_ptds, "cuMemcpyDtoD", 3020)                                           \
	HOOK(cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync", 3020)                                      \
	HOOK(cuMemcpyDtoDAsync_v2_ptsz, "cuMemcpyDtoDAsync", 3020)                                 \
	HOOK(cuMemcpy, "cuMemcpy", 4000)                                                           \
	HOOK(cuMemcpy_ptds, "cuMemcpy", 4000)                                                      \
	HOOK(cuMemcpyAsync, "cuMemcpyAsync", 4000)                                                 \
	HOOK(cuMemcpyAsync_ptsz, "cuMemcpyAsync", 4000)                                            \
	HOOK(cuMemcpyPeer, "cuMemcpyPeer", 4000)                                                   \
	HOOK(cuMemcpyPeer_ptds, "cuMemcpyPeer", 4000)                                              \
	HOOK(cuMemcpyPeerAsync, "cuMemcpyPeerAsync", 4000)                                         \
	HOOK(cuMemcpyPeerAsync_ptsz, "cuMemcpyPeerAsync", 4000)                                    \
	HOOK(cuMemcpy2D_v2, "cuMemcpy2D", 3020)                                                    \
	HOOK(cuMemcpy2D_v2_ptds, "cuMemcpy2D", 3020)                                               \
	HOOK(cuMemcpy2DAsync_v2, "cuMemcpy2DAsync", 3020)                                          \
	HOOK(cuMemcpy2DAsync_v2_ptsz, "cuMemcpy2DAsync", 3020)                                     \
	HOOK(cuMemcpy3D_v2, "cuMemcpy3D", 3020)                                                    \
	HOOK(cuMemcpy3D_v2_ptds, "cuMemcpy3D", 3020)                                               \
	HOOK(cuMemcpy3DAsync_v2, "cuMemcpy3DAsync", 3020)                                          \
	HOOK(cuMemcpy3DAsync_v2_ptsz, "cuMemcpy3DAsync", 3020)                                     \
	HOOK(cuMemcpy3DPeer, "cuMemcpy3DPeer", 4000)                                               \
	HOOK(cuMemcpy3DPeer_ptds, "cuMemcpy3DPeer", 4000)                                          \
	HOOK(cuMemcpy3DPeerAsync, "cuMemcpy3DPeerAsync", 4000)                                     \
	HOOK(cuMemcpy3DPeerAsync_ptsz, "cuMemcpy3DPeerAsync", 4000)                                \
	HOOK(cuMemcpy2DUnaligned_v2, "cuMemcpy2DUnaligned", 3020)                                  \
	HOOK(cuMemcpy2DUnaligned_v2_ptds, "cuMemcpy2DUnaligned", 3020)                             \
	HOOK(cuMemcpyDtoA_v2, "cuMemcpyDtoA", 3020)                                                \
	HOOK(cuMemcpyDtoA_v2_ptds, "cuMemcpyDtoA", 3020)                                           \
	HOOK(cuMemcpyAtoD_v2, "cuMemcpyAtoD", 3020)                                                \
	HOOK(cuMemcpyAtoD_v2_ptds, "cuMemcpyAtoD", 3020)                                           \
	HOOK(cuMemcpyAtoA_v2, "cuMemcpyAtoA", 3020)                                                \
	HOOK(cuMemcpyAtoA_v2_ptds, "cuMemcpyAtoA", 3020)                                           \
	HOOK(cuMemcpyDtoH_v2, "cuMemcpyDtoH", 3020)                                                \
	HOOK(cuMemcpyDtoH_v2_ptds, "cuMemcpyDtoH", 3020)                                           \
	HOOK(cuMemcpyAtoH_v2, "cuMemcpyAtoH", 3020)                                                \
	HOOK(cuMemcpyAtoH_v2_ptds, "cuMemcpyAtoH", 3020)                                           \
	HOOK(cuMemcpyBatchAsync, "cuMemcpyBatchAsync", 12080)                                      \
	HOOK(cuMemcpyBatchAsync_ptsz, "cuMemcpyBatchAsync", 12080)                                 \
	HOOK(cuMemcpyBatchAsync_v2, "cuMemcpyBatchAsync", 13000)                                   \
	HOOK(cuMemcpyBatchAsync_v2_ptsz, "cuMemcpyBatchAsync", 13000)                              \
	HOOK(cuMemcpy3DBatchAsync, "cuMemcpy3DBatchAsync", 12080)                                  \
	HOOK(cuMemcpy3DBatchAsync_ptsz, "cuMemcpy3DBatchAsync", 12080)                             \
	HOOK(cuMemcpy3DBatchAsync_v2, "cuMemcpy3DBatchAsync", 13000)                               \
	HOOK(cuMemcpy3DBatchAsync_v2_ptsz, "cuMemcpy3DBatchAsync", 13000)                          \
	HOOK(cuMemcpyWithAttributesAsync, "cuMemcpyWithAttributesAsync", 13020)                    \
	HOOK(cuMemcpyWithAttributesAsync_ptsz, "cuMemcpyWithAttributesAsync", 13020)               \
	HOOK(cuMemcpy3DWithAttributesAsync, "cuMemcpy3DWithAttributesAsync", 13020)                \
	HOOK(cuMemcpy3DWithAttributesAsync_ptsz, "cuMemcpy3DWithAttributesAsync", 13020)           \
	HOOK(cuMemBatchDecompressAsync, "cuMemBatchDecompressAsync", 12060)                        \
	HOOK(cuMemBatchDecompressAsync_ptsz, "cuMemBatchDecompressAsync", 12060)                   \
	GATE(cuMemAlloc, "cuMemAlloc", 2000)                                                       \
	GATE(cuMemAllocPitch, "cuMemAllocPitch", 2000)                                             \
	GATE(cuArrayCreate, "cuArrayCreate", 2000)                                                 \
	GATE(cuArray3DCreate, "cuArray3DCreate", 2000)                                             \
	GATE(cuMemGetInfo, "cuMemGetInfo", 2000)                                                   \
	GATE(cuDeviceTotalMem, "cuDeviceTotalMem", 2000)                                           \
	HOOK(cuIpcGetMemHandle, "cuIpcGetMemHandle", 4010)                                         \
	HOOK(cuIpcOpenMemHandle, "cuIpcOpenMemHandle", 4010)                                       \
	HOOK(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000)                                   \
	HOOK(cuImportExternalMemory, "cuImportExternalMemory", 10000)                              \
	HOOK(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020)              \
	HOOK(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020)                  \
	HOOK(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", 11020)      \
	HOOK(cuMemPoolImportPointer, "cuMemPoolImportPointer", 11020)                              \
	HOOK(cuMemPoolExportPointer, "cuMemPoolExportPointer", 11020)                              \
	GATE(cuMemMapArrayAsync, "cuMemMapArrayAsync", 11010)                                      \
	GATE(cuMemMapArrayAsync_ptsz, "cuMemMapArrayAsync", 11010)                                 \
	HOOK(cuMulticastCreate, "cuMulticastCreate", 12010)                                        \
	HOOK(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040)                              \
	GATE(cuCheckpointProcessCheckpoint, "cuCheckpointProcessCheckpoint", 12080)                \
	GATE(cuCheckpointProcessRestore, "cuCheckpointProcessRestore", 12080)                      \
	GATE(cuGraphicsGLRegisterBuffer, "cuGraphicsGLRegisterBuffer", 3000)                       \
	GATE(cuGraphicsGLRegisterImage, "cuGraphicsGLRegisterImage", 3000)                         \
	GATE(cuGraphicsEGLRegisterImage, "cuGraphicsEGLRegisterImage", 7000)                       \
	GATE(cuGraphicsVDPAURegisterVideoSurface, "cuGraphicsVDPAURegisterVideoSurface", 3010)     \
	GATE(cuGraphicsVDPAURegisterOutputSurface, "cuGraphicsVDPAURegisterOutputSurface", 3010)   \
	GATE(cuGLRegisterBufferObject, "cuGLRegisterBufferObject", 2000)                           \
	GATE(cuEGLStreamConsumerConnect, "cuEGLStreamConsumerConnect", 7000)                       \
	GATE(cuEGLStreamConsumerConnectWithFlags, "cuEGLStreamConsumerConnectWithFlags", 8000)     \
	GATE(cuEGLStreamProducerConnect, "cuEGLStreamProducerConnect", 7000)                       \
	GATE(cuLogicalEndpointCreate, "cuLogicalEndpointCreate", 13030)                            \
	GATE(cuLogicalEndpointImport, "cuLogicalEndpointImport", 13030)                            \
	GATE(cuLogicalEndpointExport, "cuLogicalEndpointExport", 13030)                            \
	GATE(cuFabricCpyBatchAsync, "cuFabricCpyBatchAsync", 13050)                                \
	GATE(cuFabricCpyBatchAsync_ptsz, "cuFabricCpyBatchAsync", 13050)                           \
	GATE(cuStreamBeginCaptureToCig, "cuStreamBeginCaptureToCig", 13020)                        \
	GATE(cuStreamBeginCaptureToCig_ptsz, "cuStreamBeginCaptureToCig", 13020)                   \
	HOOK(cuStreamBeginRecaptureToGraph, "cuStreamBeginRecaptureToGraph", 13030)                \
	HOOK(cuStreamBeginRecaptureToGraph_ptsz, "cuStreamBeginRecaptureToGraph", 13030)           \
	GATE(cuMemPeerRegister, "cuMemPeerRegister", 4000)                                         \
	HOOK(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010)                                     \
	HOOK(cuDestroyExternalMemory, "cuDestroyExternalMemory", 10000)                            \
	HOOK(cuExternalMemoryGetMappedBuffer, "cuExternalMemoryGetMappedBuffer", 10000)            \
	HOOK(cuExternalMemoryGetMappedMipmappedArray, "cuExternalMemoryGetMappedMipmappedArray", 10000) \
	HOOK(cuMulticastBindMem, "cuMulticastBindMem", 12010)                                      \
	HOOK(cuMulticastBindMem_v2, "cuMulticastBindMem", 13010)                                   \
	HOOK(cuMulticastBindAddr, "cuMulticastBindAddr", 12010)                                    \
	HOOK(cuMulticastBindAddr_v2, "cuMulticastBindAddr", 13010)                                 \
	HOOK(cuMulticastUnbind, "cuMulticastUnbind", 12010)                                        \
	HOOK(cuCtxCreate, "cuCtxCreate", 2000)                                                     \
	HOOK(cuCtxCreate_v2, "cuCtxCreate", 3020)                                                  \
	HOOK(cuCtxCreate_v3, "cuCtxCreate", 11040)                                                 \
	HOOK(cuCtxCreate_v4, "cuCtxCreate", 12050)                                                 \
	HOOK(cuGreenCtxCreate, "cuGreenCtxCreate", 12040)                                          \
	HOOK(cuGreenCtxDestroy, "cuGreenCtxDestroy", 12040)                                        \
	HOOK(cuModuleLoad, "cuModuleLoad", 2000)                                                   \
	HOOK(cuModuleLoadData, "cuModuleLoadData", 2000)                                           \
	HOOK(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010)                                       \
	HOOK(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000)                                 \
	HOOK(cuModuleUnload, "cuModuleUnload", 2000)                                               \
	HOOK(cuLibraryLoadData, "cuLibraryLoadData", 12000)                                        \
	HOOK(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000)                                \
	HOOK(cuLibraryUnload, "cuLibraryUnload", 12000)                                            \
	HOOK(cuLibraryGetModule, "cuLibraryGetModule", 12000)                                      \
	HOOK(cuLibraryGetKernel, "cuLibraryGetKernel", 12000)                                      \
	HOOK(cuLibraryGetGlobal, "cuLibraryGetGlobal", 12000)                                      \
	HOOK(cuLibraryGetManaged, "cuLibraryGetManaged", 12000)                                    \
	HOOK(cuMemPrefetchAsync, "cuMemPrefetchAsync", 8000)                                       \
	HOOK(cuMemPrefetchAsync_ptsz, "cuMemPrefetchAsync", 8000)                                  \
	HOOK(cuMemPrefetchAsync_v2, "cuMemPrefetchAsync", 12020)                                   \
	HOOK(cuMemPrefetchAsync_v2_ptsz, "cuMemPrefetchAsync", 12020)                              \
	HOOK(cuMemPrefetchBatchAsync, "cuMemPrefetchBatchAsync", 12080)                            \
	HOOK(cuMemPrefetchBatchAsync_ptsz, "cuMemPrefetchBatchAsync", 12080)                       \
	HOOK(cuMemDiscardAndPrefetchBatchAsync, "cuMemDiscardAndPrefetchBatchAsync", 13000)        \
	HOOK(cuMemDiscardAndPrefetchBatchAsync_ptsz, "cuMemDiscardAndPrefetchBatchAsync", 13000)   \
	HOOK(cuMemAdvise, "cuMemAdvise", 8000)                                                     \
	HOOK(cuMemAdvise_v2, "cuMemAdvise", 12020)                                                 \
	GATE(cuGLCtxCreate, "cuGLCtxCreate", 2000)                                                 \
	GATE(cuGLCtxCreate_v2, "cuGLCtxCreate", 3020)                                              \
	GATE(cuVDPAUCtxCreate, "cuVDPAUCtxCreate", 3010)                                           \
	GATE(cuVDPAUCtxCreate_v2, "cuVDPAUCtxCreate", 3020)                                        \
	AID(cuCtxGetLimit)                                                                         \
	AID(cuDeviceGetAttribute)                                                                  \
	AID(cuMemAddressReserve)                                                                   \
	AID(cuMemAddressFree)                                                                      \
	AID(cuMemGetAddressRange_v2)                                                               \
	AID(cuMemGetAllocationGranularity)                                                         \
	AID(cuMemGetAllocationPropertiesFromHandle)                                                \
	AID(cuPointerGetAttribute)                                                                 \
	HOOK(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020)                                      \
	HOOK(cuMemSetMemPool, "cuMemSetMemPool", 13000)                                            \
	HOOK(cuMemGetMemPool, "cuMemGetMemPool", 13000)                                            \
	HOOK(cuMemGetDefaultMemPool, "cuMemGetDefaultMemPool", 13000)                              \
	HOOK(cuGraphInstantiate, "cuGraphInstantiate", 10000)                                      \
	HOOK(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000)                                   \
	HOOK(cuGraphInstantiateWithFlags, "cuGraphInstantiate", 12000)                             \
	HOOK(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000)                  \
	HOOK(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000)             \
	HOOK(cuGraphUpload, "cuGraphUpload", 11010)                                                \
	HOOK(cuGraphUpload_ptsz, "cuGraphUpload", 11010)                                           \
	HOOK(cuGraphExecDestroy, "cuGraphExecDestroy", 10000)                                      \
	HOOK(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040)                                  \
	AID(cuMemPoolSetAttribute)                                                                 \
	AID(cuGraphGetNodes)                                                                       \
	AID(cuGraphNodeGetType)                                                                    \
	AID(cuGraphMemAllocNodeGetParams)                                                          \
	AID(cuGraphChildGraphNodeGetGraph)                                                         \
	AID(cuDeviceGetGraphMemAttribute)                                                          \
	AID(cuCtxGetDevice)                                                                        \
	AID(cuCtxGetCurrent)                                                                       \
	AID(cuCtxPushCurrent_v2)                                                                   \
	AID(cuCtxPopCurrent_v2)                                                                    \
	AID(cuDeviceGet)                                                                           \
	AID(cuDeviceGetCount)                                                                      \
	AID(cuDeviceGetUuid)                                                                       \
	AID(cuDeviceGetUuid_v2)                                                                    \
	AID(cuDeviceGetMemPool)                                                                    \
	AID(cuDeviceGetDefaultMemPool)                                                             \
	AID(cuDevicePrimaryCtxGetState)                                                            \
	AID(cuMemPoolGetAttribute)                                                                 \
	AID(cuStreamGetCtx)                                                                        \
	AID(cuStreamIsCapturing)                                                                   \
	AID(cuStreamIsCapturing_ptsz)                                                              \
	AID(cuEventCreate)                                                                         \
	AID(cuEventDestroy_v2)                                                                     \
	AID(cuEventElapsedTime)                                                                    \
	AID(cuEventRecord)                                                                         \
	AID(cuEventRecord_ptsz)                                                                    \
	AID(cuThreadExchangeStreamCaptureMode)

#define RF_NVML_SYMBOLS(HOOK, GATE, AID)                                                           \
	HOOK(nvmlInit, "", 0)                                                                      \
	HOOK(nvmlInit_v2, "", 0)                                                                   \
	HOOK(nvmlInitWithFlags, "", 0)                                                             \
	HOOK(nvmlDeviceGetMemoryInfo, "", 0)                                                       \
	HOOK(nvmlDeviceGetMemoryInfo_v2, "", 0)                                                    \
	HOOK(nvmlDeviceGetComputeRunningProcesses, "", 0)                                          \
	HOOK(nvmlDeviceGetComputeRunningProcesses_v2, "", 0)                                       \
	HOOK(nvmlDeviceGetComputeRunningProcesses_v3, "", 0)                                       \
	GATE(nvmlDeviceGetGraphicsRunningProcesses, "", 0)                                         \
	GATE(nvmlDeviceGetGraphicsRunningProcesses_v2, "", 0)                                      \
	GATE(nvmlDeviceGetGraphicsRunningProcesses_v3, "", 0)                                      \
	GATE(nvmlDeviceGetMPSComputeRunningProcesses, "", 0)                                       \
	GATE(nvmlDeviceGetMPSComputeRunningProcesses_v2, "", 0)                                    \
	GATE(nvmlDeviceGetMPSComputeRunningProcesses_v3, "", 0)                                    \
	GATE(nvmlDeviceGetRunningProcessDetailList, "", 0)                                         \
	GATE(nvmlDeviceGetProcessUtilization, "", 0)                                               \
	GATE(nvmlDeviceGetProcessesUtilizationInfo, "", 0)                                         \
	GATE(nvmlDeviceGetAccountingPids, "", 0)                                                   \
	GATE(nvmlDeviceGetAccountingStats, "", 0)                                                  \
	GATE(nvmlDeviceGetAccountingStats_v2, "", 0)                                               \
	GATE(nvmlDeviceGetEncoderSessions, "", 0)                                                  \
	GATE(nvmlDeviceGetFBCSessions, "", 0)                                                      \
	GATE(nvmlDeviceGetMemoryLimits_v1, "", 0)                                                  \
	GATE(nvmlDeviceGetNvlinkNvlePrivateInfo_v1, "", 0)                                         \
	GATE(nvmlEventSetGetContextData_v1, "", 0)                                                 \
	AID(nvmlDeviceGetUUID)

#define RF_SYM_ENUM(name, ...) RF_SYM_##name,
enum rf_symbol_id {
	RF_CUDA_SYMBOLS(RF_SYM_ENUM, RF_SYM_ENUM, RF_SYM_ENUM)
	RF_SYM_CUDA_END,
	RF_SYM_NVML_FIRST = RF_SYM_CUDA_END,
	RF_SYM_NVML_BEFORE = RF_SYM_NVML_FIRST - 1,
	RF_NVML_SYMBOLS(RF_SYM_ENUM, RF_SYM_ENUM, RF_SYM_ENUM)
	RF_SYM_COUNT
};

#endif
