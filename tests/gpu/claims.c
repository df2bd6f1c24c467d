/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/claim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { YES = 0, NO = 1, FAILED = 2, NOT_HERE = 77 };

extern const struct claim __start_mete_claims[], __stop_mete_claims[];

static void say(const char *format, va_list arguments)
{
	vprintf(format, arguments);
	putchar('\n');
	fflush(stdout);
}

#define END_WITH(status)                                                                           \
	va_list arguments;                                                                         \
	va_start(arguments, format);                                                               \
	say(format, arguments);                                                                    \
	_exit(status)

void claim_no(const char *format, ...)
{
	END_WITH(NO);
}

void claim_needs(const char *format, ...)
{
	END_WITH(NOT_HERE);
}

void claim_failed(const char *format, ...)
{
	END_WITH(FAILED);
}

void claim_say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

void claim_must(CUresult result, const char *call, const char *file, int line)
{
	if (result == CUDA_SUCCESS)
		return;
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		claim_needs("the driver does not support it: %s", call);
	claim_failed("%s:%d: %s is %d", file, line, call, (int)result);
}

void claim_answers(CUresult got, CUresult wanted, const char *call)
{
	if (got == CUDA_ERROR_NOT_SUPPORTED && wanted != got)
		claim_needs("the driver does not support it: %s", call);
	if (got != wanted)
		claim_no("%s is %d, not %d", call, (int)got, (int)wanted);
}

int main(int argc, char **argv)
{
	/* A kernel that is loaded at its first launch may wait for those that run. */
	setenv("CUDA_MODULE_LOADING", "EAGER", 0);
	for (const struct claim *c = __start_mete_claims; c < __stop_mete_claims; c++) {
		if (argc == 1 && !c->part)
			puts(c->name);
		if (argc == 1 || strcmp(argv[1], c->name) != 0)
			continue;
		c->ask();
		fflush(stdout);
		_exit(YES);
	}
	if (argc == 1)
		return 0;
	fprintf(stderr, "claims: there is no claim '%s'; without an argument: lists them\n",
		argv[1]);
	return FAILED;
}
