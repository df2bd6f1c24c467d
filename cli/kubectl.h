/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs kubectl, which takes care of kubeconfig, ways to log in, proxies and rights.
 */
#pragma once

#include <sys/types.h>

#include "base/fault.h"

enum {
	KUBECTL_WORDS = 48,
	KUBECTL_PATIENCE_MS = 30000, /* a first connection may log in */
};

/* Runs kubectl to its end with these words (without "kubectl"; the last one is NULL). `ret_said`:
 * its output, as far as it fits. -ENOENT: there is no kubectl; -EIO: it failed; -ETIMEDOUT: it was
 * killed. The sentence has kubectl's last line. */
must_check int kubectl_run(const char *const *words, int patience_ms, char *ret_said, size_t size,
			   struct fault *why);

/* A kubectl that keeps running, with `fd` (borrowed) as its standard input and output. */
struct kubectl {
	pid_t pid;  /* 0: none */
	int errors; /* owned: a file with its standard error; -1: none */
};
must_check int kubectl_start(struct kubectl *kubectl, const char *const *words, int fd,
			     struct fault *why);

/* Waits for its end, and kills it if that does not come soon. After a failure `ret_last` is the
 * last line that it wrote ("": none). */
void kubectl_end(struct kubectl *kubectl, char *ret_last, size_t size);
