/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes on one node. The program itself never calls the driver: its children do. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/system/sim/node.h"

enum {
	NOT_REACHED_TRIES = 3000, /* a millisecond each, and then a record counts as not reached */
	SILENT_MS = 10000,
};

/* A child that runs `body` with one end of a socket; the parent has the other. */
static pid_t child_start(void (*body)(int), int *ret_socket)
{
	int ends[2];
	pid_t child;

	expect_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	child = fork();
	if (child == 0) {
		close(ends[0]);
		body(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	*ret_socket = ends[0];
	return child;
}

static void child_end(pid_t child, int end)
{
	int status;

	close(end);
	expect_eq(waitpid(child, &status, 0), child);
	expect_eq(status, 0);
}

static void say(int end, const void *data, size_t bytes)
{
	check(send(end, data, bytes, 0) == (ssize_t)bytes);
}

static void hear(int end, void *data, size_t bytes)
{
	check(recv(end, data, bytes, 0) == (ssize_t)bytes);
}

static void start(void)
{
	CUcontext context;

	check(cuInit(0) == CUDA_SUCCESS);
	check(cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
}

static size_t free_now(void)
{
	size_t available = 0, total;

	check(cuMemGetInfo_v2(&available, &total) == CUDA_SUCCESS);
	return available;
}

static void hoard(int end)
{
	CUdeviceptr address;
	char byte = 0;

	start();
	check(cuMemAlloc_v2(&address, 3000 * MiB) == CUDA_SUCCESS);
	say(end, &byte, 1);
	while (recv(end, &byte, 1, 0) > 0)
		;
}

static void look(int end)
{
	uint64_t available;
	char byte;

	start();
	while (recv(end, &byte, 1, 0) == 1) {
		available = free_now();
		say(end, &available, sizeof(available));
	}
}

static uint64_t ask(int end)
{
	uint64_t available = 0;

	say(end, "", 1);
	hear(end, &available, sizeof(available));
	return available;
}

TEST(memory_of_a_killed_process_comes_back)
{
	int hoarding, looking;
	uint64_t before, during;
	pid_t looker = child_start(look, &looking), hoarder;
	char byte;

	before = ask(looking);
	hoarder = child_start(hoard, &hoarding);
	hear(hoarding, &byte, 1);
	during = ask(looking);
	expect(before - during >= 3000 * MiB);
	kill(hoarder, SIGKILL);
	waitpid(hoarder, NULL, 0);
	close(hoarding);
	expect_eq(ask(looking), before);
	child_end(looker, looking);
}

static void refused(int end)
{
	CUdeviceptr address;
	char byte;

	start();
	hear(end, &byte, 1);
	check(cuMemAlloc_v2(&address, 3000 * MiB) == CUDA_ERROR_OUT_OF_MEMORY);
	check(cuMemAlloc_v2(&address, 100 * MiB) == CUDA_SUCCESS);
	say(end, &byte, 1);
}

TEST(processes_share_one_capacity)
{
	int hoarding, asking;
	pid_t hoarder = child_start(hoard, &hoarding), asker = child_start(refused, &asking);
	char byte;

	hear(hoarding, &byte, 1);
	say(asking, "", 1);
	hear(asking, &byte, 1);
	child_end(asker, asking);
	child_end(hoarder, hoarding);
}

static void owner(int end)
{
	CUipcMemHandle handle;
	CUdeviceptr small, large;
	unsigned word = 1234;
	char byte;

	start();
	check(cuMemAlloc_v2(&small, 4096) == CUDA_SUCCESS);
	check(cuMemAlloc_v2(&large, 5 * MiB) == CUDA_SUCCESS);
	check(cuMemcpyHtoD_v2(small + 100, &word, 4) == CUDA_SUCCESS);
	check(cuMemcpyHtoD_v2(large + 4 * MiB, &word, 4) == CUDA_SUCCESS);
	check(cuIpcGetMemHandle(&handle, small) == CUDA_SUCCESS);
	say(end, &handle, sizeof(handle));
	check(cuIpcGetMemHandle(&handle, large) == CUDA_SUCCESS);
	say(end, &handle, sizeof(handle));
	check(cuIpcOpenMemHandle_v2(&large, handle, 1) == CUDA_ERROR_INVALID_CONTEXT);
	hear(end, &byte, 1);
	check(cuMemcpyDtoH_v2(&word, small + 100, 4) == CUDA_SUCCESS);
	say(end, &word, sizeof(word));
	hear(end, &byte, 1);
}

static void borrower(int end)
{
	CUipcMemHandle handle;
	CUdeviceptr address[2];
	unsigned word = 0;

	start();
	for (int i = 0; i < 2; i++) {
		hear(end, &handle, sizeof(handle));
		check(cuIpcOpenMemHandle_v2(&address[i], handle, 0) == CUDA_ERROR_INVALID_VALUE);
		check(cuIpcOpenMemHandle_v2(&address[i], handle, 1) == CUDA_SUCCESS);
		check(cuMemcpyDtoH_v2(&word, address[i] + (i ? 4 * MiB : 100), 4) == CUDA_SUCCESS);
		check(word == 1234);
	}
	word = 4321;
	check(cuMemcpyHtoD_v2(address[0] + 100, &word, 4) == CUDA_SUCCESS);
	check(cuMemFree_v2(address[0]) == CUDA_ERROR_INVALID_VALUE);
	check(cuIpcCloseMemHandle(address[0]) == CUDA_SUCCESS);
	check(cuIpcCloseMemHandle(address[0]) == CUDA_ERROR_INVALID_VALUE);
	memset(&handle, 0x5a, sizeof(handle));
	check(cuIpcOpenMemHandle_v2(&address[0], handle, 1) == CUDA_ERROR_INVALID_VALUE);
	say(end, &word, sizeof(word));
}

TEST(an_ipc_handle_is_the_same_memory_elsewhere)
{
	CUipcMemHandle handle;
	int owning, borrowing;
	pid_t first = child_start(owner, &owning), second = child_start(borrower, &borrowing);
	unsigned word;

	for (int i = 0; i < 2; i++) {
		hear(owning, &handle, sizeof(handle));
		say(borrowing, &handle, sizeof(handle));
	}
	hear(borrowing, &word, sizeof(word));
	say(owning, "", 1);
	hear(owning, &word, sizeof(word));
	expect_eq(word, 4321);
	say(owning, "", 1);
	child_end(second, borrowing);
	child_end(first, owning);
}

/* A word that holds up a stream until the host sets it. */
static atomic_uint *hold(CUstream stream)
{
	CUdeviceptr device;
	void *word;

	check(cuMemHostAlloc(&word, 4, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
	*(unsigned *)word = 0;
	check(cuMemHostGetDevicePointer_v2(&device, word, 0) == CUDA_SUCCESS);
	check(cuStreamWaitValue32_v2(stream, device, 1, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
	return word;
}

struct event_gift {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

static void recorder(int end)
{
	const unsigned flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
	struct event_gift gift;
	CUevent event, plain, again;
	CUdeviceptr memory;
	atomic_uint *word;
	CUstream stream;
	char byte;

	start();
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	check(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
	check(cuIpcGetEventHandle(&gift.event, plain) == CUDA_ERROR_INVALID_HANDLE);
	check(cuEventCreate(&event, flags) == CUDA_SUCCESS);
	check(cuIpcGetEventHandle(&gift.event, event) == CUDA_SUCCESS);
	check(cuIpcOpenEventHandle(&again, gift.event) == CUDA_ERROR_INVALID_CONTEXT);
	check(cuEventQuery(event) == CUDA_SUCCESS);
	check(cuMemAlloc_v2(&memory, 4096) == CUDA_SUCCESS);
	check(cuMemsetD32_v2(memory, 0, 1) == CUDA_SUCCESS);
	check(cuIpcGetMemHandle(&gift.memory, memory) == CUDA_SUCCESS);
	word = hold(stream);
	check(cuMemsetD32Async(memory, 77, 1, stream) == CUDA_SUCCESS);
	check(cuEventRecord(event, stream) == CUDA_SUCCESS);
	say(end, &gift, sizeof(gift));
	hear(end, &byte, 1); /* the other one waits */
	check(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
	atomic_store(word, 1);
	hear(end, &byte, 1); /* the other one has recorded it, after a pause of its own */
	check(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
	say(end, "", 1);
	check(cuEventSynchronize(event) == CUDA_SUCCESS);
	check(cuEventQuery(event) == CUDA_SUCCESS);
}

static void waiter(int end)
{
	struct event_gift gift;
	CUdeviceptr memory;
	unsigned seen = 0;
	atomic_uint *word;
	CUstream stream;
	CUresult result;
	CUevent event;
	char byte;

	start();
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	hear(end, &gift, sizeof(gift));
	check(cuIpcOpenMemHandle_v2(&memory, gift.memory, 1) == CUDA_SUCCESS);
	check(cuIpcOpenEventHandle(&event, gift.event) == CUDA_SUCCESS);
	check(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
	check(cuStreamWaitEvent(stream, event, 0) == CUDA_SUCCESS);
	check(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY);
	say(end, "", 1);
	check(cuMemcpyDtoHAsync_v2(&seen, memory, 4, stream) == CUDA_SUCCESS);
	check(cuStreamSynchronize(stream) == CUDA_SUCCESS);
	check(seen == 77);
	check(cuEventQuery(event) == CUDA_SUCCESS);
	word = hold(stream);
	check(cuEventRecord(event, stream) == CUDA_SUCCESS);
	say(end, "", 1);
	hear(end, &byte, 1);
	atomic_store(word, 1);
	check(cuEventSynchronize(event) == CUDA_SUCCESS);
	check(cuEventDestroy_v2(event) == CUDA_SUCCESS);
	/* An H100's driver answers another error than ours, CUDA_ERROR_INVALID_VALUE. */
	memset(&gift.event, 0x5a, sizeof(gift.event));
	result = cuIpcOpenEventHandle(&event, gift.event);
	fprintf(stderr, "a handle that is none is opened with %d\n", (int)result);
	check(result != CUDA_SUCCESS);
}

TEST(an_event_is_recorded_and_waited_for_in_several_processes)
{
	struct event_gift gift;
	int recording, waiting;
	pid_t first = child_start(recorder, &recording), second = child_start(waiter, &waiting);
	char byte;

	hear(recording, &gift, sizeof(gift));
	say(waiting, &gift, sizeof(gift));
	for (int i = 0; i < 2; i++) {
		hear(waiting, &byte, 1);
		say(recording, "", 1);
	}
	hear(recording, &byte, 1);
	say(waiting, "", 1);
	child_end(second, waiting);
	child_end(first, recording);
}

/* Of work that never ends. */
static void recorder_that_dies(int end)
{
	CUipcEventHandle handle;
	CUstream stream;
	CUevent event;
	char byte;

	start();
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	check(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ==
	      CUDA_SUCCESS);
	check(cuIpcGetEventHandle(&handle, event) == CUDA_SUCCESS);
	hold(stream);
	check(cuEventRecord(event, stream) == CUDA_SUCCESS);
	say(end, &handle, sizeof(handle));
	hear(end, &byte, 1);
}

/* A stream that waits for what the other process has recorded. */
static CUstream wait_for_record(int end, CUevent *ret_event)
{
	CUipcEventHandle handle;
	CUstream stream;

	start();
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	hear(end, &handle, sizeof(handle));
	check(cuIpcOpenEventHandle(ret_event, handle) == CUDA_SUCCESS);
	check(cuEventQuery(*ret_event) == CUDA_ERROR_NOT_READY);
	check(cuStreamWaitEvent(stream, *ret_event, 0) == CUDA_SUCCESS);
	say(end, "", 1);
	return stream;
}

static void waiter_for_the_dead(int end)
{
	CUevent event;
	CUstream stream = wait_for_record(end, &event);

	check(cuStreamSynchronize(stream) == CUDA_SUCCESS);
	check(cuEventSynchronize(event) == CUDA_SUCCESS);
}

/* Our choice. An H100's driver (580.159.04) did not get there, and no GPU is asked this. */
TEST(what_a_dead_process_recorded_counts_as_done)
{
	CUipcEventHandle handle;
	int recording, waiting;
	pid_t first = child_start(recorder_that_dies, &recording),
	      second = child_start(waiter_for_the_dead, &waiting);
	char byte;

	hear(recording, &handle, sizeof(handle));
	say(waiting, &handle, sizeof(handle));
	hear(waiting, &byte, 1);
	expect_eq(kill(first, SIGKILL), 0);
	expect_eq(waitpid(first, NULL, 0), first);
	close(recording);
	child_end(second, waiting);
}

/* Says whether it was reached, after some seconds at most, and waits to be killed. */
static void asker_about_the_dead(int end)
{
	CUevent event;
	CUstream stream = wait_for_record(end, &event);
	CUresult result = CUDA_ERROR_NOT_READY;
	char byte;

	hear(end, &byte, 1); /* the other one is being killed */
	for (unsigned i = 0; i < NOT_REACHED_TRIES && result == CUDA_ERROR_NOT_READY; i++) {
		result = cuStreamQuery(stream);
		usleep(1000);
	}
	say(end, &result, sizeof(result));
	hear(end, &byte, 1);
}

static bool speaks(int end)
{
	return poll(&(struct pollfd){.fd = end, .events = POLLIN}, 1, SILENT_MS) == 1;
}

/* For a GPU, where a wait that has no end has to become an answer. */
TEST(a_wait_for_what_the_dead_recorded_is_told_no_error)
{
	CUipcEventHandle handle;
	int recording, waiting;
	pid_t first = child_start(recorder_that_dies, &recording),
	      second = child_start(asker_about_the_dead, &waiting);
	CUresult result = CUDA_ERROR_UNKNOWN;
	char byte;

	expect(speaks(recording));
	hear(recording, &handle, sizeof(handle));
	say(waiting, &handle, sizeof(handle));
	expect(speaks(waiting));
	hear(waiting, &byte, 1);
	expect_eq(kill(first, SIGKILL), 0);
	say(waiting, "", 1);
	expect(speaks(waiting));
	hear(waiting, &result, sizeof(result));
	fprintf(stderr, "what a dead process recorded is %s\n",
		result == CUDA_ERROR_NOT_READY ? "not reached" : "reached");
	expect(result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY);
	expect_eq(kill(second, SIGKILL), 0);
	expect_eq(waitpid(second, NULL, 0), second);
	expect_eq(waitpid(first, NULL, 0), first);
	close(recording);
	close(waiting);
}

static void fd_send(int end, int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec byte = {.iov_base = room, .iov_len = 1};
	struct msghdr message = {.msg_iov = &byte,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	check(sendmsg(end, &message, 0) == 1);
}

static int fd_receive(int end)
{
	char room[CMSG_SPACE(sizeof(int))], data;
	struct iovec byte = {.iov_base = &data, .iov_len = 1};
	struct msghdr message = {.msg_iov = &byte,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};
	int fd;

	check(recvmsg(end, &message, 0) == 1);
	check(CMSG_FIRSTHDR(&message) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc both = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
				CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address;

	check(cuMemAddressReserve(&address, 2 * MiB, 0, 0, 0) == CUDA_SUCCESS);
	check(cuMemMap(address, 2 * MiB, 0, handle, 0) == CUDA_SUCCESS);
	check(cuMemSetAccess(address, 2 * MiB, &both, 1) == CUDA_SUCCESS);
	return address;
}

static void exporter(int end)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	unsigned word = 99;
	char byte;
	int fd;

	start();
	check(cuMemCreate(&handle, 2 * MiB, &properties, 0) == CUDA_SUCCESS);
	address = map(handle);
	check(cuMemcpyHtoD_v2(address, &word, 4) == CUDA_SUCCESS);
	check(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0) == CUDA_SUCCESS);
	fd_send(end, fd);
	hear(end, &byte, 1);
}

static void importer(int end)
{
	CUmemGenericAllocationHandle handle;
	size_t before;
	unsigned word = 0;
	int fd = fd_receive(end);

	start();
	before = free_now();
	check(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ==
	      CUDA_SUCCESS);
	check(free_now() == before);
	check(cuMemcpyDtoH_v2(&word, map(handle), 4) == CUDA_SUCCESS);
	say(end, &word, sizeof(word));
}

TEST(a_descriptor_is_the_same_memory_elsewhere)
{
	int exporting, importing, fd;
	pid_t first = child_start(exporter, &exporting), second = child_start(importer, &importing);
	unsigned word;

	fd = fd_receive(exporting);
	fd_send(importing, fd);
	close(fd);
	hear(importing, &word, sizeof(word));
	expect_eq(word, 99);
	say(exporting, "", 1);
	child_end(second, importing);
	child_end(first, exporting);
}

/* Imports; says so; and holds it until it hears. */
static void keeper(int end)
{
	CUmemGenericAllocationHandle handle;
	int fd = fd_receive(end);
	char byte = 0;

	start();
	check(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
					     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) ==
	      CUDA_SUCCESS);
	close(fd);
	say(end, &byte, 1);
	hear(end, &byte, 1);
}

TEST(exported_memory_outlives_its_maker_in_the_book_too)
{
	int exporting, importing, looking, fd;
	pid_t looker = child_start(look, &looking), maker, holder;
	uint64_t before = ask(looking), context;
	char byte;

	holder = child_start(keeper, &importing);
	maker = child_start(exporter, &exporting);
	fd = fd_receive(exporting);
	fd_send(importing, fd);
	close(fd);
	hear(importing, &byte, 1);
	context = (before - ask(looking) - 2 * MiB) / 2;
	kill(maker, SIGKILL);
	waitpid(maker, NULL, 0);
	close(exporting);
	expect_eq(before - ask(looking), context + 2 * MiB);
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	close(importing);
	expect_eq(ask(looking), before);
	child_end(looker, looking);
}

/* Hands out a descriptor, lets go of its own, and does nothing more. */
static void giver(int end)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
	};
	CUmemGenericAllocationHandle handle;
	char byte;
	int fd;

	start();
	check(cuMemCreate(&handle, 512 * MiB, &properties, 0) == CUDA_SUCCESS);
	check(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					   0) == CUDA_SUCCESS);
	check(cuMemRelease(handle) == CUDA_SUCCESS);
	fd_send(end, fd);
	close(fd);
	say(end, "", 1);
	hear(end, &byte, 1);
}

TEST(a_descriptor_alone_holds_memory_until_it_is_closed)
{
	int giving, looking, fd;
	pid_t looker = child_start(look, &looking), maker = child_start(giver, &giving);
	uint64_t with, without;
	char byte;

	fd = fd_receive(giving);
	hear(giving, &byte, 1);
	with = ask(looking);
	close(fd);
	without = ask(looking);
	expect_eq(without - with, 512 * MiB);
	say(giving, "", 1);
	child_end(maker, giving);
	child_end(looker, looking);
}

static void replaced(int end)
{
	CUdeviceptr address;
	char text[16];

	start();
	check(cuMemAlloc_v2(&address, 1000 * MiB) == CUDA_SUCCESS);
	say(end, "", 1);
	hear(end, text, 1);
	check(dup2(end, STDIN_FILENO) >= 0 && dup2(end, STDOUT_FILENO) >= 0);
	execlp("sh", "sh", "-c", "echo; exec cat >/dev/null", NULL);
}

TEST(what_a_program_held_ends_with_exec)
{
	int replacing, looking;
	pid_t looker = child_start(look, &looking), child;
	uint64_t before = ask(looking);
	char byte;

	child = child_start(replaced, &replacing);
	hear(replacing, &byte, 1);
	expect(before - ask(looking) >= 1000 * MiB);
	say(replacing, "", 1);
	hear(replacing, &byte, 1);
	expect_eq(ask(looking), before);
	child_end(child, replacing);
	child_end(looker, looking);
}
