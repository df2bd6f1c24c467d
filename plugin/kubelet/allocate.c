/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocate is a look-up: its answer follows from the ids alone, because the kubelet does not say
 * which container they are for. Before the container starts its tenant is put into the place that
 * is named here (containers.c).
 */
#include <string.h>

#include "base/words.h"
#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/kubelet/allocate.h"
#include "plugin/nvidia/parts.h"
#include "plugin/slots.h"

/* Without CDI: the edits themselves. */
struct allocate_edits {
	struct inject_edits *from;
	V1beta1__Mount mount[INJECT_EDITS_MAX], *mounts[INJECT_EDITS_MAX];
	V1beta1__DeviceSpec node[INJECT_EDITS_MAX], *nodes[INJECT_EDITS_MAX];
	V1beta1__ContainerAllocateResponse__EnvsEntry env[INJECT_ENV_MAX], *envs[INJECT_ENV_MAX];
};

void allocate_edits_free(struct allocate_edits *e)
{
	if (e)
		inject_free(e->from);
	free(e);
}

static void fill_mounts(struct allocate_edits *e, V1beta1__ContainerAllocateResponse *row)
{
	for (uint32_t i = 0; i < e->from->mounts; i++) {
		e->mounts[i] = &e->mount[i];
		v1beta1__mount__init(&e->mount[i]);
		e->mount[i].container_path = e->from->mount[i].to;
		e->mount[i].host_path = e->from->mount[i].from;
		e->mount[i].read_only = !e->from->mount[i].writable;
	}
	row->mounts = e->mounts;
	row->n_mounts = e->from->mounts;
}

static void fill_rest(struct allocate_edits *e, V1beta1__ContainerAllocateResponse *row)
{
	for (uint32_t i = 0; i < e->from->nodes; i++) {
		e->nodes[i] = &e->node[i];
		v1beta1__device_spec__init(&e->node[i]);
		e->node[i].container_path = e->from->node[i].to;
		e->node[i].host_path = e->from->node[i].from;
		e->node[i].permissions = (char *)"rw";
	}
	for (uint32_t i = 0; i < e->from->envs; i++) {
		e->envs[i] = &e->env[i];
		v1beta1__container_allocate_response__envs_entry__init(&e->env[i]);
		e->env[i].key = e->from->env[i].name;
		e->env[i].value = e->from->env[i].value;
	}
	row->devices = e->nodes;
	row->n_devices = e->from->nodes;
	row->envs = e->envs;
	row->n_envs = e->from->envs;
}

static uint32_t devices_of(const struct plugin *p, const V1beta1__ContainerAllocateRequest *said,
			   uint32_t ret_devices[HOST_DEVICES])
{
	bool has[HOST_DEVICES] = {false};
	uint32_t n = 0;

	for (size_t i = 0; i < said->n_devices_ids; i++) {
		int device = offered_device(p, said->devices_ids[i]);

		if (device >= 0 && !has[device]) {
			has[device] = true;
			ret_devices[n++] = (uint32_t)device;
		}
	}
	return n;
}

static int find_edits(const struct plugin *p, const char *key,
		      const V1beta1__ContainerAllocateRequest *said,
		      struct allocate_edits **ret_edits, struct fault *why)
{
	char link[PLUGIN_PATH], folder[PLUGIN_PATH];
	uint32_t devices[HOST_DEVICES], count = devices_of(p, said, devices);
	struct slots_nodes nodes;
	struct inject_slot slot = {.folder = folder, .nodes = nodes.node};
	owned(allocate_edits_free) struct allocate_edits *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return fault_set(why, -ENOMEM, "out of memory");
	slots_link(p, key, link);
	slots_on_host(p, link, folder);
	slot.node_count = slots_find_nodes(p, devices, count, &nodes);
	slot.visible = nodes.visible;
	r = inject_without_cdi(p->edits, &slot, &e->from, why);
	if (r < 0)
		return r;
	*ret_edits = take(e);
	return 0;
}

static void answer(struct plugin *p, struct grpc_call *call,
		   V1beta1__ContainerAllocateResponse *row)
{
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;

	response.container_responses = &row;
	response.n_container_responses = 1;
	p->allocations++;
	serve_answer(call, &response.base);
}

