/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocate for a file without `mete`, answered as by NVIDIA's device plugin (v0.20). Containers are
 * told their devices, and NVIDIA's runtime makes these available. No container is a tenant, and
 * nothing is enforced. The exception is sharing.mps: its limits hold per process only, so
 * containers are tenants there. Refusals have the words of that plugin if a person may search for
 * them.
 *
 * Unlike with that plugin, an Xid makes all replicas of its device unhealthy, and a device
 * recovers. See docs/nvidia.md.
 */
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/words.h"
#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/kubelet/allocate.h"
#include "plugin/mps/mps.h"
#include "plugin/nvidia/driver_cdi.h"
#include "plugin/plugin.h"

#define VOLUMES "/var/run/nvidia-container-devices"

enum {
	MOUNTS = HOST_DEVICES + 2,
	NODES = 3 * HOST_DEVICES + 5, /* a GPU's, and two of MIG's */
	NAMES = HOST_DEVICES + 5,
	ENVS = 8,
	TEXT = 128,
};

typedef V1beta1__ContainerAllocateResponse__EnvsEntry env_entry;
typedef V1beta1__ContainerAllocateResponse__AnnotationsEntry mark_entry;

struct answer {
	uint32_t device[HOST_DEVICES], count;
	char visible[HOST_DEVICES * 48];
	char path[MOUNTS][TEXT], inside[NODES][TEXT], outside[NODES][TEXT + CONFIG_PATH_MAX];
	env_entry env[ENVS], *envs[ENVS];
	V1beta1__Mount mount[MOUNTS], *mounts[MOUNTS];
	V1beta1__DeviceSpec spec[NODES], *specs[NODES];
	char name[NAMES][TEXT], names[NAMES * TEXT], key[TEXT + CONFIG_PATH_MAX];
	V1beta1__CDIDevice cdi[NAMES], *cdis[NAMES];
	mark_entry mark, *marks[1];
	char pipe[MPS_PATH], pipe_inside[TEXT], percent[MPS_TEXT], limit[MPS_TEXT];
	char tenant[ALLOCATE_NAME];
	struct allocate_edits *edits; /* that make it a tenant, without CDI */
	/* The above with those of the edits: */
	env_entry *all_envs[ENVS + INJECT_ENV_MAX];
	V1beta1__Mount *all_mounts[MOUNTS + INJECT_EDITS_MAX];
	V1beta1__DeviceSpec *all_specs[NODES + INJECT_EDITS_MAX];
	V1beta1__ContainerAllocateResponse row;
};

static void answer_free(struct answer *g)
{
	if (g)
		allocate_edits_free(g->edits);
	free(g);
}
OWNED_POINTER(struct answer, answer_free)

/* Finds each device once, in the order of its first id. -ENODEV: the id at *ret_wrong is
 * unknown. */
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

void as_nvidia_name(const struct plugin *p, uint32_t device, char *ret_name, size_t size)
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

		as_nvidia_name(p, g->device[i], name, sizeof(name));
		used += (size_t)snprintf(g->visible + used, sizeof(g->visible) - used, "%s%s",
					 i ? "," : "", name);
	}
	if (alone->envvar || alone->volumes)
		add_env(g, "NVIDIA_VISIBLE_DEVICES", alone->volumes ? VOLUMES : g->visible);
	if (alone->envvar && driver_cdi_has_imex(p))
		add_env(g, "NVIDIA_IMEX_CHANNELS", "0");
}

/* NVIDIA's runtime looks at them even where CDI names the devices. */
static void add_modes(const struct plugin *p, struct answer *g)
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;

	if (alone->gdrcopy)
		add_env(g, "NVIDIA_GDRCOPY", "enabled");
	if (alone->gds)
		add_env(g, "NVIDIA_GDS", "enabled");
	if (alone->mofed)
		add_env(g, "NVIDIA_MOFED", "enabled");
}

