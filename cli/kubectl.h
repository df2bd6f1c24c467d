/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kubectl: kubeconfig, ways to log in, proxies and rights are its business.
 */
#pragma once

#include <sys/types.h>

#include "base/fault.h"

enum {
	KUBECTL_WORDS = 48,
	KUBECTL_PATIENCE_MS = 30000, /* a first connection may log in */
};

/* Runs it to its end with these words (without "kubectl"; the last one is NULL). `ret_said` is what
 * it printed, as far as it fits. -ENOENT: there is none; -EIO: it failed; -ETIMEDOUT: it was ended.
 * The sentence has its own last line. */
must_check int kubectl_run(const char *const *words, int patience_ms, char *ret_said, size_t size,
			   struct fault *why);

/* One that runs on, with `fd` (borrowed) as its standard input and output. */
struct kubectl {
	pid_t pid;  /* 0: none */
	int errors; /* owned: what it says on standard error, a file; -1 */
};
must_check int kubectl_start(struct kubectl *kubectl, const char *const *words, int fd,
			     struct fault *why);

/* Waits for its end, and ends it if that does not come soon. Of a failure it leaves what it said
 * last in `ret_last`
 * ("": nothing). */
void kubectl_end(struct kubectl *kubectl, char *ret_last, size_t size);
