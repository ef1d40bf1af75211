/* Names and texts of results. */
#include "sim/cuda_priv.h"

static const struct {
	CUresult code;
	const char *name;
	const char *text;
} results[] = {
#define R(code, text)                                                                              \
	{                                                                                          \
		code, #code, text                                                                  \
	}
	R(CUDA_SUCCESS, "no error"),
	R(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
	R(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
	R(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
	R(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
	R(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
	R(CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable"),
	R(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
	R(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
	R(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
	R(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
	R(CUDA_ERROR_MAP_FAILED, "mapping of buffer object failed"),
	R(CUDA_ERROR_UNMAP_FAILED, "unmapping of buffer object failed"),
	R(CUDA_ERROR_ARRAY_IS_MAPPED, "array is mapped"),
	R(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
	R(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image for the device"),
	R(CUDA_ERROR_ALREADY_ACQUIRED, "resource already acquired"),
	R(CUDA_ERROR_NOT_MAPPED, "resource not mapped"),
	R(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
	R(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
	R(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "exclusive-thread device already in use"),
	R(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported"),
	R(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
	R(CUDA_ERROR_INVALID_SOURCE, "device kernel image is invalid"),
	R(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
	R(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "shared object symbol not found"),
	R(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "shared object initialization failed"),
	R(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed"),
	R(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
	R(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in this state"),
	R(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
	R(CUDA_ERROR_NOT_READY, "device not ready"),
	R(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
	R(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch"),
	R(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated"),
	R(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is already enabled"),
	R(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access has not been enabled"),
	R(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "primary context is active"),
	R(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
	R(CUDA_ERROR_ASSERT, "device-side assert triggered"),
	R(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "host memory is already registered"),
	R(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "host memory is not registered"),
	R(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
	R(CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered"),
	R(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
	R(CUDA_ERROR_INVALID_ADDRESS_SPACE, "operation not supported on this address space"),
	R(CUDA_ERROR_INVALID_PC, "invalid program counter"),
	R(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
	R(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch"),
	R(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
	R(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
	R(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
	R(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported driver combination"),
	R(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted in stream capture"),
	R(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "stream capture was invalidated"),
	R(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two stream captures would be merged"),
	R(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "stream capture was begun in another stream"),
	R(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "stream capture has work that was not joined"),
	R(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency on work outside of the capture"),
	R(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "implicit dependency in stream capture"),
	R(CUDA_ERROR_CAPTURED_EVENT, "event was recorded in a stream capture"),
	R(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "stream capture was begun by another thread"),
	R(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "graph cannot be updated to this one"),
	R(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef R
};

static int find(CUresult error)
{
	for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
		if (results[i].code == error)
			return (int)i;
	return -1;
}

CUresult cuGetErrorName(CUresult error, const char **str)
{
	int i = find(error);

	if (str == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*str = i >= 0 ? results[i].name : NULL;
	return i >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **str)
{
	int i = find(error);

	if (str == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*str = i >= 0 ? results[i].text : NULL;
	return i >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
