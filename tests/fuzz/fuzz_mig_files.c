/* SPDX-License-Identifier: Apache-2.0 */
/* Any content of the driver's file on a part of a GPU: a number that stands there, or none. */
#include <stdlib.h>
#include <string.h>

#include "plugin/nvidia/mig_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(free) char *text = malloc(size + 1);
	unsigned minor = 12345;
	char digits[16];
	int r;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	r = mig_files_minor(text, &minor);
	if (r == -EINVAL && minor == 12345)
		return 0;
	snprintf(digits, sizeof(digits), "%u", minor);
	if (r != 0 || minor > 1 << 20 || !strstr(text, "DeviceFileMinor:") || !strstr(text, digits))
		abort();
	return 0;
}
