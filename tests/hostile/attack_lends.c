/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several processes have: lent, exported, passed on; and processes that have it free
 * it, stop, die.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { PIECE = 24 * MIB, LENT = 16 };

/* From the lender to the borrower. */
static int ends[2];

static void borrow_all(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	while (read(ends[0], &handle, sizeof(handle)) == sizeof(handle))
		CALL(cuIpcOpenMemHandle_v2)(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static void borrow_and_take(void)
{
	alarm(20);
	close(ends[1]);
	start();
	borrow_all();
	take_everything();
	alarm(0);
}

static pid_t in_child(void (*work)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		work();
		wait_for_the_end();
		_exit(0);
	}
	return pid;
}

static CUdeviceptr lend(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	if (g.cuMemAlloc_v2(&address, PIECE) != CUDA_SUCCESS)
		return 0;
	if (CALL(cuIpcGetMemHandle)(&handle, address) == CUDA_SUCCESS)
		best_effort(write(ends[1], &handle, sizeof(handle)));
	return address;
}

/* A borrower that was there first, so that nothing of ours is in it. */
static pid_t borrower(void (*work)(void))
{
	pid_t pid;

	if (pipe(ends) != 0)
		_exit(1);
	pid = in_child(work);
	start();
	return pid;
}

static void lend_and_free(useconds_t open_us)
{
	for (int i = 0; i < LENT; i++) {
		CUdeviceptr address = lend();

		usleep(open_us);
		if (address)
			g.cuMemFree_v2(address);
	}
}

void attack_lends_freed(void)
{
	borrower(borrow_and_take);
	lend_and_free(20000);
	close(ends[1]);
	take_everything();
}

static void lend_and_die(void)
{
	start();
	for (int i = 0; i < 8; i++)
		lend();
	usleep(200000);
	kill(getpid(), SIGKILL);
}

/* Borrowers that were not forked from a lender open, and the lenders die, one after another. */
void attack_lends_killed(void)
{
	borrower(borrow_and_take);
	for (int i = 0; i < 3; i++) {
		in_child(lend_and_die);
		usleep(100000);
	}
	usleep(300000);
	close(ends[1]);
	take_everything();
}

static void borrow_and_stop(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	start();
	for (int i = 0; i < 4 && read(ends[0], &handle, sizeof(handle)) == sizeof(handle); i++)
		CALL(cuIpcOpenMemHandle_v2)(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	raise(SIGSTOP);
}

void attack_lends_to_stopped(void)
{
	borrower(borrow_and_stop);
	lend_and_free(10000);
	take_everything();
}

static void only_take(void)
{
	start();
	take_everything();
}

/* The child's copy of what its parent's borrowers owe is worth nothing. */
void attack_lends_forked(void)
{
	borrower(borrow_and_take);
	for (int i = 0; i < 6; i++) {
		CUdeviceptr address = lend();

		if (i == 2)
			in_child(only_take);
		if (address && i % 2)
			g.cuMemFree_v2(address);
	}
	close(ends[1]);
	usleep(300000);
	take_everything();
}

static void return_late(void)
{
	CUdeviceptr address[LENT];
	CUipcMemHandle handle;
	size_t count = 0;

	alarm(20);
	close(ends[1]);
	start();
	while (count < LENT && read(ends[0], &handle, sizeof(handle)) == sizeof(handle))
		if (CALL(cuIpcOpenMemHandle_v2)(&address[count], handle,
						CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) == CUDA_SUCCESS)
			count++;
	while (count-- > 0) {
		CALL(cuIpcCloseMemHandle)(address[count]);
		CALL(cuIpcCloseMemHandle)(address[count]); /* once too often */
		g.cuMemFree_v2(address[count]);
	}
	alarm(0);
}

void attack_lends_returned_twice(void)
{
	borrower(return_late);
	for (int i = 0; i < LENT; i++)
		lend();
	close(ends[1]);
	usleep(300000);
	take_everything();
}

/* Many small ones: the line is asked for each of them, by eight processes at once. */
static void lend_small(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	start();
	for (int i = 0; i < 300; i++)
		if (g.cuMemAlloc_v2(&address, 4096) == CUDA_SUCCESS &&
		    CALL(cuIpcGetMemHandle)(&handle, address) == CUDA_SUCCESS)
			best_effort(write(ends[1], &handle, sizeof(handle)));
}

void attack_lends_many(void)
{
	borrower(borrow_and_take);
	for (int i = 0; i < 3; i++)
		in_child(borrow_and_take);
	for (int i = 0; i < 4; i++)
		in_child(lend_small);
	close(ends[1]);
	usleep(900000);
	take_everything();
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static int post[2];

static void send_fd(int fd)
{
	char room[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec text = {(char[]){"x"}, 1};
	struct msghdr message = {.msg_iov = &text,
				 .msg_iovlen = 1,
				 .msg_control = room,
				 .msg_controllen = sizeof(room)};
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);

	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &fd, sizeof(fd));
	best_effort(sendmsg(post[1], &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

/* They lie in a socket, in nobody's table, while their sender releases and takes. */
static void export_into_post(size_t bytes, unsigned count)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .requestedHandleTypes =
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				    .location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};

	while (count-- > 0) {
		CUmemGenericAllocationHandle handle;
		int fd = -1;

		if (g.cuMemCreate(&handle, bytes, &prop, 0) != CUDA_SUCCESS)
			break;
		CALL(cuMemExportToShareableHandle)
		(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		send_fd(fd);
		close(fd);
		g.cuMemRelease(handle);
	}
}

static void import_from_post(void)
{
	char room[CMSG_SPACE(sizeof(int))], byte;
	struct iovec text = {&byte, 1};

	for (;;) {
		CUmemGenericAllocationHandle handle;
		struct msghdr message = {.msg_iov = &text,
					 .msg_iovlen = 1,
					 .msg_control = room,
					 .msg_controllen = sizeof(room)};
		int fd;

		if (recvmsg(post[0], &message, MSG_DONTWAIT) <= 0 || !CMSG_FIRSTHDR(&message))
			break;
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
		CALL(cuMemImportFromShareableHandle)
		(&handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
		close(fd);
	}
}

static void import_late(void)
{
	usleep(600000);
	start();
	import_from_post();
	take_everything();
}

void attack_exports_posted(void)
{
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, post) != 0)
		return;
	in_child(import_late);
	start();
	export_into_post(20 * MIB, 8);
	take_everything();
	usleep(800000);
	take_everything();
}

/* ---- pools and events ------------------------------------------------------------------------ */

/* Where the driver shares no pools this is only another way to take. */
void attack_pools_exported(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				.location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device}};

	for (int i = 0; i < 12; i++) {
		CUmemPoolPtrExportData data;
		CUmemoryPool pool, other;
		CUdeviceptr piece, again;
		int fd = -1;

		if (g.cuMemPoolCreate(&pool, &props) != CUDA_SUCCESS)
			break;
		CALL(cuMemPoolExportToShareableHandle)
		(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		if (g.cuMemAllocFromPoolAsync(&piece, 30 * MIB, pool, NULL) == CUDA_SUCCESS &&
		    CALL(cuMemPoolExportPointer)(&data, piece) == CUDA_SUCCESS &&
		    CALL(cuMemPoolImportFromShareableHandle)(
			    &other, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
			    0) == CUDA_SUCCESS)
			CALL(cuMemPoolImportPointer)(&again, other, &data);
		g.cuMemPoolDestroy(pool);
	}
	take_everything();
}

static CUipcEventHandle event_handle;

static void open_events_and_die(void)
{
	CUevent event;

	start();
	for (int i = 0; i < 64; i++)
		if (CALL(cuIpcOpenEventHandle)(&event, event_handle) == CUDA_SUCCESS)
			CALL(cuStreamWaitEvent)(NULL, event, 0);
	take_everything();
	kill(getpid(), SIGKILL);
}

void attack_events_shared(void)
{
	CUevent event;

	for (int i = 0; i < 6; i++) {
		if (CALL(cuEventCreate)(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ==
		    CUDA_SUCCESS)
			CALL(cuIpcGetEventHandle)(&event_handle, event);
		in_child(open_events_and_die);
		for (int n = 0; n < 50; n++)
			CALL(cuEventRecord)(event, NULL);
		wait(NULL);
	}
	take_everything();
}
