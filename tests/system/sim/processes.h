/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of several processes on one node: children that speak over a socket. The program
 * itself never calls the driver: its children do.
 */
#pragma once

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
static inline pid_t child_start(void (*body)(int), int *ret_socket)
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

static inline void child_end(pid_t child, int end)
{
	int status;

	close(end);
	expect_eq(waitpid(child, &status, 0), child);
	expect_eq(status, 0);
}

static inline void say(int end, const void *data, size_t bytes)
{
	check(send(end, data, bytes, 0) == (ssize_t)bytes);
}

static inline void hear(int end, void *data, size_t bytes)
{
	check(recv(end, data, bytes, 0) == (ssize_t)bytes);
}

static inline void start(void)
{
	CUcontext context;

	check(cuInit(0) == CUDA_SUCCESS);
	check(cuCtxCreate_v2(&context, 0, 0) == CUDA_SUCCESS);
}

static inline size_t free_now(void)
{
	size_t available = 0, total;

	check(cuMemGetInfo_v2(&available, &total) == CUDA_SUCCESS);
	return available;
}

static inline void hoard(int end)
{
	CUdeviceptr address;
	char byte = 0;

	start();
	check(cuMemAlloc_v2(&address, 3000 * MiB) == CUDA_SUCCESS);
	say(end, &byte, 1);
	while (recv(end, &byte, 1, 0) > 0)
		;
}

static inline void look(int end)
{
	uint64_t available;
	char byte;

	start();
	while (recv(end, &byte, 1, 0) == 1) {
		available = free_now();
		say(end, &available, sizeof(available));
	}
}

static inline uint64_t ask(int end)
{
	uint64_t available = 0;

	say(end, "", 1);
	hear(end, &available, sizeof(available));
	return available;
}
