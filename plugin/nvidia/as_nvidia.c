/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file without `mete`: what NVIDIA's device plugin (v0.20) would answer. Containers are told
 * which devices are theirs, and NVIDIA's runtime gives them; nobody is a tenant, and nothing is
 * enforced. It says so in the words of that plugin where a person may search for them.
 *
 * Unlike there, an Xid makes all replicas of its device unhealthy, and a device recovers.
 */
#include <string.h>
#include <sys/stat.h>

#include "base/words.h"
#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/plugin.h"

#define VOLUMES "/var/run/nvidia-container-devices"

enum { MOUNTS = HOST_DEVICES, NODES = HOST_DEVICES + 4, ENVS = 4, TEXT = 128 };

typedef V1beta1__ContainerAllocateResponse__EnvsEntry env_entry;

struct answer {
	uint32_t device[HOST_DEVICES], count;
	char visible[HOST_DEVICES * 48];
	char path[MOUNTS][TEXT], inside[NODES][TEXT], outside[NODES][TEXT + CONFIG_PATH_MAX];
	env_entry env[ENVS], *envs[ENVS];
	V1beta1__Mount mount[MOUNTS], *mounts[MOUNTS];
	V1beta1__DeviceSpec spec[NODES], *specs[NODES];
	V1beta1__ContainerAllocateResponse row;
};

/* Each device once, in the order of its first id. -1: nobody has the id at *ret_wrong. */
static int find_devices(const struct plugin *p, struct answer *g,
			const V1beta1__ContainerAllocateRequest *said, size_t *ret_wrong)
{
	bool has[HOST_DEVICES] = {false};

	for (size_t i = 0; i < said->n_devices_ids; i++) {
		int device = offered_device(p, said->devices_ids[i]);

		if (device < 0) {
			*ret_wrong = i;
			return -ENODEV;
		}
		if (!has[device])
			g->device[g->count++] = (uint32_t)device;
		has[device] = true;
	}
	return 0;
}

static void name_device(const struct plugin *p, uint32_t device, char *ret_name, size_t size)
{
	const struct host_device *info = &p->host->device[device];

	if (p->config->as_nvidia.by_index && info->gpu_instance >= 0)
		snprintf(ret_name, size, "%u:%u", info->gpu_index, info->part_index);
	else if (p->config->as_nvidia.by_index)
		snprintf(ret_name, size, "%u", info->gpu_index);
	else
		snprintf(ret_name, size, "%.47s", info->uuid);
}

static void add_env(struct answer *g, const char *name, const char *value)
{
	env_entry *env = &g->env[g->row.n_envs];

	v1beta1__container_allocate_response__envs_entry__init(env);
	env->key = (char *)name;
	env->value = (char *)value;
	g->envs[g->row.n_envs++] = env;
}

static void add_envs(const struct plugin *p, struct answer *g)
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	size_t used = 0;

	for (uint32_t i = 0; i < g->count; i++) {
		char name[48];

		name_device(p, g->device[i], name, sizeof(name));
		used += (size_t)snprintf(g->visible + used, sizeof(g->visible) - used, "%s%s",
					 i ? "," : "", name);
	}
	add_env(g, "NVIDIA_VISIBLE_DEVICES", alone->volumes ? VOLUMES : g->visible);
	if (alone->gdrcopy)
		add_env(g, "NVIDIA_GDRCOPY", "enabled");
	if (alone->gds)
		add_env(g, "NVIDIA_GDS", "enabled");
	if (alone->mofed)
		add_env(g, "NVIDIA_MOFED", "enabled");
}

static void add_mounts(const struct plugin *p, struct answer *g)
{
	for (uint32_t i = 0; p->config->as_nvidia.volumes && i < g->count; i++) {
		V1beta1__Mount *mount = &g->mount[i];
		char name[48];

		name_device(p, g->device[i], name, sizeof(name));
		snprintf(g->path[i], TEXT, VOLUMES "/%s", name);
		v1beta1__mount__init(mount);
		mount->host_path = (char *)"/dev/null";
		mount->container_path = g->path[i];
		g->mounts[g->row.n_mounts++] = mount;
	}
}

