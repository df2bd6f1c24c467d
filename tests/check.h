/* SPDX-License-Identifier: Apache-2.0 */
/* For child processes and the programs that tests start: what is not so ends the process. */
#pragma once

#include <stdio.h>
#include <unistd.h>

#define check(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);   \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
