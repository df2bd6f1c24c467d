/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc_host SOCKET: a server by kube/grpc.h, for other languages' clients. Prints "ready", and then
 * events of calls of /t/Wait, a text line each; ends with its standard input.
 */
#include <string.h>

#include "kube/grpc.h"
#include "kube/proto/deviceplugin.pb-c.h"
#include "kube/proto/podresources.pb-c.h"
#include "tests/check.h"

enum { WATCHERS = 64, STATE_SIZE = 64 << 10 };

static struct {
	struct loop loop;
	struct grpc_server *server;
	struct loop_watch input;
	struct grpc_call *watchers[WATCHERS];
	unsigned state;
} h;

static void answer(struct grpc_call *call, const void *data, size_t size)
{
	check(grpc_send(call, (struct grpc_bytes){data, size}, false) == 0);
}

static void on_echo(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)owner;
	answer(call, request.data, request.size);
	grpc_end(call, GRPC_OK, NULL);
}

/* "CODE TEXT" */
static void on_refuse(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	owned(free) char *text = strndup((const char *)request.data, request.size);
	char *end;
	long code = strtol(text, &end, 10);

	(void)owner;
	grpc_end(call, (enum grpc_status)code, *end ? end + 1 : end);
}

static void on_wait(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)call;
	(void)owner;
	printf("called %.*s\n", (int)request.size, (const char *)request.data);
}

static void on_wait_gone(struct grpc_call *call, void *owner)
{
	(void)call;
	(void)owner;
	printf("gone\n");
}

static unsigned number(struct grpc_bytes request)
{
	owned(free) char *text = strndup((const char *)request.data, request.size);

	return (unsigned)strtoul(text, NULL, 10);
}

/* So many bytes. */
static void on_big(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	size_t size = number(request);
	owned(free) uint8_t *bytes = malloc(size + 1);

	(void)owner;
	check(bytes);
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(i * 7);
	answer(call, bytes, size);
	grpc_end(call, GRPC_OK, NULL);
}

/* So many messages. */
static void on_count(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	unsigned count = number(request);

	(void)owner;
	for (unsigned i = 0; i < count; i++) {
		char text[16];

		answer(call, text, (size_t)snprintf(text, sizeof(text), "%u", i));
	}
	grpc_end(call, GRPC_OK, "done");
}

static void tell(struct grpc_call *call)
{
	static uint8_t message[STATE_SIZE];

	snprintf((char *)message, sizeof(message), "%u", h.state);
	check(grpc_send(call, (struct grpc_bytes){message, sizeof(message)}, true) == 0);
}

/* The state, whenever it changes; a caller that does not read sees the last one when it does. */
static void on_watch(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)request;
	(void)owner;
	for (unsigned i = 0; i < WATCHERS; i++) {
		if (h.watchers[i])
			continue;
		h.watchers[i] = call;
		grpc_call_keep(call, &h.watchers[i]);
		tell(call);
		return;
	}
	grpc_end(call, GRPC_RESOURCE_EXHAUSTED, "too many watch");
}

static void on_watch_gone(struct grpc_call *call, void *owner)
{
	struct grpc_call **slot = grpc_call_kept(call);

	(void)owner;
	check(*slot == call);
	*slot = NULL;
}

static void on_push(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	h.state++;
	for (unsigned i = 0; i < WATCHERS; i++)
		if (h.watchers[i])
			tell(h.watchers[i]);
	on_echo(call, request, owner);
}

static void pack(struct grpc_call *call, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	owned(free) uint8_t *bytes = malloc(size + 1);

	check(bytes && protobuf_c_message_pack(message, bytes) == size);
	answer(call, bytes, size);
}

/* The kubelet's messages, with something in every field: tests/kube/go reads them by Kubernetes'
 * own. */
static void on_list(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	V1beta1__NUMANode node = V1BETA1__NUMANODE__INIT, *nodes[] = {&node};
	V1beta1__TopologyInfo topology = V1BETA1__TOPOLOGY_INFO__INIT;
	V1beta1__Device first = V1BETA1__DEVICE__INIT, second = V1BETA1__DEVICE__INIT;
	V1beta1__Device *devices[] = {&first, &second};
	V1beta1__ListAndWatchResponse list = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;

	(void)request;
	(void)owner;
	node.id = 1;
	topology.n_nodes = 1;
	topology.nodes = nodes;
	first.id = "GPU-a::0";
	first.health = "Healthy";
	first.topology = &topology;
	second.id = "GPU-a::1";
	second.health = "Unhealthy";
	list.n_devices = 2;
	list.devices = devices;
	pack(call, &list.base);
	grpc_end(call, GRPC_OK, NULL);
}

