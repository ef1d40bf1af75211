/* Memory between processes: seen by both, counted once, there until the last one lets go. */
#include "sim/test_sim.h"

#include <sys/mman.h>
#include <sys/socket.h>

/* What the processes of a test hand each other beside their pipes. */
static struct {
	CUipcMemHandle ipc, small, large;
	CUmemPoolPtrExportData pointer, second;
} * board;
static int sockets[2];

static void send_fd(int fd)
{
	char byte = 'f', room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec io = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	need(sendmsg(sockets[0], &m, 0) == 1);
	close(fd);
}

static int receive_fd(void)
{
	char byte, room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec io = { &byte, 1 };
	struct msghdr m = {
		.msg_iov = &io, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	int fd = -1;

	need(recvmsg(sockets[1], &m, MSG_CMSG_CLOEXEC) == 1);
	need(CMSG_FIRSTHDR(&m) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

static void tools_up(struct machine *m)
{
	machine_up(m, "1xH200", true);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	assert_ptr_not_equal(board, MAP_FAILED);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
}

static void tools_down(struct machine *m)
{
	NVML(nvmlShutdown)();
	close(sockets[0]);
	close(sockets[1]);
	munmap(board, sizeof(*board));
	machine_down(m);
}

static unsigned long long context_bytes(void)
{
	return rf_gpu_model_by_key("H200")->context_mib * MIB;
}

static unsigned long long card_used(void)
{
	nvmlMemory_v2_t mem = { .version = NVML_MEMORY_V2 };
	nvmlDevice_t d;

	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetMemoryInfo_v2)(d, &mem), NVML_SUCCESS);
	return mem.used;
}

/* What NVML shows for the process, less its context. */
static unsigned long long shown(const struct child *c)
{
	nvmlProcessInfo_t infos[8];
	unsigned n = RF_COUNT(infos);
	nvmlDevice_t d;

	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(d, &n, infos), NVML_SUCCESS);
	for (unsigned i = 0; i < n; i++)
		if (infos[i].pid == (unsigned)c->pid)
			return infos[i].usedGpuMemory - context_bytes();
	fail_msg("process %d is not on the card", c->pid);
	return 0;
}

/* --- IPC handles --- */

static void export_ipc(void)
{
	CUdeviceptr p, q, small[2];
	CUipcMemHandle other;

	child_context(0);
	need_is(CU(cuMemAlloc_v2)(&p, GIB), CUDA_SUCCESS);
	need_is(CU(cuMemAlloc_v2)(&small[0], 1000), CUDA_SUCCESS);
	need_is(CU(cuMemAlloc_v2)(&small[1], 1000), CUDA_SUCCESS);
	need_is(CU(cuMemcpyHtoD_v2)(p + 700 * MIB, "written before", 15), CUDA_SUCCESS);
	need_is(CU(cuMemcpyHtoD_v2)(small[1], "small", 6), CUDA_SUCCESS);
	need_is(CU(cuIpcGetMemHandle)(&board->ipc, p), CUDA_SUCCESS);
	need_is(CU(cuIpcGetMemHandle)(&board->small, small[1]), CUDA_SUCCESS);
	need_is(CU(cuIpcGetMemHandle)(&other, p), CUDA_SUCCESS);
	need(memcmp(&other, &board->ipc, sizeof(other)) == 0);
	need_is(CU(cuIpcGetMemHandle)(&other, p + 4), CUDA_SUCCESS); /* anywhere inside */
	need_is(CU(cuIpcGetMemHandle)(&other, 0x1000), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuIpcOpenMemHandle_v2)(&q, board->ipc, 1), CUDA_ERROR_INVALID_CONTEXT);
	child_tell('e');
	child_wait();
	{
		char back[16] = "";

		need_is(CU(cuMemcpyDtoH_v2)(back, p + 16, 6), CUDA_SUCCESS);
		need(strcmp(back, "reply") == 0);
	}
	need_is(CU(cuMemFree_v2)(p), CUDA_SUCCESS);
	child_tell('f');
	child_wait();
}