static void add_spec(const struct plugin *p, struct answer *g, const char *path, bool optional)
{
	size_t n = g->row.n_devices;
	const char *root = p->config->as_nvidia.dev_root;
	V1beta1__DeviceSpec *spec = &g->spec[n];
	struct stat info;

	if (optional && (stat(path, &info) != 0 || !S_ISCHR(info.st_mode)))
		return;
	snprintf(g->inside[n], TEXT, "%s", path);
	snprintf(g->outside[n], sizeof(g->outside[n]), "%s%s", strcmp(root, "/") == 0 ? "" : root,
		 path);
	v1beta1__device_spec__init(spec);
	spec->container_path = g->inside[n];
	spec->host_path = g->outside[n];
	spec->permissions = (char *)"rw";
	g->specs[g->row.n_devices++] = spec;
}

static void add_specs(const struct plugin *p, struct answer *g)
{
	static const char *const common[] = {"/dev/nvidiactl", "/dev/nvidia-uvm",
					     "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"};

	if (!p->config->as_nvidia.specs)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		add_spec(p, g, common[i], true);
	for (uint32_t i = 0; i < g->count; i++) {
		char path[TEXT];

		if (p->host->device[g->device[i]].minor < 0)
			continue;
		snprintf(path, sizeof(path), "/dev/nvidia%d", p->host->device[g->device[i]].minor);
		/* As in that plugin: without its file the container had better not start. */
		add_spec(p, g, path, false);
	}
}

static int check(const struct plugin *p, struct answer *g,
		 const V1beta1__ContainerAllocateRequest *said, struct fault *why)
{
	size_t wrong;

	if (p->config->as_nvidia.one_only && said->n_devices_ids > 1)
		return fault_set(why, -EINVAL,
				 "invalid allocation request for \"%s\": invalid request: maximum "
				 "request size for shared resources is 1; found %zu",
				 p->config->resource, said->n_devices_ids);
	if (find_devices(p, g, said, &wrong) < 0)
		return fault_set(why, -ENODEV,
				 "invalid allocation request for \"%s\": unknown device: %s",
				 p->config->resource, words_show(said->devices_ids[wrong]).text);
	return 0;
}

void as_nvidia_allocate(struct plugin *p, struct grpc_call *call,
			const V1beta1__ContainerAllocateRequest *said)
{
	owned(free) struct answer *g = calloc(1, sizeof(*g));
	V1beta1__ContainerAllocateResponse *rows[1];
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
	struct fault why;

	if (!g) {
		grpc_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	v1beta1__container_allocate_response__init(&g->row);
	if (check(p, g, said, &why) < 0) {
		grpc_end(call, GRPC_UNKNOWN, why.text); /* as gRPC for Go calls plain errors */
		return;
	}
	add_envs(p, g);
	add_mounts(p, g);
	add_specs(p, g);
	g->row.envs = g->envs;
	g->row.mounts = g->mounts;
	g->row.devices = g->specs;
	rows[0] = &g->row;
	response.container_responses = rows;
	response.n_container_responses = 1;
	p->allocations++;
	serve_answer(call, &response.base);
}

/* A container that had a share of a device when it was mete's keeps it until it ends; until then
 * nobody is given the device as a whole. */
static void on_tenant(void *owner, const struct wire_tenant_row *row)
{
	struct plugin *p = owner;

	if (row->device < p->host->devices && row->guests)
		p->offer[row->device].held = true;
}

void as_nvidia_mark(struct plugin *p)
{
	const struct host_reader reader = {.owner = p, .tenant = on_tenant};
	bool held[HOST_DEVICES] = {false};

	for (uint32_t i = 0; i < p->host->devices; i++) {
		held[i] = p->offer[i].held;
		p->offer[i].held = false;
	}
	p->host->rows(p->host->daemon, &reader);
	list_for_each(link, &p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		for (uint32_t i = 0; i < b->devices; i++)
			p->offer[b->device[i]].held = true;
	}
	for (uint32_t i = 0; i < p->host->devices; i++)
		if (p->offer[i].held != held[i])
			log_info(held[i] ? "device.free" : "device.held", "uuid=%s",
				 p->host->device[i].uuid);
}

void as_nvidia_look(struct plugin *p)
{
	as_nvidia_mark(p);
	serve_changed(p);
}
