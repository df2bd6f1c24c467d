/* SPDX-License-Identifier: Apache-2.0 */
/* Any record in the folder: it is refused, or a binding that is written as it was read. */
#include <stdlib.h>
#include <string.h>

#include "plugin/kubelet/binding.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void check(const struct binding *a, const struct binding *b)
{
	must(a->tenant == b->tenant && a->parts == b->parts && a->changing == b->changing);
	must(a->exclusive == b->exclusive && a->devices == b->devices && a->count == b->count);
	must(a->devices <= HOST_DEVICES && a->count >= 1 && a->count <= IDS_MAX && a->tenant);
	must(same(a->namespace, b->namespace) && same(a->pod, b->pod) && same(a->uid, b->uid));
	must(same(a->container, b->container) && same(a->resource, b->resource));
	must(a->counted == b->counted && a->counted_bytes == b->counted_bytes);
	must(a->counted_milli == b->counted_milli);
	must(memcmp(a->device, b->device, a->devices * sizeof(a->device[0])) == 0);
	must(a->missings == b->missings && a->devices + a->missings <= HOST_DEVICES);
	for (uint32_t i = 0; i < a->missings; i++)
		must(same(a->missing[i], b->missing[i]));
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		must(same(a->texts[i], b->texts[i]));
	for (uint32_t i = 0; i < a->count; i++)
		must(same(a->ids[i], b->ids[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct host_device devices[] = {{.uuid = "GPU-a"}, {.uuid = "GPU-b"}};
	static const struct host host = {.devices = ARRAY_SIZE(devices), .device = devices};
	owned(binding_free) struct binding *b = NULL, *again = NULL;
	owned(free) char *exact = malloc(size + (size == 0));
	owned(free) char *text = NULL;
	char key[IDS_KEY];
	const char *const ids[] = {"GPU-a::0"};

	if (!exact)
		return 0;
	memcpy(exact, data, size);
	/* The name that goes with the seeds' ids. */
	ids_key("mete.dev/gpu", ids, ARRAY_SIZE(ids), key);
	if (binding_parse(key, exact, size, &host, &b) < 0 || !b)
		return 0;
	text = binding_describe(b, &host);
	must(text && binding_parse(key, text, strlen(text), &host, &again) == 0 && again);
	check(b, again);
	return 0;
}