static void open_ipc(void)
{
	char back[16] = "";
	CUdeviceptr p, again, small;
	CUipcMemHandle bad = { .reserved = "nonsense" };

	child_context(0);
	need_is(CU(cuIpcOpenMemHandle_v2)(&p, bad, 1), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuIpcOpenMemHandle_v2)(&p, board->ipc, 1), CUDA_SUCCESS);
	need_is(CU(cuIpcOpenMemHandle)(&again, board->ipc, 1), CUDA_SUCCESS);
	need_is(p, again);
	need_is(CU(cuMemcpyDtoH_v2)(back, p + 700 * MIB, 15), CUDA_SUCCESS);
	need(strcmp(back, "written before") == 0);
	need_is(CU(cuMemcpyHtoD_v2)(p + 16, "reply", 6), CUDA_SUCCESS);
	need_is(CU(cuMemFree_v2)(p), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuIpcOpenMemHandle_v2)(&small, board->small, 1), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoH_v2)(back, small, 6), CUDA_SUCCESS);
	need(strcmp(back, "small") == 0);
	need_is(CU(cuIpcCloseMemHandle)(small), CUDA_SUCCESS);
	child_tell('o');
	child_wait(); /* the exporter frees it, or dies */
	need_is(CU(cuMemcpyDtoH_v2)(back, p + 700 * MIB, 15), CUDA_SUCCESS);
	need(strcmp(back, "written before") == 0);
	need_is(CU(cuIpcCloseMemHandle)(p), CUDA_SUCCESS);
	child_tell('1');
	child_wait();
	need_is(CU(cuIpcCloseMemHandle)(p), CUDA_SUCCESS); /* opened twice */
	need_is(CU(cuIpcCloseMemHandle)(p), CUDA_ERROR_INVALID_VALUE);
	child_tell('2');
	child_wait();
	need_is(CU(cuIpcOpenMemHandle_v2)(&p, board->ipc, 1), CUDA_ERROR_INVALID_VALUE);
}

static void ipc_memory_is_shared_counted_once_and_outlives_its_maker(void **state)
{
	struct child from, to;
	struct machine m;

	tools_up(&m);
	from = child_start(export_ipc);
	assert_int_equal(child_said(&from), 'e');
	assert_int_equal(shown(&from), GIB + 2 * MIB);
	to = child_start(open_ipc);
	assert_int_equal(child_said(&to), 'o');
	assert_int_equal(card_used(), 2 * context_bytes() + GIB + 2 * MIB);
	assert_int_equal(shown(&to), 0);
	child_go(&from);
	assert_int_equal(child_said(&from), 'f'); /* freed there, open here */
	assert_int_equal(card_used(), 2 * context_bytes() + GIB + 2 * MIB);
	assert_int_equal(shown(&from), 2 * MIB);
	assert_int_equal(shown(&to), GIB);
	child_go(&to);
	assert_int_equal(child_said(&to), '1');
	assert_int_equal(shown(&to), GIB);
	child_go(&to);
	assert_int_equal(child_said(&to), '2');
	assert_int_equal(card_used(), 2 * context_bytes() + 2 * MIB);
	child_go(&to);
	child_ends_well(&to);
	child_ends_well(&from);
	assert_int_equal(card_used(), 0);
	tools_down(&m);
}

static void the_dead_hold_nothing(void **state)
{
	struct child from, to;
	struct machine m;

	tools_up(&m);
	/* The maker is killed: the other still has the memory. */
	from = child_start(export_ipc);
	assert_int_equal(child_said(&from), 'e');
	to = child_start(open_ipc);
	assert_int_equal(child_said(&to), 'o');
	child_kill(&from);
	assert_int_equal(card_used(), context_bytes() + GIB);
	assert_int_equal(shown(&to), GIB);
	child_go(&to);
	assert_int_equal(child_said(&to), '1');
	child_kill(&to);
	assert_int_equal(card_used(), 0);
	/* The other is killed: the maker's memory is the maker's. */
	from = child_start(export_ipc);
	assert_int_equal(child_said(&from), 'e');
	to = child_start(open_ipc);
	assert_int_equal(child_said(&to), 'o');
	child_kill(&to);
	assert_int_equal(card_used(), context_bytes() + GIB + 2 * MIB);
	assert_int_equal(shown(&from), GIB + 2 * MIB);
	child_go(&from);
	assert_int_equal(child_said(&from), 'f');
	assert_int_equal(card_used(), context_bytes() + 2 * MIB);
	child_ends_well(&from);
	tools_down(&m);
}

