/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer of the kubelet to List: it is refused, or containers of it have exactly the ids that
 * are asked for. */
#include <stdlib.h>
#include <string.h>

#include "plugin/kubelet/ids.h"
#include "plugin/kubelet/resources_find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 3 };

static const char resource[] = "mete.dev/gpu";

static void must(bool good)
{
	if (!good)
		abort();
}

/* How often the container has the id of our resource. */
static size_t count_id(const V1__ContainerResources *c, const char *id)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_devices; i++)
		for (size_t k = 0; k < c->devices[i]->n_device_ids; k++)
			n += strcmp(c->devices[i]->resource_name, resource) == 0 &&
			     strcmp(c->devices[i]->device_ids[k], id) == 0;
	return n;
}

static size_t count_all(const V1__ContainerResources *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_devices; i++)
		if (strcmp(c->devices[i]->resource_name, resource) == 0)
			n += c->devices[i]->n_device_ids;
	return n;
}

/* Those that have each of the ids once, and nothing else. */
static size_t expected(const V1__ListPodResourcesResponse *list, const char *const *ids,
		       size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n_pod_resources; i++)
		for (size_t k = 0; k < list->pod_resources[i]->n_containers; k++) {
			const V1__ContainerResources *c = list->pod_resources[i]->containers[k];
			bool all = count_all(c) == count;

			for (size_t j = 0; j < count; j++)
				all &= count_id(c, ids[j]) == 1;
			n += all;
		}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const ids[] = {"GPU-a::0", "GPU-a::1"};
	V1__ListPodResourcesResponse *list =
		v1__list_pod_resources_response__unpack(NULL, size, data);

	if (!list)
		return 0;
	for (size_t count = 1; count <= ARRAY_SIZE(ids); count++) {
		struct resources_found found[MOST];
		size_t wanted = expected(list, ids, count);
		size_t n = resources_find(list, resource, ids, count, found, MOST);

		must(n == (wanted < MOST ? wanted : MOST));
		for (size_t i = 0; i < n; i++)
			must(found[i].namespace && found[i].pod && found[i].container);
	}
	v1__list_pod_resources_response__free_unpacked(list, NULL);
	return 0;
}
