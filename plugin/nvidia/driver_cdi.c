/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/nvidia/driver_cdi.h"

#include <glob.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#include "plugin/inject/inject_edits.h"

enum { NODES = 3 * HOST_DEVICES + 8, PATHS = 3, PATH = 512 };

enum { IMEX }; /* of the classes */

/* Device files that belong to no GPU: their nodes in /dev, and the key that asks for them. In the
 * order in which NVIDIA's plugin names them. */
static const struct {
	const char *class, *device, *key;
	const char *patterns[PATHS];
	size_t asked; /* in struct config_as_nvidia */
} classes[DRIVER_CDI_CLASSES] = {
	{"imex-channel",
	 "0",
	 "imex.channelIDs",
	 {DRIVER_CDI_IMEX},
	 offsetof(struct config_as_nvidia, imex)},
	{"gdrcopy",
	 "all",
	 "flags.gdrcopyEnabled",
	 {"/dev/gdrdrv"},
	 offsetof(struct config_as_nvidia, gdrcopy)},
	{"gds",
	 "all",
	 "flags.gdsEnabled",
	 {"/dev/nvidia-fs*"},
	 offsetof(struct config_as_nvidia, gds)},
	{"mofed",
	 "all",
	 "flags.mofedEnabled",
	 {"/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"},
	 offsetof(struct config_as_nvidia, mofed)},
};

static const char *const common[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
				     "/dev/nvidia-modeset"};

const char *driver_cdi_class(size_t index)
{
	return classes[index].class;
}

const char *driver_cdi_device(size_t index)
{
	return classes[index].device;
}

static bool is_asked(const struct plugin *p, size_t index)
{
	return *((const bool *)((const char *)&p->config->as_nvidia + classes[index].asked));
}

static bool is_node(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0 && S_ISCHR(info.st_mode);
}

bool driver_cdi_has_imex(const struct plugin *p)
{
	return p->config->as_nvidia.imex && is_node(DRIVER_CDI_IMEX);
}

bool driver_cdi_uses(const struct plugin *p, size_t index)
{
	return p->driver_cdi & 1u << index;
}

/* Nodes, each with its text on the host and in the container. */
struct nodes {
	struct inject_node node[NODES];
	char to[NODES][PATH], from[NODES][PATH];
	uint32_t count;
};

/* Further names are dropped. */
static void add_node(const struct plugin *p, struct nodes *nodes, const char *path)
{
	const char *root = p->config->as_nvidia.dev_root;
	uint32_t n = nodes->count;

	if (n == NODES || !is_node(path))
		return;
	snprintf(nodes->to[n], PATH, "%s", path);
	snprintf(nodes->from[n], PATH, "%s%s", strcmp(root, "/") == 0 ? "" : root, path);
	nodes->node[n] = (struct inject_node){.from = nodes->from[n], .to = nodes->to[n]};
	nodes->count++;
}

static void find_nodes(const struct plugin *p, size_t index, struct nodes *nodes)
{
	for (size_t i = 0; i < PATHS && classes[index].patterns[i]; i++) {
		glob_t found;

		if (glob(classes[index].patterns[i], 0, NULL, &found) != 0)
			continue;
		for (size_t j = 0; j < found.gl_pathc; j++)
			add_node(p, nodes, found.gl_pathv[j]);
		globfree(&found);
	}
}

static int find_edits(const struct plugin *p, struct inject_edits **ret_edits, struct fault *why)
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	bool inside = access(alone->inner_root, F_OK) == 0;
	struct inject_machine machine = {
		.driver_root = inside ? alone->inner_root : "/",
		.host_driver_root = inside ? alone->driver_root : "/",
		.mounts_driver = true,
	};
	struct nodes nodes = {.count = 0};
	int r;

	machine.driver_folder = host_driver_below(p->host, machine.driver_root);
	r = inject_look(&machine, NULL, ret_edits, why);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(common); i++)
		add_node(p, &nodes, common[i]);
	for (uint32_t i = 0; r == 0 && i < nodes.count; i++)
		r = edits_node(*ret_edits, nodes.from[i], nodes.to[i]);
	if (r == 0 && !alone->hookless)
		r = edits_text(&(*ret_edits)->hook, alone->ctk);
	return r < 0 ? edits_fault(r, why) : 0;
}

/* The two files that give access to a part of a GPU. */
static void add_part(const struct plugin *p, struct nodes *nodes, const struct host_device *device)
{
	char files[2][MIG_FILE];

	if (!as_nvidia_part_files(p, device, files))
		return;
	add_node(p, nodes, files[0]);
	add_node(p, nodes, files[1]);
}

static int write_gpus(const struct plugin *p, struct fault *why)
{
	owned(inject_free) struct inject_edits *edits = NULL;
	struct inject_plain device[HOST_DEVICES];
	char name[HOST_DEVICES][48];
	struct nodes nodes = {.count = 0};
	uint32_t n = 0;
	int r = find_edits(p, &edits, why);

	for (uint32_t i = 0; r == 0 && i < p->host->devices; i++) {
		char path[40];
		uint32_t before = nodes.count;

		if (!p->offer[i].shared)
			continue;
		snprintf(path, sizeof(path), "/dev/nvidia%d", p->host->device[i].minor);
		add_node(p, &nodes, path);
		add_part(p, &nodes, &p->host->device[i]);
		as_nvidia_name(p, i, name[n], sizeof(name[n]));
		device[n] = (struct inject_plain){.name = name[n],
						  .nodes = &nodes.node[before],
						  .node_count = nodes.count - before};
		n++;
	}
	return r == 0 ? inject_write_plain(p->config->cdi_folder, DRIVER_CDI_VENDOR "/gpu", edits,
					   device, n, why)
		      : r;
}

/* As that plugin, which goes on without the devices that are not there. */
static int write_class(struct plugin *p, size_t index, struct fault *why)
{
	struct nodes nodes = {.count = 0};
	struct inject_plain device = {.name = classes[index].device, .nodes = nodes.node};
	char kind[80];

	find_nodes(p, index, &nodes);
	device.node_count = nodes.count;
	if (!nodes.count) {
		fault_set(why, 0, "%s: this node has no %s: containers get none",
			  classes[index].key, classes[index].patterns[0]);
		log_warning("cdi.missing", "reason=%s", log_text(why->text).text);
		return 0;
	}
	p->driver_cdi |= 1u << index;
	snprintf(kind, sizeof(kind), DRIVER_CDI_VENDOR "/%s", classes[index].class);
	return inject_write_plain(p->config->cdi_folder, kind, NULL, &device, 1, why);
}

int driver_cdi_settle(struct plugin *p, struct fault *why)
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	int r = 0;

	p->driver_cdi = 0;
	if (alone->imex && !driver_cdi_has_imex(p)) {
		fault_set(why, 0, "imex.channelIDs: this node has no " DRIVER_CDI_IMEX);
		if (alone->imex_required)
			return -ENOENT;
		log_warning("imex.missing", "reason=%s", log_text(why->text).text);
	}
	if (!alone->annotation && !alone->cri)
		return 0;
	for (size_t i = 0; r == 0 && i < DRIVER_CDI_CLASSES; i++)
		if (is_asked(p, i) && (i != IMEX || driver_cdi_has_imex(p)))
			r = write_class(p, i, why);
	return r == 0 ? write_gpus(p, why) : r;
}