/* A large allocation ends in a page with others. */
static void export_with_tail(void)
{
	CUdeviceptr large, small;

	child_context(0);
	need_is(CU(cuMemAlloc_v2)(&large, 3 * MIB), CUDA_SUCCESS);
	need_is(CU(cuMemAlloc_v2)(&small, 1000), CUDA_SUCCESS);
	need_is(small, large + 3 * MIB);
	need_is(CU(cuMemcpyHtoD_v2)(large + 2 * MIB - 3, "across", 7), CUDA_SUCCESS);
	need_is(CU(cuMemcpyHtoD_v2)(small, "small", 6), CUDA_SUCCESS);
	need_is(CU(cuIpcGetMemHandle)(&board->large, large + 3 * MIB - 1), CUDA_SUCCESS);
	need_is(CU(cuIpcGetMemHandle)(&board->small, small), CUDA_SUCCESS);
	child_tell('e');
	child_wait();
	need_is(CU(cuMemFree_v2)(large), CUDA_SUCCESS);
	child_tell('l');
	child_wait();
	need_is(CU(cuMemFree_v2)(small), CUDA_SUCCESS);
	child_tell('s');
	child_wait();
}

static void open_with_tail(void)
{
	CUdeviceptr large, small;
	char back[8] = "";

	child_context(0);
	need_is(CU(cuIpcOpenMemHandle_v2)(&large, board->large, 1), CUDA_SUCCESS);
	need_is(CU(cuIpcOpenMemHandle_v2)(&small, board->small, 1), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoH_v2)(back, large + 2 * MIB - 3, 7), CUDA_SUCCESS);
	need(strcmp(back, "across") == 0);
	need_is(CU(cuMemcpyDtoH_v2)(back, small, 6), CUDA_SUCCESS);
	need(strcmp(back, "small") == 0);
	child_tell('o');
	child_wait(); /* the exporter frees the large one */
	need_is(CU(cuMemcpyDtoH_v2)(back, large + 2 * MIB - 3, 7), CUDA_SUCCESS);
	need(strcmp(back, "across") == 0);
	need_is(CU(cuIpcCloseMemHandle)(large), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoH_v2)(back, small, 6), CUDA_SUCCESS);
	need(strcmp(back, "small") == 0);
	child_tell('1');
	child_wait();
	need_is(CU(cuIpcCloseMemHandle)(small), CUDA_SUCCESS);
	child_tell('2');
	child_wait();
}

static void a_tail_is_shared_with_the_page_it_is_in(void **state)
{
	struct child from, to;
	struct machine m;

	tools_up(&m);
	from = child_start(export_with_tail);
	assert_int_equal(child_said(&from), 'e');
	assert_int_equal(shown(&from), 4 * MIB);
	to = child_start(open_with_tail);
	assert_int_equal(child_said(&to), 'o');
	assert_int_equal(card_used(), 2 * context_bytes() + 4 * MIB);
	child_go(&from);
	assert_int_equal(child_said(&from), 'l');
	assert_int_equal(card_used(), 2 * context_bytes() + 4 * MIB);
	assert_int_equal(shown(&from), 2 * MIB);
	child_go(&to);
	assert_int_equal(child_said(&to), '1');
	assert_int_equal(card_used(), 2 * context_bytes() + 2 * MIB);
	child_go(&from);
	assert_int_equal(child_said(&from), 's');
	assert_int_equal(shown(&to), 2 * MIB); /* it has the page still */
	child_go(&to);
	assert_int_equal(child_said(&to), '2');
	assert_int_equal(card_used(), 2 * context_bytes());
	child_ends_well(&to);
	child_ends_well(&from);
	tools_down(&m);
}

