/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugin/kubelet_pods.h"

#include <stdlib.h>
#include <string.h>

#include "kube/proto/podresources.pb-c.h"
#include "tests/check.h"
#include "tests/plugin/kubelet_calls.h"

static void fill_container(const struct kubelet_holder *h, const char *resource,
			   V1__PodResources *pod)
{
	V1__ContainerResources *container = calloc(1, sizeof(*container));

	check(container);
	v1__container_resources__init(container);
	container->name = h->container;
	container->devices = calloc(h->count + 1, sizeof(*container->devices));
	check(container->devices);
	for (size_t i = 0; i < h->count; i++) {
		V1__ContainerDevices *devices = calloc(1, sizeof(*devices));

		check(devices);
		v1__container_devices__init(devices);
		devices->resource_name = (char *)resource;
		devices->n_device_ids = 1;
		devices->device_ids = &h->ids[i];
		container->devices[container->n_devices++] = devices;
	}
	pod->containers[pod->n_containers++] = container;
}

static void free_list(V1__ListPodResourcesResponse *list)
{
	for (size_t i = 0; i < list->n_pod_resources; i++) {
		V1__PodResources *pod = list->pod_resources[i];
		V1__ContainerResources *container = pod->containers[0];

		for (size_t n = 0; n < container->n_devices; n++)
			free(container->devices[n]);
		free(container->devices);
		free(container);
		free(pod->containers);
		free(pod);
	}
	free(list->pod_resources);
}

void kubelet_pods_answer(const struct kubelet_pods *pods, const char *resource,
			 struct grpc_call *call)
{
	V1__ListPodResourcesResponse list = V1__LIST_POD_RESOURCES_RESPONSE__INIT;

	list.pod_resources = calloc(pods->count + 1, sizeof(*list.pod_resources));
	check(list.pod_resources);
	for (size_t i = 0; i < pods->count; i++) {
		V1__PodResources *pod = calloc(1, sizeof(*pod));

		check(pod);
		v1__pod_resources__init(pod);
		pod->namespace_ = pods->holders[i].namespace;
		pod->name = pods->holders[i].pod;
		pod->containers = calloc(1, sizeof(*pod->containers));
		check(pod->containers);
		fill_container(&pods->holders[i], resource, pod);
		list.pod_resources[list.n_pod_resources++] = pod;
	}
	kubelet_answer(call, &list.base);
	free_list(&list);
}

static void forget(struct kubelet_pods *pods, struct kubelet_holder *h)
{
	free(h->namespace);
	free(h->pod);
	free(h->container);
	for (size_t i = 0; i < h->count; i++)
		free(h->ids[i]);
	free(h->ids);
	*h = pods->holders[--pods->count];
}

void kubelet_pods_set(struct kubelet_pods *pods, char **words, size_t count)
{
	struct kubelet_holder *h;

	check(count >= 3);
	for (size_t i = 0; i < pods->count; i++) {
		h = &pods->holders[i];
		if (strcmp(h->namespace, words[0]) == 0 && strcmp(h->pod, words[1]) == 0 &&
		    strcmp(h->container, words[2]) == 0)
			forget(pods, h);
	}
	if (count == 3)
		return;
	check(pods->count < KUBELET_HOLDERS_MAX);
	h = &pods->holders[pods->count++];
	*h = (struct kubelet_holder){.namespace = strdup(words[0]),
				     .pod = strdup(words[1]),
				     .container = strdup(words[2]),
				     .ids = calloc(count, sizeof(*h->ids)),
				     .count = count - 3};
	for (size_t i = 0; i < h->count; i++)
		h->ids[i] = strdup(words[3 + i]);
}

void kubelet_pods_done(struct kubelet_pods *pods)
{
	while (pods->count)
		forget(pods, &pods->holders[0]);
}
