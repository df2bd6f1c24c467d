/* SPDX-License-Identifier: Apache-2.0 */
/* The device plugin's calls (v1beta1); for Allocate see allocate.c. */
#include <string.h>

#include "base/least.h"
#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/dra/dra.h"
#include "plugin/plugin.h"
#include "plugin/kubelet/linked.h"
#include "plugin/kubelet/preferred.h"
#include "plugin/nvidia/parts.h"

struct stream {
	struct list link;
	struct grpc_call *call;
};

static int send_message(struct grpc_call *call, const ProtobufCMessage *message)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	owned(free) uint8_t *bytes = malloc(size + 1);

	if (!bytes)
		return -ENOMEM;
	protobuf_c_message_pack(message, bytes);
	return grpc_send(call, (struct grpc_bytes){bytes, size}, false);
}

void serve_answer(struct grpc_call *call, const ProtobufCMessage *message)
{
	if (send_message(call, message) < 0)
		grpc_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		grpc_end(call, GRPC_OK, NULL);
}

static void on_options(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	(void)request;
	options.pre_start_required = config_has_tenants(((struct serving *)owner)->plugin->config);
	options.get_preferred_allocation_available = 1;
	serve_answer(call, &options.base);
}

static void end_stream(struct stream *s)
{
	list_remove(&s->link);
	free(s);
}

/* A kubelet that missed a change must ask again: if memory is short, the stream is ended. */
static void tell(const struct serving *of, struct stream *s)
{
	if (grpc_send(s->call, (struct grpc_bytes){of->said.bytes, of->said.size}, true) == 0)
		return;
	grpc_end(s->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	end_stream(s);
	enrol_lost(of);
}

static void end_streams(struct serving *of, enum grpc_status status, const char *sentence)
{
	list_for_each(link, &of->streams)
	{
		struct stream *s = list_entry(link, struct stream, link);

		grpc_end(s->call, status, sentence);
		end_stream(s);
	}
}

/* 0: the devices are as last reported; 1: they are not. */
static int look(struct serving *of)
{
	struct serve_said now = {0};
	int r = offered_pack(of, &now.bytes, &now.size);

	if (r < 0) {
		free(take(of->said.bytes));
		return r;
	}
	if (of->said.bytes && of->said.size == now.size &&
	    memcmp(of->said.bytes, now.bytes, now.size) == 0) {
		free(now.bytes);
		return 0;
	}
	free(of->said.bytes);
	of->said = now;
	return 1;
}

static void look_and_tell(struct serving *of)
{
	int r = look(of);

	if (r < 0) {
		end_streams(of, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		enrol_lost(of);
	}
	/* The kubelet writes a file and calls the API server for each message, so send none without
	 * news. */
	if (r <= 0)
		return;
	list_for_each(link, &of->streams) tell(of, list_entry(link, struct stream, link));
}

void serve_changed(struct plugin *p)
{
	dra_changed(p->dra);
	for (uint32_t i = 0; i < p->servings; i++)
		look_and_tell(&p->serving[i]);
}

static void on_watch(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	struct stream *s = calloc(1, sizeof(*s));
	struct serving *of = owner;

	(void)request;
	serve_changed(of->plugin);
	if (!s || !of->said.bytes) {
		grpc_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		free(s);
		return;
	}
	s->call = call;
	grpc_call_keep(call, s);
	list_append(&of->streams, &s->link);
	tell(of, s);
}

/* A restarted kubelet finds us by itself; the same kubelet does not ask again unless we register
 * again. */
static void on_watch_gone(struct grpc_call *call, void *owner)
{
	const struct serving *of = owner;

	end_stream(grpc_call_kept(call));
	if (list_empty(&of->streams))
		enrol_lost(of);
}

/* The ids from which GetPreferredAllocation chooses. */
struct choice {
	struct preferred_device devices[PREFERRED_DEVICES];
	struct preferred_id *ids; /* the required ones come first */
	const char **chosen;
	size_t count, must;
};

static void choice_owned(struct choice *c)
{
	free(c->ids);
	free(c->chosen);
}

static bool is_one_of(char *const *list, size_t count, const char *id)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(list[i], id) == 0)
			return true;
	return false;
}

