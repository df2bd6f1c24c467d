/* SPDX-License-Identifier: Apache-2.0 */
/* A management library that begins, and then does not answer. It counts how often it was begun and
 * not ended. */
#include <string.h>

#include "mig/nvml_inside.h"

exported extern int mig_broken_open;
int mig_broken_open;

static const void *answer(const char *name)
{
	if (strcmp(name, "nvmlErrorString") == 0)
		return "broken";
	mig_broken_open += strcmp(name, "nvmlInit_v2") == 0;
	mig_broken_open -= strcmp(name, "nvmlShutdown") == 0;
	return strcmp(name, "nvmlDeviceGetCount_v2") == 0 ? (const void *)NVML_ERROR_UNKNOWN : NULL;
}

/* By their symbols, whatever their prototypes are. */
#define CALL(name)                                                                                 \
	exported const void *broken_##name(void) __asm__(#name);                                   \
	const void *broken_##name(void)                                                            \
	{                                                                                          \
		return answer(#name);                                                              \
	}
MIG_NVML_CALLS(CALL)
#undef CALL
