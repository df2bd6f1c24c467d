/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of cuMemCreate: what the guest's memory that moves is made of. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/lab.h"

enum { BYTES = 2 << 20 };

CLAIM(granularity_is_2_mib)
{
	struct lab lab = lab_begin();
	CUmemAllocationProp property = lab_property(&lab, false);
	size_t least, advised;

	must(cuMemGetAllocationGranularity(&least, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	must(cuMemGetAllocationGranularity(&advised, &property,
					   CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	holds(least == BYTES && advised == BYTES, "it is %zu, and recommended are %zu", least,
	      advised);
}

CLAIM(a_released_handle_leaves_its_mapping)
{
	struct lab lab = lab_begin();
	size_t before = lab_free_bytes();
	CUdeviceptr at = lab_reserve(BYTES);
	CUmemGenericAllocationHandle handle = lab_create(&lab, BYTES);

	lab_map(&lab, at, handle, BYTES);
	must(cuMemRelease(handle));
	must(cuMemsetD32_v2(at, 77, BYTES / 4));
	holds(lab_word(at + BYTES - 4) == 77, "the memory has lost what was written");
	holds(before - lab_free_bytes() >= BYTES, "the memory no longer counts");
	must(cuMemUnmap(at, BYTES));
	holds(lab_free_bytes() == before, "unmapping does not return it");
}

/* add() to the word, once directly and once by a graph that was made before the memory moved. */
static CUgraphExec graph_of(CUfunction add, void **arguments)
{
	CUstream stream = lab_stream(CU_STREAM_NON_BLOCKING);
	CUgraphExec exec;
	CUgraph graph;

	must(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	must(lab_launch(add, stream, arguments));
	must(cuStreamEndCapture(stream, &graph));
	must(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static void move(const struct lab *lab, CUdeviceptr at)
{
	unsigned kept = lab_word(at);

	must(cuMemUnmap(at, BYTES));
	for (int i = 0; i < 3; i++) /* so that the memory is other memory */
		lab_create(lab, BYTES);
	lab_map(lab, at, lab_create(lab, BYTES), BYTES);
	must(cuMemsetD32_v2(at, kept, 1));
}

CLAIM(kernels_and_graphs_find_memory_that_moved)
{
	struct lab lab = lab_begin();
	CUdeviceptr at = lab_reserve(BYTES);
	CUfunction add = lab_kernel(&lab, "add");
	unsigned k = 5;
	void *arguments[] = {&at, &k};
	CUgraphExec exec;

	lab_map(&lab, at, lab_create(&lab, BYTES), BYTES);
	must(cuMemsetD32_v2(at, 1, 1));
	exec = graph_of(add, arguments);
	must(cuGraphLaunch(exec, NULL));
	must(cuCtxSynchronize());
	for (unsigned i = 0; i < 5; i++) {
		unsigned wanted = lab_word(at) + 10;

		move(&lab, at);
		must(lab_launch(add, NULL, arguments));
		must(cuGraphLaunch(exec, NULL));
		must(cuCtxSynchronize());
		holds(lab_word(at) == wanted, "move %u: %u, not %u", i, lab_word(at), wanted);
	}
}

static const char look[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .entry look(.param .u64 texture, .param .u64 out)\n{\n"
	".reg .u64 %t, %o;\n.reg .b32 %v<4>, %x;\n"
	"ld.param.u64 %t, [texture];\nld.param.u64 %o, [out];\nmov.u32 %x, 3;\n"
	"tex.1d.v4.u32.s32 {%v0, %v1, %v2, %v3}, [%t, {%x}];\nst.global.u32 [%o], %v0;\nret;\n}\n";

CLAIM(textures_find_memory_that_moved)
{
	struct lab lab = lab_begin();
	CUdeviceptr at = lab_reserve(BYTES), out;
	CUDA_RESOURCE_DESC resource;
	CUDA_TEXTURE_DESC description;
	CUtexObject texture;
	CUmodule module;
	CUfunction kernel;
	void *arguments[] = {&texture, &out};
	CUresult r = cuModuleLoadData(&module, look);

	if (r != CUDA_SUCCESS)
		claim_needs("the driver does not compile a kernel that reads a texture: %d",
			    (int)r);
	must(cuModuleGetFunction(&kernel, module, "look"));
	must(cuMemAlloc_v2(&out, 4));
	lab_map(&lab, at, lab_create(&lab, BYTES), BYTES);
	memset(&resource, 0, sizeof(resource));
	memset(&description, 0, sizeof(description));
	resource.resType = CU_RESOURCE_TYPE_LINEAR;
	resource.res.linear.devPtr = at;
	resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
	resource.res.linear.numChannels = 1;
	resource.res.linear.sizeInBytes = BYTES;
	description.flags = CU_TRSF_READ_AS_INTEGER;
	must(cuTexObjectCreate(&texture, &resource, &description, NULL));
	for (unsigned i = 0; i < 5; i++) {
		move(&lab, at);
		must(cuMemsetD32_v2(at, 100 + i, 16));
		must(lab_launch(kernel, NULL, arguments));
		must(cuCtxSynchronize());
		holds(lab_word(out) == 100 + i, "move %u: %u, not %u", i, lab_word(out), 100 + i);
	}
}

CLAIM(one_memory_shows_at_two_addresses)
{
	struct lab lab = lab_begin();
	size_t before = lab_free_bytes();
	CUdeviceptr first = lab_reserve(BYTES), second = lab_reserve(BYTES);
	CUmemGenericAllocationHandle handle = lab_create(&lab, BYTES);
	unsigned v = 41;
	void *arguments[] = {&first, &v};

	lab_map(&lab, first, handle, BYTES);
	lab_map(&lab, second, handle, BYTES);
	must(lab_launch(lab_kernel(&lab, "store"), NULL, arguments));
	must(cuCtxSynchronize());
	holds(lab_word(second) == 41, "a copy through the second sees %u", lab_word(second));
	must(cuMemRelease(handle));
	must(cuMemUnmap(first, BYTES));
	holds(lab_word(second) == 41, "the second has lost it with the first");
	holds(before - lab_free_bytes() >= BYTES, "it no longer counts while it is mapped once");
	must(cuMemUnmap(second, BYTES));
	holds(lab_free_bytes() == before, "it is not returned with its last mapping");
}

static void *ask_range(void *argument)
{
	CUdeviceptr at = *(CUdeviceptr *)argument, start = 0;
	CUcontext current = NULL;
	size_t bytes = 0;

	must(cuCtxGetCurrent(&current));
	if (current)
		claim_failed("a new thread has a context");
	answers(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at + 4096),
		CUDA_SUCCESS);
	answers(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at + 4096),
		CUDA_SUCCESS);
	holds(start == at && bytes == BYTES, "it begins %lld bytes off and has %zu",
	      (long long)(start - at), bytes);
	return NULL;
}

CLAIM(ranges_are_told_without_a_context)
{
	struct lab lab = lab_begin();
	CUdeviceptr at = lab_reserve(BYTES);

	lab_map(&lab, at, lab_create(&lab, BYTES), BYTES);
	lab_in_thread(ask_range, &at);
}

struct under {
	struct lab lab;
	CUdeviceptr at;
	struct lab_word end;
	atomic_bool returned;
	CUresult result;
};

static void *unmap(void *argument)
{
	struct under *under = argument;

	must(cuCtxSetCurrent(under->lab.context));
	under->result = cuMemUnmap(under->at, BYTES);
	atomic_store(&under->returned, true);
	return NULL;
}

/* The kernel goes on reading until it is told to end, so a call that waits for it would not return.
 */
CLAIM(unmapping_under_a_kernel_breaks_it_and_does_not_wait)
{
	struct under under = {.lab = lab_begin()};
	struct lab_word begun = lab_shared_word();
	CUstream stream = lab_stream(CU_STREAM_NON_BLOCKING);
	void *arguments[] = {&under.at, &begun.device, &under.end.device};
	uint64_t from;
	pthread_t thread;
	CUresult end;
	bool waited;

	under.end = lab_shared_word();
	under.at = lab_reserve(BYTES);
	lab_map(&under.lab, under.at, lab_create(&under.lab, BYTES), BYTES);
	must(lab_launch(lab_kernel(&under.lab, "watch"), stream, arguments));
	while (!atomic_load(begun.host))
		usleep(50);
	if (pthread_create(&thread, NULL, unmap, &under) != 0)
		claim_failed("no thread");
	for (from = lab_now_us(); !atomic_load(&under.returned) && lab_now_us() - from < 5000000;)
		usleep(1000);
	waited = !atomic_load(&under.returned);
	/* A kernel that noticed nothing for so long notices nothing. */
	for (from = lab_now_us(); !waited && cuStreamQuery(stream) == CUDA_ERROR_NOT_READY &&
				  lab_now_us() - from < 10000000;)
		usleep(1000);
	atomic_store(under.end.host, 1);
	end = cuStreamSynchronize(stream);
	holds(!waited, "cuMemUnmap waits for the kernel");
	holds(end == CUDA_ERROR_ILLEGAL_ADDRESS, "the kernel ends with %d", (int)end);
}

CLAIM(a_handle_is_retained_for_any_address_of_a_mapping)
{
	struct lab lab = lab_begin();
	size_t before = lab_free_bytes();
	CUdeviceptr at = lab_reserve(2 * BYTES);
	CUmemGenericAllocationHandle handle = lab_create(&lab, 2 * BYTES), again;
	static const size_t offsets[] = {0, 1, 4096, BYTES, 2 * BYTES - 1};

	lab_map(&lab, at, handle, 2 * BYTES);
	must(cuMemRelease(handle));
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		answers(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + offsets[i])),
			CUDA_SUCCESS);
		must(cuMemRelease(again));
	}
	must(cuMemUnmap(at, 2 * BYTES));
	holds(lab_free_bytes() == before, "memory stays after its last release");
}

static int export(CUmemGenericAllocationHandle handle)
{
	int fd = -1;

	must(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  0));
	return fd;
}

CLAIM(exported_memory_lives_until_its_descriptor_is_closed)
{
	struct lab lab = lab_begin();
	CUmemAllocationProp property = lab_property(&lab, true);
	size_t before = lab_free_bytes();
	CUmemGenericAllocationHandle handle;
	int fd;

	must(cuMemCreate(&handle, 64 * MiB, &property, 0));
	fd = export(handle);
	must(cuMemRelease(handle));
	holds(before - lab_free_bytes() >= 64 * MiB, "it is gone with its handle");
	must(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	holds(before - lab_free_bytes() >= 64 * MiB,
	      "it is gone with its descriptor, though imported");
	must(cuMemRelease(handle));
	holds(lab_free_bytes() == before, "it outlives all of them");
}

static int pass_fd(int socket, int fd) /* fd < 0: receives one */
{
	char byte = 1, room[CMSG_SPACE(sizeof(int))];
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};
	struct cmsghdr *header = (struct cmsghdr *)(void *)room;

	memset(room, 0, sizeof(room));
	if (fd < 0) {
		if (recvmsg(socket, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
			return -1;
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
		return fd;
	}
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	return sendmsg(socket, &message, 0) == 1 ? 0 : -1;
}

static void import_and_read(int socket)
{
	int fd = pass_fd(socket, -1);
	struct lab lab = lab_begin();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at = lab_reserve(BYTES);

	if (fd < 0)
		claim_failed("no descriptor came");
	must(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	lab_map(&lab, at, handle, BYTES);
	holds(lab_word(at) == 1234, "the other process reads %u", lab_word(at));
	_exit(0);
}

CLAIM(a_retained_handle_is_exported_to_another_process)
{
	CUmemGenericAllocationHandle handle, retained;
	CUmemAllocationProp property;
	struct lab lab;
	CUdeviceptr at;
	int ends[2], status;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		claim_failed("no pipe");
	child = lab_fork();
	if (child == 0)
		import_and_read(ends[1]);
	lab = lab_begin();
	property = lab_property(&lab, true);
	property.allocFlags.gpuDirectRDMACapable = 1;
	if (cuMemCreate(&handle, BYTES, &property, 0) != CUDA_SUCCESS) {
		claim_say("without RDMA: the device has none");
		property.allocFlags.gpuDirectRDMACapable = 0;
		must(cuMemCreate(&handle, BYTES, &property, 0));
	}
	at = lab_reserve(BYTES);
	lab_map(&lab, at, handle, BYTES);
	must(cuMemRelease(handle));
	must(cuMemsetD32_v2(at, 1234, 1));
	must(cuCtxSynchronize());
	answers(cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)at), CUDA_SUCCESS);
	if (pass_fd(ends[0], export(retained)) != 0)
		claim_failed("the descriptor is not sent");
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		claim_failed("the other process did not end");
	if (WEXITSTATUS(status))
		_exit(WEXITSTATUS(status)); /* it has said why */
}

/* A median of microseconds for 64 MiB to be there: created, mapped and given access. */
static uint64_t time_of(const struct lab *lab, CUmemAllocationProp property)
{
	enum { TRIES = 9 };
	uint64_t took[TRIES];

	for (int i = 0; i < TRIES; i++) {
		CUmemGenericAllocationHandle handle;
		CUdeviceptr at = lab_reserve(64 * MiB);
		uint64_t from = lab_now_us();

		must(cuMemCreate(&handle, 64 * MiB, &property, 0));
		lab_map(lab, at, handle, 64 * MiB);
		took[i] = lab_now_us() - from;
		must(cuMemUnmap(at, 64 * MiB));
		must(cuMemRelease(handle));
		for (int j = i; j > 0 && took[j] < took[j - 1]; j--) {
			uint64_t t = took[j];

			took[j] = took[j - 1];
			took[j - 1] = t;
		}
	}
	return took[TRIES / 2];
}

CLAIM(shareable_memory_costs_no_more)
{
	struct lab lab = lab_begin();
	CUmemAllocationProp plain = lab_property(&lab, false), shared = lab_property(&lab, true);
	uint64_t without, with;

	lab_needs_real_time();
	shared.allocFlags.gpuDirectRDMACapable = 1;
	without = time_of(&lab, plain);
	with = time_of(&lab, shared);
	holds(with <= without * 3 / 2 + 20, "64 MiB take %llu us, shareable %llu us",
	      (unsigned long long)without, (unsigned long long)with);
	claim_say("64 MiB take %llu us, shareable %llu us", (unsigned long long)without,
		  (unsigned long long)with);
}

/* A copy of one part returns while its stream waits, which it would not from pageable memory. */
CLAIM(sealed_memory_is_registered_in_parts)
{
	enum { PART = 16 << 20, PARTS = 4 };
	struct lab lab = lab_begin();
	struct lab_word gate = lab_shared_word();
	CUstream stream = lab_stream(CU_STREAM_NON_BLOCKING);
	int fd = memfd_create("claim", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CUdeviceptr at;
	char *memory;

	(void)lab;
	if (fd < 0 || ftruncate(fd, (off_t)PART * PARTS) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		claim_failed("no sealed memory file");
	memory = mmap(NULL, (size_t)PART * PARTS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		claim_failed("it cannot be mapped");
	must(cuMemAlloc_v2(&at, PART));
	for (int i = 0; i < PARTS; i++)
		answers(cuMemHostRegister_v2(memory + (size_t)i * PART, PART, 0), CUDA_SUCCESS);
	must(cuStreamWaitValue32_v2(stream, gate.device, 1, CU_STREAM_WAIT_VALUE_GEQ));
	/* Its last bytes are the part's last. */
	answers(cuMemcpyHtoDAsync_v2(at, memory + 2 * (size_t)PART - MiB, MiB, stream),
		CUDA_SUCCESS);
	holds(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY,
	      "the copy did not wait for its stream");
	memset(memory + 2 * (size_t)PART - MiB, 9, MiB);
	atomic_store(gate.host, 1);
	must(cuStreamSynchronize(stream));
	holds(lab_word(at) == 0x09090909, "the copy had been made when the call returned");
	for (int i = 0; i < PARTS; i++)
		must(cuMemHostUnregister(memory + (size_t)i * PART));
}