/* --- handles of virtual memory management, external memory, multicast --- */

static const CUmemAllocationProp shareable = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
};

static CUdeviceptr map_handle(CUmemGenericAllocationHandle h, size_t size)
{
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUdeviceptr at = 0;

	need_is(CU(cuMemAddressReserve)(&at, size, 0, 0, 0), CUDA_SUCCESS);
	need_is(CU(cuMemMap)(at, size, 0, h, 0), CUDA_SUCCESS);
	need_is(CU(cuMemSetAccess)(at, size, &access, 1), CUDA_SUCCESS);
	return at;
}

static void export_handle(void)
{
	CUmemAllocationProp private = shareable;
	CUmemGenericAllocationHandle h, mine;
	CUdeviceptr at;
	int fd = -1;

	child_context(0);
	private.requestedHandleTypes = 0;
	need_is(CU(cuMemCreate)(&mine, 2 * MIB, &private, 0), CUDA_SUCCESS);
	need_is(CU(cuMemExportToShareableHandle)(&fd, mine, 1, 0), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemRelease)(mine), CUDA_SUCCESS);
	need_is(CU(cuMemCreate)(&h, 64 * MIB, &shareable, 0), CUDA_SUCCESS);
	at = map_handle(h, 64 * MIB);
	need_is(CU(cuMemcpyHtoD_v2)(at, "through a handle", 17), CUDA_SUCCESS);
	for (int i = 0; i < 2; i++) {
		need_is(CU(cuMemExportToShareableHandle)(&fd, h, 1, 0), CUDA_SUCCESS);
		send_fd(fd);
	}
	child_tell('e');
	child_wait();
	need_is(CU(cuMemUnmap)(at, 64 * MIB), CUDA_SUCCESS);
	need_is(CU(cuMemRelease)(h), CUDA_SUCCESS);
	child_tell('r');
	child_wait();
}

static void import_handle(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = { .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
						  .size = 64 * MIB };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = { .size = 64 * MIB };
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp prop;
	CUexternalMemory external;
	CUdeviceptr at, buffer;
	char back[32] = "";
	int fd;

	child_context(0);
	fd = receive_fd();
	need_is(CU(cuMemImportFromShareableHandle)(&h, (void *)(intptr_t)fd, 1), CUDA_SUCCESS);
	need_is(close(fd), 0);
	need_is(CU(cuMemImportFromShareableHandle)(&h, (void *)(intptr_t)child_in, 1),
		CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemGetAllocationPropertiesFromHandle)(&prop, h), CUDA_SUCCESS);
	need_is(prop.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	at = map_handle(h, 64 * MIB);
	need_is(CU(cuMemcpyDtoH_v2)(back, at, 17), CUDA_SUCCESS);
	need(strcmp(back, "through a handle") == 0);
	desc.handle.fd = receive_fd();
	need_is(CU(cuImportExternalMemory)(&external, &desc), CUDA_SUCCESS);
	need(fcntl(desc.handle.fd, F_GETFD) < 0); /* the driver took it */
	need_is(CU(cuExternalMemoryGetMappedBuffer)(&buffer, external, &all), CUDA_SUCCESS);
	need_is(CU(cuMemcpyHtoD_v2)(buffer, "T", 1), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoH_v2)(back, at, 17), CUDA_SUCCESS);
	need(strcmp(back, "Through a handle") == 0);
	child_tell('i');
	child_wait(); /* the exporter has let go */
	need_is(CU(cuMemUnmap)(at, 64 * MIB), CUDA_SUCCESS);
	need_is(CU(cuMemRelease)(h), CUDA_SUCCESS);
	child_tell('1');
	child_wait();
	need_is(CU(cuDestroyExternalMemory)(external), CUDA_SUCCESS);
	child_tell('2');
	child_wait();
	need_is(CU(cuMemFree_v2)(buffer), CUDA_SUCCESS);
	child_tell('3');
	child_wait();
}

