/* SPDX-License-Identifier: Apache-2.0 */
/* Any annotation: devices are named one by one, or there are none. */
#include <stdlib.h>
#include <string.h>

#include "plugin/kubelet/assigned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	size_t count, most;
};

static int on_device(void *owner, const char *uuid)
{
	struct seen *seen = owner;

	if (uuid && strlen(uuid) > 1 << 20)
		abort();
	return ++seen->count == seen->most ? -ENODEV : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(free) char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	for (size_t most = 1; most < 4; most++) {
		struct seen seen = {.most = most};
		int r = assigned_read(text, "main", on_device, &seen);

		/* It ends where it was told to, and says nothing of itself. */
		if (seen.count > most || (seen.count == most) != (r == -ENODEV) ||
		    (r == -ENOENT) != (seen.count == 0) || (r != 0 && r != -ENOENT && r != -ENODEV))
			abort();
	}
	return 0;
}
