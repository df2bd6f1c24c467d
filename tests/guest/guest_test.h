/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests that load the guest: each runs in a child process of its own, as the guest belongs to a
 * process. In the child: check(), which ends it.
 */
#pragma once

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/wait.h>

#include "cuda/prototypes.h"
#include "tests/check.h"
#include "tests/folder.h"
#include "tests/test.h"

#if defined(__SANITIZE_THREAD__)
#define GUEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GUEST_TSAN 1
#endif
#endif
#ifndef GUEST_TSAN
#define GUEST_TSAN 0
#endif

/* Runs `body` in a child; its exit status, or 128 + signal. Its standard error goes to said[], if
 * that is not NULL. A fake daemon of the child's has its socket in a folder of ours: the child may
 * be killed. */
static inline int in_child(void (*body)(void), char *said, size_t size)
{
	static const int deadly[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
	char folder[] = "/tmp/mete-fake-XXXXXX";
	int pipe_[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t child;

	if (pipe(pipe_) < 0 || !mkdtemp(folder))
		return 127;
	setenv("METE_TEST_FOLDER", folder, 1);
	child = fork();
	if (child == 0) {
		/* cmocka would end the test here, and go on with the next one. */
		for (size_t i = 0; i < ARRAY_SIZE(deadly); i++)
			signal(deadly[i], SIG_DFL);
		if (said)
			dup2(pipe_[1], 2);
		close(pipe_[0]);
		close(pipe_[1]);
		body();
		_exit(0);
	}
	close(pipe_[1]);
	while (said && used + 1 < size && (n = read(pipe_[0], said + used, size - used - 1)) > 0)
		used += (size_t)n;
	if (said)
		said[used] = '\0';
	close(pipe_[0]);
	if (waitpid(child, &status, 0) < 0)
		return 127;
	unsetenv("METE_TEST_FOLDER");
	folder_remove(folder);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The guest under test, on one of tests/drivers. */
static inline void *guest_load(const char *driver)
{
	char path[512];
	void *handle;

	snprintf(path, sizeof(path), "%s/libdriver-%s.so", getenv("METE_TEST_DRIVERS"), driver);
	setenv("METE_DRIVER", path, 1);
	handle = dlopen(getenv("METE_TEST_GUEST"), RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	check(handle != NULL);
	return handle;
}

#define guest_function(handle, symbol)                                                             \
	({                                                                                         \
		api_fn_##symbol *function_ = (api_fn_##symbol *)dlsym(handle, #symbol);            \
		check(function_ != NULL);                                                          \
		function_;                                                                         \
	})
