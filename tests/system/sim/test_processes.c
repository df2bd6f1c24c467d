/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that share a device's memory, and end. */
#include "tests/system/sim/processes.h"

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

TEST(memory_that_a_program_held_ends_with_exec)
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