static void add_mount(struct answer *g, const char *below, const char *name)
{
	size_t n = g->row.n_mounts;
	V1beta1__Mount *mount = &g->mount[n];

	snprintf(g->path[n], TEXT, VOLUMES "%s/%s", below, name);
	v1beta1__mount__init(mount);
	mount->host_path = (char *)"/dev/null";
	mount->container_path = g->path[n];
	g->mounts[g->row.n_mounts++] = mount;
}

static void add_mounts(const struct plugin *p, struct answer *g)
{
	if (!p->config->as_nvidia.volumes)
		return;
	for (uint32_t i = 0; i < g->count; i++) {
		char name[48];

		as_nvidia_name(p, g->device[i], name, sizeof(name));
		add_mount(g, "", name);
	}
	if (driver_cdi_has_imex(p))
		add_mount(g, "/imex", "0");
}

static void add_name(struct answer *g, const char *class, const char *name)
{
	size_t n = g->row.n_cdi_devices, used = strlen(g->names);

	snprintf(g->name[n], TEXT, DRIVER_CDI_VENDOR "/%s=%s", class, name);
	snprintf(g->names + used, sizeof(g->names) - used, "%s%s", used ? "," : "", g->name[n]);
	v1beta1__cdidevice__init(&g->cdi[n]);
	g->cdi[n].name = g->name[n];
	g->cdis[g->row.n_cdi_devices++] = &g->cdi[n];
}

/* A key that no other container of the pod has. */
static void make_key(const struct plugin *p, struct answer *g)
{
	uint8_t r[16] = {0};

	/* Before the machine has any randomness no container starts. */
	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		memcpy(r, &p->allocations, sizeof(p->allocations));
	snprintf(g->key, sizeof(g->key),
		 "%snvidia-device-plugin_%02x%02x%02x%02x-%02x%02x-4%01x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x",
		 p->config->as_nvidia.prefix, r[0], r[1], r[2], r[3], r[4], r[5], r[6] & 15, r[7],
		 (r[8] & 63) | 128, r[9], r[10], r[11], r[12], r[13], r[14], r[15]);
}

/* CDI names, in the kubelet's field or in an annotation. */
static void add_names(const struct plugin *p, struct answer *g)
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;

	if (!alone->annotation && !alone->cri)
		return;
	for (uint32_t i = 0; i < g->count; i++) {
		char name[48];

		as_nvidia_name(p, g->device[i], name, sizeof(name));
		add_name(g, "gpu", name);
	}
	for (size_t i = 0; i < DRIVER_CDI_CLASSES; i++)
		if (driver_cdi_uses(p, i))
			add_name(g, driver_cdi_class(i), driver_cdi_device(i));
	if (alone->annotation) {
		make_key(p, g);
		v1beta1__container_allocate_response__annotations_entry__init(&g->mark);
		g->mark.key = g->key;
		g->mark.value = g->names;
		g->marks[0] = &g->mark;
		g->row.n_annotations = 1;
	}
	if (!alone->cri)
		g->row.n_cdi_devices = 0;
}

static void add_spec(const struct plugin *p, struct answer *g, const char *path, bool optional)
{
	size_t n = g->row.n_devices;
	const char *root = p->config->as_nvidia.dev_root;
	V1beta1__DeviceSpec *spec = &g->spec[n];
	struct stat info;

	if (optional && (stat(path, &info) != 0 || !S_ISCHR(info.st_mode)))
		return;
	/* Parts of one GPU share its file. */
	for (size_t i = 0; i < n; i++)
		if (strcmp(g->inside[i], path) == 0)
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

bool as_nvidia_part_files(const struct plugin *p, const struct host_device *device,
			  char ret_files[2][MIG_FILE])
{
	const char *const roots[] = {p->config->as_nvidia.inner_root,
				     p->config->as_nvidia.driver_root, "/"};

	for (size_t i = 0; device->gpu_instance >= 0 && i < ARRAY_SIZE(roots); i++)
		if (mig_files_find(roots[i], device->minor, device->gpu_instance,
				   device->compute_instance, ret_files) == 0)
			return true;
	return false;
}

/* The two files that give access to a part of a GPU. */
static void add_part(const struct plugin *p, struct answer *g, const struct host_device *device)
{
	char files[2][MIG_FILE];

	if (!as_nvidia_part_files(p, device, files))
		return;
	add_spec(p, g, files[0], false);
	add_spec(p, g, files[1], false);
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
		add_part(p, g, &p->host->device[g->device[i]]);
	}
	if (driver_cdi_has_imex(p))
		add_spec(p, g, DRIVER_CDI_IMEX, false);
}

