/* SPDX-License-Identifier: Apache-2.0 */
/* For programs that a test starts and whose standard error it shows: what must succeed. */
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/macros.h"
#include "cuda/types.h"

/* Writes the reason to standard error, and ends. */
static inline void noreturn_ printf_like(1, 2) fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, arguments);
	fprintf(stderr, "\n");
	va_end(arguments);
	_exit(1);
}

#define ok(call)                                                                                   \
	do {                                                                                       \
		CUresult ok_ = (call);                                                             \
		if (ok_ != CUDA_SUCCESS)                                                           \
			fail("%s:%d: %s is %d", __FILE__, __LINE__, #call, (int)ok_);              \
	} while (0)
