/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/nvidia/node_features.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "plugin/kubelet/numa.h"
#include "plugin/nvidia/features.h"
#include "plugin/nvidia/mig_name.h"
#include "plugin/nvidia/vgpu.h"

enum { LINE_MOST = 4096, UNDONE_MOST = 3 };

#define TIMESTAMP "nvidia.com/gfd.timestamp" /* differs each time */

/* All of a file; NULL: there is none. Newly allocated. */
static char *read_from(int fd)
{
	struct stat about;
	char *text = NULL;
	size_t size;

	if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) ||
	    file_slurp_from(fd, LINE_MOST, &text, &size) < 0)
		return NULL;
	return text;
}

/* Of several lines a label is made, as by that plugin. Links are followed, as a ConfigMap's files
 * are some. The open never waits for the writer of a pipe. */
static char *read_machine(const char *path)
{
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return read_from(fd);
}

/* A file of the kernel's about the device, as a descriptor: below the driver's root, or ours. */
static int open_pci(const struct plugin *p, const struct host_device *device, const char *file)
{
	const char *const roots[] = {p->config->driver_root, ""};
	char path[PATH_MAX], name[24];
	int fd = -1, r = -EINVAL;

	for (size_t i = 0; fd < 0 && i < ARRAY_SIZE(roots); i++) {
		if (numa_name(device->pci, name) < 0 ||
		    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/%s", roots[i], name,
			     file) >= PATH_MAX)
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		r = -errno;
	}
	return fd < 0 ? r : fd;
}

/* Devices, and then GPUs in MIG mode without parts: the node has them, too. */
static uint32_t count_all(const struct plugin *p)
{
	return p->host->devices + p->host->unparted;
}

static const struct host_device *one_of_all(const struct plugin *p, uint32_t i)
{
	return i < p->host->devices ? &p->host->device[i]
				    : &p->host->unparted_gpu[i - p->host->devices];
}

/* "": it is not known, or not the same for all. */
static void find_class(const struct plugin *p, char ret_class[16])
{
	*ret_class = '\0';
	for (uint32_t i = 0; i < count_all(p); i++) {
		owned(close) int fd = open_pci(p, one_of_all(p, i), "class");
		owned(free) char *line = read_from(fd);

		if (line)
			line[strcspn(line, "\n")] = '\0';
		if (!line || (*ret_class && strcmp(ret_class, line) != 0)) {
			*ret_class = '\0';
			return;
		}
		snprintf(ret_class, 16, "%.15s", line);
	}
}

/* The clique that all GPUs are in; "": they are in several, or in none. One without a fabric does
 * not count. */
static const char *find_clique(const struct plugin *p)
{
	const char *clique = "";

	for (uint32_t i = 0; i < count_all(p); i++) {
		const struct host_device *one = one_of_all(p, i);

		if (one->gone || !one->clique || !*one->clique)
			continue;
		if (*clique && strcmp(clique, one->clique) != 0)
			return "";
		clique = one->clique;
	}
	return clique;
}

/* False: less than all of a GPU can be read, and whether it is a virtual one is not known. */
static bool find_vgpu(const struct plugin *p, struct vgpu *ret_vgpu, bool *ret_present)
{
	*ret_vgpu = (struct vgpu){.driver = ""};
	*ret_present = false;
	for (uint32_t i = 0; i < count_all(p); i++) {
		owned(close) int fd = open_pci(p, one_of_all(p, i), "config");
		uint8_t config[VGPU_CONFIG];
		struct vgpu one;

		/* It is none of PCI's. */
		if (fd == -ENOENT || fd == -EINVAL)
			continue;
		if (fd < 0 || read(fd, config, sizeof(config)) != sizeof(config))
			return false;
		if (vgpu_read(config, &one) != VGPU_FOUND)
			continue;
		*ret_present = true;
		*ret_vgpu = one;
	}
	return true;
}

