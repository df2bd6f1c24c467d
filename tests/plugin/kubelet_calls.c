/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/plugin/kubelet_calls.h"

#include <string.h>

#include "kube/proto/deviceplugin.pb-c.h"
#include "tests/check.h"

enum { CONTAINERS_MAX = 4 };

/* A call of ours to the plugin. */
struct call {
	struct list link;
	char tag[32];
	enum { START, ALLOCATE, PREFER } what;
	struct grpc_asked *asked;
};

static void show_allocation(const V1beta1__ContainerAllocateResponse *row)
{
	for (size_t i = 0; i < row->n_cdi_devices; i++)
		printf(" cdi=%s", row->cdi_devices[i]->name);
	for (size_t i = 0; i < row->n_annotations; i++)
		printf(" mark=%s=%s", row->annotations[i]->key, row->annotations[i]->value);
	for (size_t i = 0; i < row->n_envs; i++)
		printf(" env=%s=%s", row->envs[i]->key, row->envs[i]->value);
	for (size_t i = 0; i < row->n_mounts; i++)
		printf(" mount=%s:%s", row->mounts[i]->host_path, row->mounts[i]->container_path);
	for (size_t i = 0; i < row->n_devices; i++)
		printf(" node=%s:%s", row->devices[i]->host_path, row->devices[i]->container_path);
}

static void show(const struct call *call, struct grpc_bytes answer)
{
	if (call->what == ALLOCATE) {
		V1beta1__AllocateResponse *response =
			v1beta1__allocate_response__unpack(NULL, answer.size, answer.data);

		check(response && response->n_container_responses == 1);
		show_allocation(response->container_responses[0]);
		v1beta1__allocate_response__free_unpacked(response, NULL);
	}
	if (call->what == PREFER) {
		V1beta1__PreferredAllocationResponse *response =
			v1beta1__preferred_allocation_response__unpack(NULL, answer.size,
								       answer.data);

		check(response && response->n_container_responses == 1);
		for (size_t i = 0; i < response->container_responses[0]->n_deviceids; i++)
			printf(" %s", response->container_responses[0]->deviceids[i]);
		v1beta1__preferred_allocation_response__free_unpacked(response, NULL);
	}
}

static void on_called(void *owner, enum grpc_status status, const char *message,
		      struct grpc_bytes answer)
{
	struct call *call = owner;

	list_remove(&call->link);
	if (status != GRPC_OK) {
		printf("%s error %d %s\n", call->tag, (int)status, message ? message : "");
	} else {
		printf("%s ok", call->tag);
		show(call, answer);
		printf("\n");
	}
	free(call);
}

static void make_call(const struct kubelet_caller *by, const char *tag, int what, const char *path,
		      const ProtobufCMessage *message, uint64_t within_s)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	owned(free) uint8_t *bytes = malloc(size + 1);
	struct call *call = calloc(1, sizeof(*call));

	check(bytes && call);
	protobuf_c_message_pack(message, bytes);
	snprintf(call->tag, sizeof(call->tag), "%s", tag);
	call->what = what;
	if (by->endpoint) {
		list_append(by->calls, &call->link);
		check(grpc_ask(by->endpoint, path, (struct grpc_bytes){bytes, size},
			       within_s * 1000000000ull, on_called, call, &call->asked) == 0);
		return;
	}
	printf("%s error 14 no plugin is registered\n", tag);
	free(call);
}

/* "+" stands between containers. */
static void do_allocate(const struct kubelet_caller *by, const char *tag, char **words,
			size_t count)
{
	V1beta1__ContainerAllocateRequest row[CONTAINERS_MAX], *rows[CONTAINERS_MAX];
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	size_t containers = 0;

	for (size_t i = 0, ids = 0; i <= count; i++) {
		if (i < count && strcmp(words[i], "+") != 0) {
			ids++;
			continue;
		}
		check(containers < CONTAINERS_MAX);
		v1beta1__container_allocate_request__init(&row[containers]);
		row[containers].devices_ids = words + i - ids;
		row[containers].n_devices_ids = ids;
		rows[containers] = &row[containers];
		containers++;
		ids = 0;
	}
	request.container_requests = rows;
	request.n_container_requests = containers;
	make_call(by, tag, ALLOCATE, "/v1beta1.DevicePlugin/Allocate", &request.base, 0);
}

static void do_start(const struct kubelet_caller *by, const char *tag, char **words, size_t count)
{
	V1beta1__PreStartContainerRequest request = V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;

	request.devices_ids = words;
	request.n_devices_ids = count;
	make_call(by, tag, START, "/v1beta1.DevicePlugin/PreStartContainer", &request.base, 30);
}

static void do_prefer(const struct kubelet_caller *by, const char *tag, char **words, size_t count)
{
	V1beta1__ContainerPreferredAllocationRequest
		row = V1BETA1__CONTAINER_PREFERRED_ALLOCATION_REQUEST__INIT,
		*rows[] = {&row};
	V1beta1__PreferredAllocationRequest request = V1BETA1__PREFERRED_ALLOCATION_REQUEST__INIT;
	char *must[KUBELET_WORDS_MAX], *at = words[1];
	size_t musts = 0;

	check(count >= 2);
	while (strcmp(words[1], "-") != 0 && (must[musts] = strsep(&at, ",")))
		musts++;
	row.allocation_size = atoi(words[0]);
	row.must_include_deviceids = must;
	row.n_must_include_deviceids = musts;
	row.available_deviceids = words + 2;
	row.n_available_deviceids = count - 2;
	request.container_requests = rows;
	request.n_container_requests = 1;
	make_call(by, tag, PREFER, "/v1beta1.DevicePlugin/GetPreferredAllocation", &request.base,
		  0);
}

bool kubelet_call(const struct kubelet_caller *by, const char *tag, const char *verb, char **words,
		  size_t count)
{
	if (strcmp(verb, "allocate") == 0)
		do_allocate(by, tag, words, count);
	else if (strcmp(verb, "prefer") == 0)
		do_prefer(by, tag, words, count);
	else if (strcmp(verb, "start") == 0)
		do_start(by, tag, words, count);
	else
		return false;
	return true;
}

void kubelet_calls_abandon(struct list *calls)
{
	/* Nobody is told of calls under way. */
	list_for_each(link, calls)
	{
		struct call *call = list_entry(link, struct call, link);

		printf("%s error 14 the kubelet goes\n", call->tag);
		list_remove(&call->link);
		free(call);
	}
}

void kubelet_answer(struct grpc_call *call, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	owned(free) uint8_t *bytes = malloc(size + 1);

	check(bytes && protobuf_c_message_pack(message, bytes) == size);
	check(grpc_send(call, (struct grpc_bytes){bytes, size}, false) == 0);
	grpc_end(call, GRPC_OK, NULL);
}
