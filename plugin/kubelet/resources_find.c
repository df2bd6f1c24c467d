/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/resources_find.h"

#include <string.h>

#include "plugin/kubelet/ids.h"

/* The kubelet reports one entry for each id, or for each NUMA node. */
static bool has_them(const V1__ContainerResources *c, const char *resource, const char *const *ids,
		     size_t count)
{
	const char *has[IDS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < c->n_devices; i++) {
		const V1__ContainerDevices *d = c->devices[i];

		if (strcmp(d->resource_name, resource) != 0)
			continue;
		for (size_t k = 0; k < d->n_device_ids; k++) {
			if (n == IDS_MAX)
				return false;
			has[n++] = d->device_ids[k];
		}
	}
	return ids_same(has, n, ids, count);
}

size_t resources_find(const V1__ListPodResourcesResponse *answer, const char *resource,
		      const char *const *ids, size_t count, struct resources_found *ret_found,
		      size_t most)
{
	size_t n = 0;

	for (size_t i = 0; i < answer->n_pod_resources; i++) {
		const V1__PodResources *pod = answer->pod_resources[i];

		for (size_t k = 0; k < pod->n_containers && n < most; k++)
			if (has_them(pod->containers[k], resource, ids, count))
				ret_found[n++] = (struct resources_found){
					pod->namespace_, pod->name, pod->containers[k]->name};
	}
	return n;
}