static void an_imported_handle_keeps_the_memory(void **state)
{
	unsigned long long both = 2 * context_bytes();
	struct child from, to;
	struct machine m;

	tools_up(&m);
	from = child_start(export_handle);
	assert_int_equal(child_said(&from), 'e');
	to = child_start(import_handle);
	assert_int_equal(child_said(&to), 'i');
	assert_int_equal(card_used(), both + 64 * MIB);
	child_go(&from);
	assert_int_equal(child_said(&from), 'r');
	assert_int_equal(card_used(), both + 64 * MIB);
	assert_int_equal(shown(&to), 64 * MIB);
	child_go(&to);
	assert_int_equal(child_said(&to), '1'); /* still external memory */
	assert_int_equal(card_used(), both + 64 * MIB);
	child_go(&to);
	assert_int_equal(child_said(&to), '2'); /* still mapped */
	assert_int_equal(card_used(), both + 64 * MIB);
	child_go(&to);
	assert_int_equal(child_said(&to), '3');
	assert_int_equal(card_used(), both);
	child_ends_well(&to);
	child_ends_well(&from);
	tools_down(&m);
}

static size_t free_now(void)
{
	size_t free_bytes, total;

	need_is(CU(cuMemGetInfo_v2)(&free_bytes, &total), CUDA_SUCCESS);
	return free_bytes;
}

static void multicast(void)
{
	CUmulticastObjectProp prop = { .numDevices = 1, .size = 4 * MIB };
	CUmemGenericAllocationHandle object, mem;
	size_t before, grain = 0;
	int supported = 0;

	child_context(0);
	before = free_now();
	need_is(CU(cuDeviceGetAttribute)(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0),
		CUDA_SUCCESS);
	need_is(supported, 1);
	need_is(CU(cuMulticastGetGranularity)(&grain, &prop, 0), CUDA_SUCCESS);
	need_is(CU(cuMulticastCreate)(&object, &prop), CUDA_SUCCESS);
	need_is(free_now(), before); /* an object without memory */
	need_is(CU(cuMemCreate)(&mem, 4 * MIB, &shareable, 0), CUDA_SUCCESS);
	need_is(CU(cuMulticastBindMem)(object, 0, mem, 0, 4 * MIB, 0), CUDA_ERROR_ILLEGAL_STATE);
	need_is(CU(cuMulticastAddDevice)(object, 0), CUDA_SUCCESS);
	need_is(CU(cuMulticastBindMem)(object, 0, mem, 0, 4 * MIB, 0), CUDA_SUCCESS);
	need_is(CU(cuMemRelease)(mem), CUDA_SUCCESS);
	need_is(before - free_now(), 4 * MIB); /* bound memory stays */
	need_is(CU(cuMulticastUnbind)(object, 0, 0, 4 * MIB), CUDA_SUCCESS);
	need_is(free_now(), before);
	need_is(CU(cuMulticastUnbind)(object, 0, 0, 4 * MIB), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemCreate)(&mem, 4 * MIB, &shareable, 0), CUDA_SUCCESS);
	need_is(CU(cuMulticastBindMem)(object, 0, mem, 0, 4 * MIB, 0), CUDA_SUCCESS);
	need_is(CU(cuMemRelease)(mem), CUDA_SUCCESS);
	need_is(CU(cuMemRelease)(object), CUDA_SUCCESS);
	need_is(free_now(), before);
}

static void a_multicast_object_keeps_what_is_bound_to_it(void **state)
{
	struct machine m;
	struct child c;

	machine_up(&m, "1xH200", true);
	c = child_start(multicast);
	child_ends_well(&c);
	machine_down(&m);
}

/* --- pools --- */

