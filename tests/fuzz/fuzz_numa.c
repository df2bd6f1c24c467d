/* SPDX-License-Identifier: Apache-2.0 */
/* Any name of a GPU's place by NVML: the name of a folder of sysfs, or none. */
#include <stdlib.h>
#include <string.h>

#include "plugin/kubelet/numa.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(free) char *text = malloc(size + 1);
	char name[24];

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	/* No part of it may lead to another folder. */
	if (numa_name(text, name) == 0 &&
	    (strlen(name) < 12 || strlen(name) > 16 || name[strspn(name, "0123456789abcdef:.")] ||
	     strstr(name, "..")))
		abort();
	return 0;
}