/* The findings about the node's GPUs. */
struct finding {
	struct features f;
	char model[64]; /* of the first GPU, also if it is divided */
	struct features_kind kind[SERVINGS_MAX];
	char resource[SERVINGS_MAX][MIG_NAME];
};

/* A part's name begins with its GPU's. */
static void gpu_model(const struct host_device *one, char ret_model[64])
{
	const char *end = one->gpu_instance < 0 ? NULL : strstr(one->model, " MIG ");

	snprintf(ret_model, 64, "%.*s", end ? (int)(end - one->model) : 63, one->model);
}

/* Does the device stand for its GPU? */
static bool is_first(const struct plugin *p, uint32_t device)
{
	for (uint32_t i = 0; i < device; i++)
		if (!one_of_all(p, i)->gone &&
		    one_of_all(p, i)->gpu_index == one_of_all(p, device)->gpu_index)
			return false;
	return !one_of_all(p, device)->gone;
}

static uint32_t replicas_of(const struct plugin *p, uint32_t device)
{
	if (!p->config->has_mete)
		return p->config->as_nvidia.replicas;
	return device < p->host->devices ? p->offer[device].slots : 0;
}

/* False: there is no GPU. Of several parts of one GPU the first one stands for it. */
static bool find_gpus(const struct plugin *p, struct finding *found)
{
	struct features *f = &found->f;
	bool whole = p->config->has_mete;
	char model[64];

	for (uint32_t i = 0; i < count_all(p); i++) {
		const struct host_device *one = one_of_all(p, i);

		f->is_divisible |= one->is_divisible;
		gpu_model(one, model);
		if (!*model || !is_first(p, i))
			continue;
		if (!f->count) {
			snprintf(found->model, sizeof(found->model), "%s", model);
			f->replicas = replicas_of(p, i);
			f->total_bytes = one->gpu_bytes;
			f->cc_major = one->cc_major;
			f->cc_minor = one->cc_minor;
		}
		if (strcmp(model, found->model) != 0)
			continue;
		f->count++;
		whole |= i < p->host->devices && one->gpu_instance < 0;
	}
	/* Of GPUs that are all divided there are no replicas, whatever the file says of whole ones.
	 */
	if (f->replicas < 1 || !whole)
		f->replicas = whole;
	f->model = found->model;
	f->mps = p->config->as_nvidia.mps;
	return f->count;
}

static void add_part(const struct plugin *p, struct finding *found, uint32_t device)
{
	const struct serving *s = kinds_of(p, device);
	const struct host_device *one = &p->host->device[device];
	const char *profile = mig_name_profile(one->model);
	struct features *f = &found->f;
	uint32_t i = 0;

	/* One that was destroyed is no longer there, though that alone is no news of a division. A
	 * driver may name a part without its profile: there is no label for such a kind. */
	if (!s || one->gone || health_is_gone(&p->health[device]) || one->gpu_instance < 0 ||
	    !one->part || !profile)
		return;
	while (i < f->kinds && strcmp(found->kind[i].profile, profile) != 0)
		i++;
	if (i == SERVINGS_MAX)
		return;
	if (i == f->kinds) {
		f->kinds++;
		snprintf(found->resource[i], MIG_NAME, "gpu");
		if (config_mig_names_kinds(p->config->as_nvidia.mig))
			best_effort(mig_name_resource(one->model, found->resource[i]));
		found->kind[i] = (struct features_kind){
			.resource = found->resource[i],
			.profile = profile,
			.replicas = s->replicas ? s->replicas : 1,
			.renamed = p->config->as_nvidia.renamed,
			.part = one->part,
		};
	}
	found->kind[i].count++;
}