/* The container's runtime makes the edits, by the name of a file that exists when it starts. */
static void answer_name(struct plugin *p, struct grpc_call *call, const char *key)
{
	V1beta1__ContainerAllocateResponse row = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
	V1beta1__CDIDevice cdi = V1BETA1__CDIDEVICE__INIT, *cdis[] = {&cdi};
	char kind[80], name[100];

	slots_kind(p, kind);
	snprintf(name, sizeof(name), "%s=%s", kind, key);
	cdi.name = name;
	row.cdi_devices = cdis;
	row.n_cdi_devices = 1;
	answer(p, call, &row);
}

static void answer_edits(struct plugin *p, struct grpc_call *call, const char *key,
			 const V1beta1__ContainerAllocateRequest *said)
{
	V1beta1__ContainerAllocateResponse row = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
	owned(allocate_edits_free) struct allocate_edits *edits = NULL;
	struct fault why;

	if (find_edits(p, key, said, &edits, &why) < 0 || !edits) {
		grpc_end(call, GRPC_INTERNAL, why.text);
		return;
	}
	fill_mounts(edits, &row);
	fill_rest(edits, &row);
	answer(p, call, &row);
}

int allocate_tenant(const struct serving *s, const V1beta1__ContainerAllocateRequest *said,
		    struct allocate_edits **ret_edits, char ret_name[ALLOCATE_NAME],
		    V1beta1__ContainerAllocateResponse *row, struct fault *why)
{
	struct plugin *p = s->plugin;
	char key[IDS_KEY], kind[80];
	int r;

	ids_key(p->config->resource, (const char *const *)said->devices_ids, said->n_devices_ids,
		key);
	*ret_name = '\0';
	*ret_edits = NULL;
	if (p->cdi.used) {
		slots_kind(p, kind);
		snprintf(ret_name, ALLOCATE_NAME, "%s=%s", kind, key);
		return 0;
	}
	r = find_edits(p, key, said, ret_edits, why);
	if (r == 0) {
		fill_mounts(*ret_edits, row);
		fill_rest(*ret_edits, row);
	}
	return r;
}

/* The first id that is not ours; NULL: none. */
static const char *stranger(const struct plugin *p, const V1beta1__ContainerAllocateRequest *said)
{
	for (size_t i = 0; i < said->n_devices_ids; i++)
		if (!offered_could_be(p, said->devices_ids[i]))
			return said->devices_ids[i];
	return NULL;
}

static void allocate(struct serving *s, struct grpc_call *call,
		     const V1beta1__ContainerAllocateRequest *said)
{
	struct plugin *p = s->plugin;
	const char *other = stranger(p, said);
	char key[IDS_KEY];
	struct fault why;

	if (!p->config->has_mete) {
		if (!parts_await(p->parts, s, call, said))
			as_nvidia_allocate(s, call, said);
		return;
	}
	if (other) {
		fault_set(&why, 0, "'%s' is not an id of %s", words_show(other).text,
			  p->config->resource);
		grpc_end(call, GRPC_NOT_FOUND, why.text);
		return;
	}
	ids_key(p->config->resource, (const char *const *)said->devices_ids, said->n_devices_ids,
		key);
	if (!p->cdi.used)
		answer_edits(p, call, key, said);
	else
		answer_name(p, call, key);
}

void serve_allocate(struct grpc_call *call, struct grpc_bytes bytes, void *owner)
{
	V1beta1__AllocateRequest *request =
		v1beta1__allocate_request__unpack(NULL, bytes.size, bytes.data);
	const V1beta1__ContainerAllocateRequest *said =
		request && request->n_container_requests == 1 ? request->container_requests[0]
							      : NULL;

	if (!said || !said->n_devices_ids || said->n_devices_ids > IDS_MAX)
		grpc_end(call, GRPC_INVALID_ARGUMENT,
			 "accepted: the ids of one container, at least one");
	else
		allocate(owner, call, said);
	if (request)
		v1beta1__allocate_request__free_unpacked(request, NULL);
}
