/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a container: a link from its ids to its tenant's folder, and its CDI file. The link
 * is made first and removed last, so that the next meted finds the files of one that was killed by
 * its links.
 */
#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/place.h"
#include "plugin/slots.h"

static const char beside_suffix[] = ".new"; /* as base/file.h names it */

void slots_kind(const struct plugin *p, char ret_kind[80])
{
	snprintf(ret_kind, 80, "%s/slot", p->config->domain);
}

void slots_link(const struct plugin *p, const char *key, char ret_path[PLUGIN_PATH])
{
	snprintf(ret_path, PLUGIN_PATH, "%s/slots/%s", p->host->place, key);
}

void slots_on_host(const struct plugin *p, const char *path, char ret_path[PLUGIN_PATH])
{
	snprintf(ret_path, PLUGIN_PATH, "%s%s",
		 p->config->host_prefix ? p->config->host_prefix : "", path);
}

int slots_open(struct plugin *p, struct fault *why)
{
	char path[PLUGIN_PATH];

	snprintf(path, sizeof(path), "%s/slots", p->host->place);
	return place_make(path, PLACE_PASSAGE, why);
}

/* Creates the new link under another name, and renames it: readers find the former or the new
 * folder. */
static int make_link(const struct plugin *p, const struct binding *b, struct fault *why)
{
	char path[PLUGIN_PATH], beside[PLUGIN_PATH + 8], target[PLUGIN_PATH];

	slots_link(p, b->key, path);
	snprintf(beside, sizeof(beside), "%s%s", path, beside_suffix);
	slots_on_host(p, b->folder, target);
	unlink(beside);
	if (symlink(target, beside) != 0 || rename(beside, path) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

static bool is_below(const char *root, const char *node)
{
	char path[PLUGIN_PATH];
	struct stat info;

	snprintf(path, sizeof(path), "%s%s", strcmp(root, "/") == 0 ? "" : root, node);
	return stat(path, &info) == 0 && S_ISCHR(info.st_mode);
}

/* A driver that runs in a container has its files below its own root, others in the machine's /dev.
 * NULL: it has none, like a simulated device. */
static const char *host_root(const struct plugin *p, const char *node)
{
	const struct config *config = p->config;
	const char *root =
		config->host_driver_root ? config->host_driver_root : config->driver_root;

	if (is_below(config->driver_root, node))
		return strcmp(root, "/") == 0 ? "" : root;
	return is_below("/", node) ? "" : NULL;
}

static bool has_node(const struct slots_nodes *nodes, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(nodes->text[i], name) == 0)
			return true;
	return false;
}

/* Parts of one GPU share its file. */
static bool add_node(const struct plugin *p, struct slots_nodes *nodes, const char *name,
		     uint32_t *count)
{
	const char *root = host_root(p, name);
	uint32_t n = *count;

	if (!root)
		return false;
	if (has_node(nodes, n, name))
		return true;
	snprintf(nodes->text[n], sizeof(nodes->text[n]), "%s", name);
	snprintf(nodes->host[n], sizeof(nodes->host[n]), "%s%s", root, name);
	nodes->node[n] = (struct inject_node){.from = nodes->host[n], .to = nodes->text[n]};
	(*count)++;
	return true;
}

/* False: some of its files are missing. */
static bool add_device(const struct plugin *p, const struct host_device *device,
		       struct slots_nodes *nodes, uint32_t *count)
{
	char path[MIG_FILE], files[2][MIG_FILE];
	bool all;

	snprintf(path, sizeof(path), "/dev/nvidia%d", device->minor);
	if (device->minor < 0 || !add_node(p, nodes, path, count))
		return false;
	if (device->gpu_instance < 0)
		return true;
	if (mig_files_find(p->config->driver_root, device->minor, device->gpu_instance,
			   device->compute_instance, files) < 0 &&
	    mig_files_find("/", device->minor, device->gpu_instance, device->compute_instance,
			   files) < 0)
		return false;
	all = add_node(p, nodes, files[0], count);
	return add_node(p, nodes, files[1], count) && all;
}

uint32_t slots_find_nodes(const struct plugin *p, const uint32_t *devices, uint32_t count,
			  struct slots_nodes *ret_nodes)
{
	uint32_t n = 0;
	size_t used = 0;
	bool all = true;

	for (uint32_t i = 0; i < count; i++)
		all &= add_device(p, &p->host->device[devices[i]], ret_nodes, &n);
	ret_nodes->visible = all ? NULL : ret_nodes->visible_text;
	for (uint32_t i = 0; !all && i < count; i++)
		used += (size_t)snprintf(ret_nodes->visible_text + used,
					 sizeof(ret_nodes->visible_text) - used, "%s%.40s",
					 i ? "," : "", p->host->device[devices[i]].uuid);
	return n;
}

/* If the choice is automatic (`auto`), containers from before another choice still have theirs. */
static bool may_use_cdi(const struct plugin *p)
{
	return p->config->cdi != CONFIG_CDI_OFF;
}

static int write_cdi(const struct plugin *p, const struct binding *b, struct fault *why)
{
	char folder[PLUGIN_PATH];
	struct slots_nodes nodes;
	struct inject_slot slot = {
		.kind = b->kind, .name = b->key, .folder = folder, .nodes = nodes.node};

	slots_on_host(p, b->folder, folder);
	slot.node_count = slots_find_nodes(p, b->device, b->devices, &nodes);
	slot.visible = nodes.visible;
	return inject_write_cdi(b->cdi_folder, p->edits, &slot, why);
}

int slots_make(struct plugin *p, const struct binding *b, struct fault *why)
{
	int r = make_link(p, b, why);

	if (r < 0 || !may_use_cdi(p) || !b->kind)
		return r;
	r = write_cdi(p, b, why);
	return p->cdi.used ? r : 0;
}

/* Also removes the temporary file of a killed writer. */
static void remove_cdi(const char *folder, const char *kind, const char *key)
{
	char path[PATH_MAX], file[NAME_MAX + 1];
	struct fault why;

	if (inject_remove_cdi(folder, kind, key, &why) < 0)
		log_warning("cdi.left", "reason=%s", log_text(why.text).text);
	if (inject_cdi_file(kind, key, file, sizeof(file)) == 0 &&
	    snprintf(path, sizeof(path), "%s/%s%s", folder, file, beside_suffix) <
		    (int)sizeof(path))
		unlink(path);
}

static void remove_link(struct plugin *p, const char *key)
{
	char path[PLUGIN_PATH], beside[PLUGIN_PATH + 8];

	slots_link(p, key, path);
	snprintf(beside, sizeof(beside), "%s%s", path, beside_suffix);
	unlink(beside);
	unlink(path);
}

void slots_remove(struct plugin *p, const struct binding *b)
{
	if (b->kind)
		remove_cdi(b->cdi_folder, b->kind, b->key);
	remove_link(p, b->key);
}

int slots_place(const struct plugin *p, struct binding *b, const struct binding *was)
{
	char kind[80];

	slots_kind(p, kind);
	if (was ? !was->kind : !may_use_cdi(p))
		return 0;
	b->kind = strdup(was ? was->kind : kind);
	b->cdi_folder = strdup(was ? was->cdi_folder : p->config->cdi_folder);
	return b->kind && b->cdi_folder ? 0 : -ENOMEM;
}

void slots_replace(const struct binding *was, const struct binding *b)
{
	if (was && was->kind &&
	    (!b->kind || strcmp(was->kind, b->kind) != 0 ||
	     strcmp(was->cdi_folder, b->cdi_folder) != 0))
		remove_cdi(was->cdi_folder, was->kind, was->key);
}

/* Removes links of ids without a binding: their container was being bound when meted was killed. */
static void sweep_links(struct plugin *p)
{
	char path[PLUGIN_PATH], key[IDS_KEY], kind[80];
	struct dirent *entry;
	DIR *links;

	snprintf(path, sizeof(path), "%s/slots", p->host->place);
	links = opendir(path);
	while (links && (entry = readdir(links))) {
		if (strlen(entry->d_name) < IDS_KEY - 1 || entry->d_name[0] == '.')
			continue;
		memcpy(key, entry->d_name, IDS_KEY - 1);
		key[IDS_KEY - 1] = '\0';
		if (binding_store_find(&p->bindings, key))
			continue;
		slots_kind(p, kind);
		if (may_use_cdi(p))
			remove_cdi(p->config->cdi_folder, kind, key);
		remove_link(p, key);
	}
	if (links)
		closedir(links);
}

/* Does a CDI file name a folder of ours? Other metes may write beside us. */
static bool is_ours(const struct plugin *p, const char *path)
{
	char ours[PLUGIN_PATH + 16], tenants[PLUGIN_PATH];
	owned(free) char *text = NULL;
	size_t size;

	snprintf(tenants, sizeof(tenants), "%s/tenants/", p->host->place);
	slots_on_host(p, tenants, ours);
	return file_slurp(path, 1 << 20, &text, &size) == 0 && strstr(text, ours);
}

/* Removes those whose links are lost: links are in /run, and this folder may outlive a boot. */
static void sweep_cdi(struct plugin *p)
{
	char prefix[100], path[PATH_MAX], key[IDS_KEY];
	struct dirent *entry;
	DIR *files = opendir(p->config->cdi_folder);
	size_t length;

	snprintf(prefix, sizeof(prefix), "%s-slot_", p->config->domain);
	length = strlen(prefix);
	while (files && (entry = readdir(files))) {
		const char *name = entry->d_name;

		if (strncmp(name, prefix, length) != 0 ||
		    strlen(name) != length + IDS_KEY - 1 + strlen(".json"))
			continue;
		memcpy(key, name + length, IDS_KEY - 1);
		key[IDS_KEY - 1] = '\0';
		if (snprintf(path, sizeof(path), "%s/%s", p->config->cdi_folder, name) <
			    (int)sizeof(path) &&
		    !binding_store_find(&p->bindings, key) && is_ours(p, path))
			unlink(path);
	}
	if (files)
		closedir(files);
}

void slots_refresh(struct plugin *p)
{
	struct fault why;

	list_for_each(link, &p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (!b->absent && slots_make(p, b, &why) < 0)
			log_warning("slot.unwritten", "slot=%s reason=%s", b->key,
				    log_text(why.text).text);
	}
}

void slots_restore(struct plugin *p)
{
	slots_refresh(p);
	sweep_links(p);
	if (may_use_cdi(p))
		sweep_cdi(p);
}