static void find_parts(const struct plugin *p, struct finding *found)
{
	static const char *const strategies[] = {
		[CONFIG_MIG_NONE] = NULL,
		[CONFIG_MIG_SINGLE] = "single",
		[CONFIG_MIG_MIXED] = "mixed",
		[CONFIG_MIG_DYNAMIC] = "mixed", /* readers of the label know no other word */
	};
	struct features *f = &found->f;
	struct fault why;

	if (p->config->has_mete || p->config->as_nvidia.mig == CONFIG_MIG_NONE)
		return;
	f->strategy = strategies[p->config->as_nvidia.mig];
	f->invalid = kinds_check(p, &why) < 0;
	f->kind = found->kind;
	for (uint32_t i = 0; i < p->host->devices; i++)
		add_part(p, found, i);
}

static void add(void *owner, const char *key, const char *value)
{
	cJSON **labels = owner;

	if (*labels && !cJSON_AddStringToObject(*labels, key, value)) {
		cJSON_Delete(*labels);
		*labels = NULL;
	}
}

cJSON *node_features(const struct plugin *p)
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	owned(free) char *machine = NULL;
	char class[16];
	struct vgpu vgpu;
	struct features_vgpu virtual = {.driver = vgpu.driver, .branch = vgpu.branch};
	struct finding found = {
		.f = {.driver = p->host->driver_version,
		      .cuda = p->host->cuda_version,
		      .pci_class = class,
		      .renamed = strcmp(p->config->resource, "nvidia.com/gpu") != 0}};
	cJSON *labels = NULL;

	if (!p->config->features || !find_gpus(p, &found))
		return NULL;
	find_parts(p, &found);
	find_class(p, class);
	found.f.clique = find_clique(p);
	if (find_vgpu(p, &vgpu, &virtual.present))
		found.f.vgpu = &virtual;
	machine = read_machine(alone->machine_file);
	found.f.machine = machine;
	found.f.timestamp = alone->timeless ? 0 : (uint64_t)time(NULL);
	labels = cJSON_CreateObject();
	features_each(&found.f, add, &labels);
	return labels;
}

bool node_features_shown(const cJSON *wanted, const cJSON *labels)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, wanted)
	{
		const char *shown = json_text(labels, one->string);

		if (!shown ||
		    (strcmp(shown, one->valuestring) != 0 && strcmp(one->string, TIMESTAMP) != 0))
			return false;
	}
	return true;
}

static bool are_same(const cJSON *a, const cJSON *b)
{
	return a && b && cJSON_GetArraySize(a) == cJSON_GetArraySize(b) &&
	       node_features_shown(a, b);
}

/* The first label that has another value; NULL: none. One that is missing is not one. */
static const cJSON *find_other(const cJSON *wanted, const cJSON *labels)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, wanted)
	{
		const char *shown = json_text(labels, one->string);

		if (shown && strcmp(shown, one->valuestring) != 0 &&
		    strcmp(one->string, TIMESTAMP) != 0)
			return one;
	}
	return NULL;
}

bool features_rival_look(struct features_rival *rival, const cJSON *wanted, const cJSON *labels,
			 struct fault *ret_what)
{
	const cJSON *other = find_other(wanted, labels);

	if (!are_same(wanted, rival->wanted)) {
		features_rival_done(rival);
		*rival = (struct features_rival){.wanted = cJSON_Duplicate(wanted, true)};
	}
	if (!other) {
		rival->shown = node_features_shown(wanted, labels);
		return false;
	}
	if (!rival->shown || rival->yields)
		return false;
	rival->shown = false;
	if (++rival->undone < UNDONE_MOST)
		return false;
	rival->yields = true;
	best_effort(fault_set(
		ret_what, 0,
		"another program writes the labels of GPU feature discovery on this node, too (%s: "
		"'%s' instead of '%s'): mete leaves them to it; switch one of the two off "
		"(NVIDIA's "
		"DaemonSet, or feature-labels in mete's configuration)",
		other->string, json_text(labels, other->string), other->valuestring));
	return true;
}

void features_rival_done(struct features_rival *rival)
{
	cJSON_Delete(rival->wanted);
	rival->wanted = NULL;
}
