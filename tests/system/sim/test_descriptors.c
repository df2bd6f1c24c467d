/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is handed over as a descriptor. */
#include "tests/system/sim/processes.h"

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

/* Imports; reports that; and holds it until it hears. */
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