/* ---- sharing.mps --------------------------------------------------------------------------- */

/* Where its control daemon listens, at the place that NVIDIA's plugin has for it; and of
 * several replicas, how much they are. That plugin mounts one /dev/shm into all containers as well,
 * which clients need on GPUs before Volta alone. */
static void add_mps(const struct serving *s, struct answer *g,
		    const V1beta1__ContainerAllocateRequest *said)
{
	const struct plugin *p = s->plugin;
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	V1beta1__Mount *mount = &g->mount[g->row.n_mounts];
	char key[IDS_KEY];

	snprintf(g->pipe_inside, TEXT, "/mps/%s/pipe", s->resource);
	add_env(g, "CUDA_MPS_PIPE_DIRECTORY", g->pipe_inside);
	/* A container's own daemon, or namespace, knows that. */
	if (!alone->one_only && !alone->mps_apart && !mps_names(p, g->device[0])) {
		mps_part(p, g->device[0], (uint32_t)said->n_devices_ids, alone->replicas,
			 g->percent, g->limit);
		add_env(g, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", g->percent);
		add_env(g, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", g->limit);
	}
	ids_key(p->config->resource, (const char *const *)said->devices_ids, said->n_devices_ids,
		key);
	mps_pipe(p, g->device[0], key, g->pipe);
	mps_answered(p, g->device[0]);
	v1beta1__mount__init(mount);
	mount->host_path = g->pipe;
	mount->container_path = g->pipe_inside;
	g->mounts[g->row.n_mounts++] = mount;
}

static void add_tenants_cdi(struct answer *g)
{
	size_t n = g->row.n_cdi_devices;

	v1beta1__cdidevice__init(&g->cdi[n]);
	g->cdi[n].name = g->tenant;
	g->cdis[g->row.n_cdi_devices++] = &g->cdi[n];
}

/* Behind those of NVIDIA's answer. Device files that both have are given once. */
static void add_tenants_edits(struct answer *g, const V1beta1__ContainerAllocateResponse *tenant)
{
	size_t envs = g->row.n_envs, mounts = g->row.n_mounts, specs = g->row.n_devices;

	memcpy(g->all_envs, g->envs, envs * sizeof(g->envs[0]));
	memcpy(g->all_envs + envs, tenant->envs, tenant->n_envs * sizeof(g->envs[0]));
	memcpy(g->all_mounts, g->mounts, mounts * sizeof(g->mounts[0]));
	memcpy(g->all_mounts + mounts, tenant->mounts, tenant->n_mounts * sizeof(g->mounts[0]));
	memcpy(g->all_specs, g->specs, specs * sizeof(g->specs[0]));
	for (size_t i = 0; i < tenant->n_devices; i++) {
		bool again = false;

		for (size_t k = 0; k < specs; k++)
			again |= strcmp(g->specs[k]->container_path,
					tenant->devices[i]->container_path) == 0;
		if (!again)
			g->all_specs[g->row.n_devices++] = tenant->devices[i];
	}
	g->row.n_envs += tenant->n_envs;
	g->row.n_mounts += tenant->n_mounts;
	g->row.envs = g->all_envs;
	g->row.mounts = g->all_mounts;
	g->row.devices = g->all_specs;
}

static int make_tenant(const struct serving *s, struct answer *g,
		       const V1beta1__ContainerAllocateRequest *said, struct fault *why)
{
	V1beta1__ContainerAllocateResponse tenant = V1BETA1__CONTAINER_ALLOCATE_RESPONSE__INIT;
	int r = allocate_tenant(s, said, &g->edits, g->tenant, &tenant, why);

	if (r == 0 && *g->tenant)
		add_tenants_cdi(g);
	else if (r == 0)
		add_tenants_edits(g, &tenant);
	return r;
}

/* ---- the answer ---------------------------------------------------------------------------- */

static int check(const struct serving *s, struct answer *g,
		 const V1beta1__ContainerAllocateRequest *said, struct fault *why)
{
	const struct plugin *p = s->plugin;
	size_t wrong;

	if (find_devices(p, g, said, &wrong) < 0)
		return fault_set(why, -ENODEV,
				 "invalid allocation request for \"%s\": invalid request: unknown "
				 "device: %s",
				 s->resource, words_show(said->devices_ids[wrong]).text);
	if (p->config->as_nvidia.one_only && s->replicas && said->n_devices_ids > 1)
		return fault_set(why, -EINVAL,
				 "invalid allocation request for \"%s\": invalid request: maximum "
				 "request size for shared resources is 1; found %zu",
				 s->resource, said->n_devices_ids);
	for (uint32_t i = 0; i < g->count; i++)
		if (p->host->device[g->device[i]].gone)
			return fault_set(why, -ENODEV,
					 "invalid allocation request for \"%s\": device %s is "
					 "gone: MIG has divided its GPU in another way",
					 s->resource, p->host->device[g->device[i]].uuid);
	for (uint32_t i = 0; i < g->count; i++)
		if (p->offer[g->device[i]].dividing)
			return fault_set(why, -EAGAIN,
					 "invalid allocation request for \"%s\": device %s may be "
					 "divided by MIG just now",
					 s->resource, p->host->device[g->device[i]].uuid);
	for (uint32_t i = 0; i < g->count; i++)
		if (mps_stays(p->mps, g->device[i])) {
			struct fault reason;

			best_effort(mps_blame(p->mps, g->device[i], &reason));
			return fault_set(why, -EAGAIN, "invalid allocation request for \"%s\": %s",
					 s->resource, reason.text);
		}
	/* A client has one control daemon, and each GPU has its own. */
	if (p->config->as_nvidia.mps && g->count != 1)
		return fault_set(
			why, -EINVAL,
			"invalid allocation request for \"%s\": the ids are replicas of %u "
			"GPUs; with sharing.mps a container has those of one",
			s->resource, g->count);
	return 0;
}

void as_nvidia_allocate(struct serving *s, struct grpc_call *call,
			const V1beta1__ContainerAllocateRequest *said)
{
	struct plugin *p = s->plugin;
	owned(answer_free) struct answer *g = calloc(1, sizeof(*g));
	V1beta1__ContainerAllocateResponse *rows[1];
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
	struct fault why;

	if (!g) {
		grpc_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	v1beta1__container_allocate_response__init(&g->row);
	if (check(s, g, said, &why) < 0) {
		grpc_end(call, GRPC_UNKNOWN, why.text); /* as gRPC for Go calls plain errors */
		return;
	}
	add_names(p, g);
	/* As there: with CDI alone, the CDI files have all the rest. */
	if (p->config->as_nvidia.envvar || p->config->as_nvidia.volumes) {
		add_envs(p, g);
		add_mounts(p, g);
		add_specs(p, g);
	}
	add_modes(p, g);
	if (p->config->as_nvidia.mps)
		add_mps(s, g, said);
	g->row.annotations = g->marks;
	g->row.cdi_devices = g->cdis;
	g->row.envs = g->envs;
	g->row.mounts = g->mounts;
	g->row.devices = g->specs;
	if (p->config->as_nvidia.mps && make_tenant(s, g, said, &why) < 0) {
		grpc_end(call, GRPC_INTERNAL, why.text);
		return;
	}
	rows[0] = &g->row;
	response.container_responses = rows;
	response.n_container_responses = 1;
	p->allocations++;
	serve_answer(call, &response.base);
}