static void add_id(struct choice *c, const char *id, int device)
{
	c->ids[c->count++] = (struct preferred_id){id, device < 0 ? 0 : (uint32_t)device};
}

/* The kubelet lists the required ids among the available ones, too. */
static int read_choice(const struct plugin *p,
		       const V1beta1__ContainerPreferredAllocationRequest *r, size_t size,
		       struct choice *c)
{
	c->ids =
		calloc(r->n_must_include_deviceids + r->n_available_deviceids + 1, sizeof(*c->ids));
	c->chosen = calloc(size + 1, sizeof(*c->chosen));
	if (!c->ids || !c->chosen)
		return -ENOMEM;
	for (size_t i = 0; i < r->n_must_include_deviceids; i++)
		add_id(c, r->must_include_deviceids[i],
		       offered_device(p, r->must_include_deviceids[i]));
	c->must = c->count;
	for (uint32_t i = 0; i < p->host->devices; i++)
		c->devices[i].taken = offered_ids(p, i);
	for (size_t i = 0; i < r->n_available_deviceids; i++) {
		const char *id = r->available_deviceids[i];
		int device = offered_device(p, id);

		if (device >= 0 && c->devices[device].taken)
			c->devices[device].taken--;
		if (!is_one_of(r->must_include_deviceids, r->n_must_include_deviceids, id))
			add_id(c, id, device);
	}
	return 0;
}

/* As NVIDIA's plugin: whole GPUs that are not shared are chosen by their links. */
static bool is_linked(const struct plugin *p, const struct choice *c)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < p->host->devices; i++) {
		if (p->host->device[i].gone)
			continue;
		if (offered_ids(p, i) > 1 || p->host->device[i].gpu_instance >= 0)
			return false;
		count++;
	}
	return count > 1 && !p->config->has_mete && c->count <= LINKED_DEVICES;
}

/* NVLinks and common parts of the PCI tree are worth as much as in NVIDIA's plugin. */
static uint32_t worth_of_link(const void *owner, uint32_t a, uint32_t b)
{
	const struct plugin *p = owner;
	struct host_link link = p->host->link(p->host->daemon, a, b);

	return 100u * link.nvlinks + (link.level ? (uint32_t)beyond(60, link.level) : 0);
}

static size_t choose_linked(const struct plugin *p, const struct choice *c, size_t size)
{
	struct linked linked = {.worth = worth_of_link, .owner = p};
	uint64_t chosen;
	size_t n = 0;

	for (size_t i = 0; i < c->count; i++) {
		linked.free |= 1ull << c->ids[i].device;
		linked.must |= (uint64_t)(i < c->must) << c->ids[i].device;
	}
	chosen = linked_choose(&linked, (unsigned)size);
	/* One id of each device. */
	for (size_t i = 0; i < c->count && n < size; i++) {
		if (!(chosen >> c->ids[i].device & 1))
			continue;
		chosen &= ~(1ull << c->ids[i].device);
		c->chosen[n++] = c->ids[i].id;
	}
	return n;
}

/* Where parts could be made. */
static bool prefer_places(const struct plugin *p, struct choice *c, size_t size)
{
	const char **ids = calloc(c->count + 1, sizeof(*ids));
	bool are_places;

	for (size_t i = 0; ids && i < c->count; i++)
		ids[i] = c->ids[i].id;
	are_places = ids && parts_prefer(p->parts, ids, c->count, c->must, size);
	for (size_t i = 0; are_places && i < c->count && i < size; i++)
		c->chosen[i] = ids[i];
	free(ids);
	return are_places;
}

static enum preferred_way preferred_way(const struct plugin *p)
{
	if (p->config->has_mete)
		return PREFERRED_SPREAD;
	return p->config->as_nvidia.packed ? PREFERRED_PACKED : PREFERRED_DISTRIBUTED;
}

