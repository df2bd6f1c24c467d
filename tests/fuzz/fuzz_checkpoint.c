/* SPDX-License-Identifier: Apache-2.0 */
/* Any content of the kubelet's folder: it is understood or refused, and a container that is found
 * has names. */
#include <stdlib.h>
#include <string.h>

#include "plugin/kubelet/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_found(void *owner, const char *uid, const char *container)
{
	size_t *found = owner;

	if (!uid || !container)
		abort();
	(*found)++;
}

static void on_resource(void *owner, const char *resource)
{
	size_t *found = owner;

	if (!resource)
		abort();
	(*found)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *const ids[] = {"a::0"};
	owned(free) char *exact = malloc(size + (size == 0));
	size_t found = 0;
	int r;

	if (!exact)
		return 0;
	memcpy(exact, data, size);
	r = checkpoint_look(exact, size, "mete.dev/gpu", ids, 1, on_found, &found);
	if (r != 0 && (r != -EINVAL || found))
		abort();
	found = 0;
	r = checkpoint_given(exact, size, "mete.dev/gpu", on_found, &found);
	if (r != 0 && (r != -EINVAL || found))
		abort();
	found = 0;
	r = checkpoint_registered(exact, size, on_resource, &found);
	if (r != 0 && (r != -EINVAL || found))
		abort();
	return 0;
}