static void fill_container(V1beta1__ContainerAllocateResponse *container, char *id)
{
	static V1beta1__ContainerAllocateResponse__EnvsEntry env, *envs[] = {&env};
	static V1beta1__ContainerAllocateResponse__AnnotationsEntry note, *notes[] = {&note};
	static V1beta1__Mount mount, *mounts[] = {&mount};
	static V1beta1__DeviceSpec device, *devices[] = {&device};
	static V1beta1__CDIDevice cdi, *cdis[] = {&cdi};

	v1beta1__container_allocate_response__envs_entry__init(&env);
	v1beta1__container_allocate_response__annotations_entry__init(&note);
	v1beta1__mount__init(&mount);
	v1beta1__device_spec__init(&device);
	v1beta1__cdidevice__init(&cdi);
	v1beta1__container_allocate_response__init(container);
	env.key = "IDS";
	env.value = id;
	note.key = "note";
	note.value = "für";
	mount.container_path = "/in";
	mount.host_path = "/out";
	mount.read_only = 1;
	device.container_path = "/dev/a";
	device.host_path = "/dev/b";
	device.permissions = "rw";
	cdi.name = "mete.dev/gpu=a";
	container->n_envs = container->n_annotations = container->n_mounts = 1;
	container->n_devices = container->n_cdi_devices = 1;
	container->envs = envs;
	container->annotations = notes;
	container->mounts = mounts;
	container->devices = devices;
	container->cdi_devices = cdis;
}

static void on_allocate(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	V1beta1__AllocateRequest *asked =
		v1beta1__allocate_request__unpack(NULL, request.size, request.data);
	V1beta1__ContainerAllocateResponse container, *containers[] = {&container};
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;

	(void)owner;
	if (!asked || asked->n_container_requests != 1 ||
	    asked->container_requests[0]->n_devices_ids != 1) {
		grpc_end(call, GRPC_INVALID_ARGUMENT, "one container with one device is asked for");
	} else {
		fill_container(&container, asked->container_requests[0]->devices_ids[0]);
		response.n_container_responses = 1;
		response.container_responses = containers;
		pack(call, &response.base);
		grpc_end(call, GRPC_OK, NULL);
	}
	v1beta1__allocate_request__free_unpacked(asked, NULL);
}

/* Reads a pod-resources list and writes it again: what we do not know would be lost. */
static void on_pods(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	V1__ListPodResourcesResponse *pods =
		v1__list_pod_resources_response__unpack(NULL, request.size, request.data);

	(void)owner;
	if (!pods) {
		grpc_end(call, GRPC_INVALID_ARGUMENT, "that is no list of pods' resources");
		return;
	}
	pack(call, &pods->base);
	grpc_end(call, GRPC_OK, NULL);
	v1__list_pod_resources_response__free_unpacked(pods, NULL);
}

static const struct grpc_method methods[] = {
	{"/t/Echo", on_echo, NULL},
	{"/t/Refuse", on_refuse, NULL},
	{"/t/Wait", on_wait, on_wait_gone},
	{"/t/Big", on_big, NULL},
	{"/t/Count", on_count, NULL},
	{"/t/Watch", on_watch, on_watch_gone},
	{"/t/Push", on_push, NULL},
	{"/t/Pods", on_pods, NULL},
	{"/v1beta1.DevicePlugin/ListAndWatch", on_list, NULL},
	{"/v1beta1.DevicePlugin/Allocate", on_allocate, NULL},
};

static void on_closed(void *owner)
{
	(void)owner;
	printf("closed\n");
}

static void on_input(struct loop_watch *watch, int events)
{
	(void)events;
	if (read(watch->fd, &(char){0}, 1) > 0)
		return;
	loop_unwatch(watch, NULL);
	grpc_server_close(take(h.server), on_closed);
}

int main(int argc, char **argv)
{
	struct fault why = {""};

	check(argc == 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
	check(loop_init(&h.loop) == 0);
	if (grpc_server_open(&h.loop, argv[1], 0600, methods, ARRAY_SIZE(methods), &h, &h.server,
			     &why) < 0) {
		fprintf(stderr, "grpc_host: %s\n", why.text);
		return 1;
	}
	check(loop_watch(&h.loop, &h.input, 0, LOOP_READ, on_input) == 0);
	printf("ready\n");
	loop_run(&h.loop);
	loop_done(&h.loop);
	return 0;
}