static void prefer(const struct plugin *p, struct grpc_call *call,
		   const V1beta1__ContainerPreferredAllocationRequest *said)
{
	V1beta1__ContainerPreferredAllocationResponse
		row = V1BETA1__CONTAINER_PREFERRED_ALLOCATION_RESPONSE__INIT,
		*rows[] = {&row};
	V1beta1__PreferredAllocationResponse response =
		V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
	owned(choice) struct choice choice = {.count = 0};
	size_t size = said->allocation_size > 0 ? (size_t)said->allocation_size : 0;

	if (size > IDS_MAX || said->n_must_include_deviceids > IDS_MAX) {
		grpc_end(call, GRPC_INVALID_ARGUMENT, "more ids than a container may have");
		return;
	}
	if (read_choice(p, said, size, &choice) < 0) {
		grpc_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	row.deviceids = (char **)choice.chosen;
	if (prefer_places(p, &choice, size))
		row.n_deviceids = size < choice.count ? size : choice.count;
	else if (is_linked(p, &choice))
		row.n_deviceids = choose_linked(p, &choice, size);
	else
		row.n_deviceids =
			preferred_choose(choice.ids, choice.count, choice.must, choice.devices,
					 preferred_way(p), size, choice.chosen);
	response.n_container_responses = 1;
	response.container_responses = rows;
	serve_answer(call, &response.base);
}

static void on_preferred(struct grpc_call *call, struct grpc_bytes bytes, void *owner)
{
	V1beta1__PreferredAllocationRequest *request =
		v1beta1__preferred_allocation_request__unpack(NULL, bytes.size, bytes.data);

	/* The kubelet asks for one container at a time. */
	if (!request || request->n_container_requests != 1)
		grpc_end(call, GRPC_INVALID_ARGUMENT,
			 "only one container may be asked for at a time");
	else
		prefer(((struct serving *)owner)->plugin, call, request->container_requests[0]);
	if (request)
		v1beta1__preferred_allocation_request__free_unpacked(request, NULL);
}

static void on_start(struct grpc_call *call, struct grpc_bytes bytes, void *owner)
{
	V1beta1__PreStartContainerRequest *request =
		v1beta1__pre_start_container_request__unpack(NULL, bytes.size, bytes.data);

	if (request)
		prestart_asked(((struct serving *)owner)->plugin, call,
			       (const char *const *)request->devices_ids, request->n_devices_ids);
	else
		grpc_end(call, GRPC_INVALID_ARGUMENT, "this is not a PreStartContainerRequest");
	if (request)
		v1beta1__pre_start_container_request__free_unpacked(request, NULL);
}

static void on_start_gone(struct grpc_call *call, void *owner)
{
	(void)owner;
	prestart_gone(call);
}

static void on_allocate_gone(struct grpc_call *call, void *owner)
{
	(void)owner;
	parts_call_gone(call);
}

int serve_open(struct serving *s, struct fault *why)
{
	static const struct grpc_method methods[] = {
		{"/v1beta1.DevicePlugin/GetDevicePluginOptions", on_options, NULL},
		{"/v1beta1.DevicePlugin/ListAndWatch", on_watch, on_watch_gone},
		{"/v1beta1.DevicePlugin/GetPreferredAllocation", on_preferred, NULL},
		{"/v1beta1.DevicePlugin/Allocate", serve_allocate, on_allocate_gone},
		{"/v1beta1.DevicePlugin/PreStartContainer", on_start, on_start_gone},
	};

	return grpc_server_open(s->plugin->host->loop, s->socket, 0600, methods,
				ARRAY_SIZE(methods), s, &s->server, why);
}

void serve_close_one(struct serving *s)
{
	end_streams(s, GRPC_UNAVAILABLE, "meted is stopping");
	prestart_abandon(s->plugin);
	parts_abandon(s->plugin->parts, s);
	grpc_server_close(take(s->server), NULL);
	free(take(s->said.bytes));
}

void serve_close(struct plugin *p)
{
	for (uint32_t i = 0; i < p->servings; i++)
		serve_close_one(&p->serving[i]);
}
