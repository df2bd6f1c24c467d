/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of threads, blocks and control: a kernel that writes words. */
#pragma once

#include "sim/ptx/form.h"
#include "tests/unit/test_ptx_harness.h"

#define KERNEL(body) HARNESS_HEAD HARNESS_KERNEL("k") body "ret;\n}\n"
#define START	     HARNESS_HEAD HARNESS_KERNEL("k")
#define STORE	     "mad.wide.u32 %at, %t, 4, %in;\nst.global.u32 [%at], %r;\n"

static inline uint32_t *words(void)
{
	return harness_data();
}

static inline void run(const char *text, uint32_t blocks, uint32_t threads)
{
	harness_load(text);
	memset(harness_data(), 0, 1 << 16);
	harness_run("k", blocks, threads);
}