static void export_pool(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemoryPool pool, plain;
	CUdeviceptr p, q;
	int fd = -1;

	child_context(0);
	need_is(CU(cuDeviceGetDefaultMemPool)(&plain, 0), CUDA_SUCCESS);
	need_is(CU(cuMemPoolExportToShareableHandle)(&fd, plain, 1, 0), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemPoolCreate)(&pool, &props), CUDA_SUCCESS);
	need_is(CU(cuMemAllocFromPoolAsync)(&p, 1000, pool, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemAllocFromPoolAsync)(&q, 1000, pool, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemcpyHtoD_v2)(q, "from a pool", 12), CUDA_SUCCESS);
	need_is(CU(cuMemPoolExportPointer)(&board->pointer, q), CUDA_SUCCESS);
	need_is(CU(cuMemPoolExportPointer)(&board->second, p), CUDA_SUCCESS);
	need_is(CU(cuMemPoolExportToShareableHandle)(&fd, pool, 1, 0), CUDA_SUCCESS);
	send_fd(fd);
	child_tell('e');
	child_wait();
	need_is(CU(cuMemFreeAsync)(p, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemFreeAsync)(q, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS);
	child_tell('d');
	child_wait();
}

static void import_pool(void)
{
	CUmemPoolPtrExportData bad = { .reserved = "bad" };
	CUdeviceptr p, q, r;
	char back[16] = "";
	CUmemoryPool pool;
	int fd;

	child_context(0);
	fd = receive_fd();
	need_is(CU(cuMemPoolImportFromShareableHandle)(&pool, (void *)(intptr_t)fd, 1, 0),
		CUDA_SUCCESS);
	close(fd);
	need_is(CU(cuMemAllocFromPoolAsync)(&p, 1000, pool, NULL), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemPoolImportPointer)(&p, pool, &bad), CUDA_ERROR_INVALID_VALUE);
	need_is(CU(cuMemPoolImportPointer)(&p, pool, &board->pointer), CUDA_SUCCESS);
	need_is(CU(cuMemPoolImportPointer)(&q, pool, &board->second), CUDA_SUCCESS);
	need_is(CU(cuMemPoolImportPointer)(&r, pool, &board->second), CUDA_ERROR_ALREADY_MAPPED);
	need_is(CU(cuMemcpyDtoH_v2)(back, p, 12), CUDA_SUCCESS);
	need(strcmp(back, "from a pool") == 0);
	child_tell('i');
	child_wait();
	need_is(CU(cuMemcpyDtoH_v2)(back, p, 12), CUDA_SUCCESS);
	need_is(CU(cuMemFreeAsync)(p, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemcpyDtoH_v2)(back, p, 12), CUDA_ERROR_INVALID_VALUE);
	child_tell('1');
	child_wait();
	need_is(CU(cuMemFreeAsync)(q, NULL), CUDA_SUCCESS);
	need_is(CU(cuMemPoolDestroy)(pool), CUDA_SUCCESS);
	child_tell('2');
	child_wait();
}

static void pointers_of_a_pool_can_be_imported(void **state)
{
	unsigned long long both = 2 * context_bytes();
	struct child from, to;
	struct machine m;

	tools_up(&m);
	from = child_start(export_pool);
	assert_int_equal(child_said(&from), 'e');
	to = child_start(import_pool);
	assert_int_equal(child_said(&to), 'i');
	assert_int_equal(card_used(), both + 32 * MIB); /* one block, counted once */
	child_go(&from);
	assert_int_equal(child_said(&from), 'd');
	assert_int_equal(shown(&from), 0);
	assert_int_equal(shown(&to), 32 * MIB);
	child_go(&to);
	assert_int_equal(child_said(&to), '1');
	assert_int_equal(card_used(), both + 32 * MIB);
	child_go(&to);
	assert_int_equal(child_said(&to), '2');
	assert_int_equal(card_used(), both);
	child_ends_well(&to);
	child_ends_well(&from);
	tools_down(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipc_memory_is_shared_counted_once_and_outlives_its_maker),
		cmocka_unit_test(the_dead_hold_nothing),
		cmocka_unit_test(a_tail_is_shared_with_the_page_it_is_in),
		cmocka_unit_test(an_imported_handle_keeps_the_memory),
		cmocka_unit_test(a_multicast_object_keeps_what_is_bound_to_it),
		cmocka_unit_test(pointers_of_a_pool_can_be_imported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
