/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/place.h"
#include "kube/json.h"
#include "plugin/inject/inject_edits.h"

enum { HOOK_TIMEOUT_S = 30 }; /* it takes milliseconds; a machine may be busy */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_letter_or_digit(char c)
{
	return is_letter(c) || (c >= '0' && c <= '9');
}

/* Of `size` characters: letters, digits, and `more` between them. */
static bool is_name(const char *text, size_t size, const char *more)
{
	if (size == 0 || !is_letter_or_digit(text[0]) || !is_letter_or_digit(text[size - 1]))
		return false;
	for (size_t i = 0; i < size; i++)
		if (!is_letter_or_digit(text[i]) && !strchr(more, text[i]))
			return false;
	return true;
}

/* CDI's rules of version 0.5.0: a class has no dots. */
static bool is_valid(const char *kind, const char *name)
{
	size_t vendor = strcspn(kind, "/");
	const char *class = kind + vendor + 1;

	return kind[vendor] && is_letter(kind[0]) && is_name(kind, vendor, "_-.") &&
	       is_letter(class[0]) && is_name(class, strlen(class), "_-") &&
	       is_name(name, strlen(name), "_-.:");
}

int inject_cdi_file(const char *kind, const char *name, char *ret_name, size_t size)
{
	size_t vendor = strcspn(kind, "/");

	if (!is_valid(kind, name))
		return -EINVAL;
	/* Nothing else in a kind is a slash. */
	if (snprintf(ret_name, size, "%.*s-%s_%s.json", (int)vendor, kind, kind + vendor + 1,
		     name) >= (int)size)
		return -ENAMETOOLONG;
	return 0;
}

static int cdi_path(const char *folder, const char *kind, const char *name, char ret_path[PATH_MAX],
		    struct fault *why)
{
	char file[NAME_MAX + 1 - sizeof(".new")];
	int r = inject_cdi_file(kind, name, file, sizeof(file));

	if (r == -EINVAL)
		return fault_set(why, r, "'%s=%s' is not the name of a CDI device", kind, name);
	if (r == 0 && snprintf(ret_path, PATH_MAX, "%s/%s", folder, file) >= PATH_MAX)
		r = -ENAMETOOLONG;
	return r < 0 ? fault_set(why, r, "%s: the name of %s=%s's file is too long", folder, kind,
				 name)
		     : 0;
}

static bool add_text(cJSON *array, const char *text)
{
	cJSON *item = cJSON_CreateString(text);

	/* NULL is not added, and reported as such. */
	return cJSON_AddItemToArray(array, item);
}

static cJSON *add_object(cJSON *array)
{
	cJSON *item = cJSON_CreateObject();

	return cJSON_AddItemToArray(array, item) ? item : NULL;
}

static bool write_env(cJSON *to, const struct inject_edits *edits)
{
	cJSON *list = cJSON_AddArrayToObject(to, "env");
	bool good = list;

	for (uint32_t i = 0; good && i < edits->envs; i++) {
		owned(free) char *both = NULL;

		if (asprintf(&both, "%s=%s", edits->env[i].name, edits->env[i].value) < 0)
			both = NULL;
		good = both && add_text(list, both);
	}
	return good;
}

static bool write_node(cJSON *list, const char *from, const char *to)
{
	cJSON *node = add_object(list);

	return node && cJSON_AddStringToObject(node, "path", to) &&
	       cJSON_AddStringToObject(node, "hostPath", from) &&
	       cJSON_AddStringToObject(node, "permissions", "rw");
}

static bool write_nodes(cJSON *to, const struct inject_edits *edits)
{
	cJSON *list = edits->nodes ? cJSON_AddArrayToObject(to, "deviceNodes") : NULL;
	bool good = list || !edits->nodes;

	for (uint32_t i = 0; good && i < edits->nodes; i++)
		good = write_node(list, edits->node[i].from, edits->node[i].to);
	return good;
}

static bool write_mounts(cJSON *to, const struct inject_edits *edits)
{
	cJSON *list = cJSON_AddArrayToObject(to, "mounts");
	bool good = list;

	for (uint32_t i = 0; good && i < edits->mounts; i++) {
		const struct inject_mount *mount = &edits->mount[i];
		cJSON *item = add_object(list), *options;

		good = item && cJSON_AddStringToObject(item, "hostPath", mount->from) &&
		       cJSON_AddStringToObject(item, "containerPath", mount->to);
		options = good ? cJSON_AddArrayToObject(item, "options") : NULL;
		good = options && add_text(options, mount->writable ? "rw" : "ro") &&
		       add_text(options, "nosuid") && add_text(options, "nodev") &&
		       add_text(options, "bind") && add_text(options, "rprivate");
	}
	return good;
}

/* The first mount is the guest's. */
static bool write_hook(cJSON *to, const struct inject_edits *edits)
{
	cJSON *list = cJSON_AddArrayToObject(to, "hooks"), *hook, *arguments;

	hook = list ? add_object(list) : NULL;
	if (!hook || !cJSON_AddStringToObject(hook, "hookName", "createContainer") ||
	    !cJSON_AddStringToObject(hook, "path", edits->hook))
		return false;
	arguments = cJSON_AddArrayToObject(hook, "args");
	return arguments && add_text(arguments, "mete-hook") &&
	       add_text(arguments, edits->mount[0].from) &&
	       cJSON_AddNumberToObject(hook, "timeout", HOOK_TIMEOUT_S);
}

static bool write_edits(cJSON *to, const struct inject_edits *edits)
{
	cJSON *changes = cJSON_AddObjectToObject(to, "containerEdits");

	return changes && write_env(changes, edits) && write_nodes(changes, edits) &&
	       write_mounts(changes, edits) && write_hook(changes, edits);
}

/* The file's own edits are made once, however many of its devices a container has. */
static bool write_part(cJSON *list, const struct inject_slot *slot, uint32_t index)
{
	const struct inject_part *part = &slot->parts[index];
	cJSON *device = add_object(list), *changes, *env, *nodes;
	owned(free) char *name = NULL, *variable = NULL;

	if (!device || asprintf(&name, "%s-%u", slot->name, index) < 0 ||
	    asprintf(&variable, "METE_CLAIM=%s", slot->claim) < 0 ||
	    !cJSON_AddStringToObject(device, "name", name))
		return false;
	changes = cJSON_AddObjectToObject(device, "containerEdits");
	env = changes ? cJSON_AddArrayToObject(changes, "env") : NULL;
	if (!env || !add_text(env, variable))
		return false;
	nodes = part->node_count ? cJSON_AddArrayToObject(changes, "deviceNodes") : NULL;
	for (uint32_t i = 0; i < part->node_count; i++)
		if (!nodes || !write_node(nodes, part->nodes[i].from, part->nodes[i].to))
			return false;
	return true;
}

/* NVIDIA's program, which has a name for itself in either of its forms. */
static bool write_cache_hook(cJSON *to, const char *program)
{
	static const char *const words[] = {"hook", "update-ldcache", "--folder", PLACE_DRIVER};
	const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
	cJSON *list = cJSON_AddArrayToObject(to, "hooks"), *hook = list ? add_object(list) : NULL;
	cJSON *arguments;
	bool good;

	if (!hook || !cJSON_AddStringToObject(hook, "hookName", "createContainer") ||
	    !cJSON_AddStringToObject(hook, "path", program))
		return false;
	arguments = cJSON_AddArrayToObject(hook, "args");
	good = arguments && add_text(arguments, name);
	for (size_t i = strcmp(name, "nvidia-cdi-hook") == 0; good && i < ARRAY_SIZE(words); i++)
		good = add_text(arguments, words[i]);
	return good;
}

/* A device must have an edit: one without nodes repeats a common edit. */
static bool write_plain_device(cJSON *list, const struct inject_plain *plain)
{
	cJSON *device = add_object(list), *changes, *edits;

	if (!device || !cJSON_AddStringToObject(device, "name", plain->name))
		return false;
	changes = cJSON_AddObjectToObject(device, "containerEdits");
	edits = changes ? cJSON_AddArrayToObject(changes, plain->node_count ? "deviceNodes" : "env")
			: NULL;
	if (!edits)
		return false;
	for (uint32_t i = 0; i < plain->node_count; i++)
		if (!write_node(edits, plain->nodes[i].from, plain->nodes[i].to))
			return false;
	return plain->node_count || add_text(edits, "NVIDIA_VISIBLE_DEVICES=void");
}

static char *write_plain(const char *kind, const struct inject_edits *edits,
			 const struct inject_plain *devices, uint32_t count)
{
	owned(cJSON_Delete) cJSON *file = cJSON_CreateObject();
	cJSON *list, *changes;
	bool good;

	if (!file || !cJSON_AddStringToObject(file, "cdiVersion", "0.5.0") ||
	    !cJSON_AddStringToObject(file, "kind", kind))
		return NULL;
	list = cJSON_AddArrayToObject(file, "devices");
	good = list;
	for (uint32_t i = 0; good && i < count; i++)
		good = write_plain_device(list, &devices[i]);
	changes = good && edits ? cJSON_AddObjectToObject(file, "containerEdits") : NULL;
	if (edits)
		good = changes && write_env(changes, edits) && write_nodes(changes, edits) &&
		       write_mounts(changes, edits) &&
		       (!edits->hook || write_cache_hook(changes, edits->hook));
	return good ? cJSON_PrintUnformatted(file) : NULL;
}

static char *write_device(const struct inject_edits *edits, const struct inject_slot *slot)
{
	owned(cJSON_Delete) cJSON *file = cJSON_CreateObject();
	cJSON *list, *device;
	bool good;

	if (!file || !cJSON_AddStringToObject(file, "cdiVersion", "0.5.0") ||
	    !cJSON_AddStringToObject(file, "kind", slot->kind))
		return NULL;
	list = cJSON_AddArrayToObject(file, "devices");
	good = list;
	if (good && slot->parts) {
		for (uint32_t i = 0; good && i < slot->part_count; i++)
			good = write_part(list, slot, i);
		good = good && write_edits(file, edits);
	} else if (good) {
		device = add_object(list);
		good = device && cJSON_AddStringToObject(device, "name", slot->name) &&
		       write_edits(device, edits);
	}
	return good ? cJSON_PrintUnformatted(file) : NULL;
}

static void cJSON_free_owned(char **text)
{
	cJSON_free(*text);
}

/* `text` NULL: there was no memory for it. */
static int write_file(const char *folder, const char *path, const char *text, struct fault *why)
{
	int r;

	if (!text)
		return edits_fault(-ENOMEM, why);
	if (mkdir(folder, 0755) != 0 && errno != EEXIST)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	r = file_replace_unsynced(path, text, strlen(text), 0644);
	/* The umask does not count here: other users' runtimes read the file, too. */
	if (r == 0 && chmod(path, 0644) != 0)
		r = -errno;
	return r < 0 ? fault_set(why, r, "%s: %s", path, strerror(-r)) : 0;
}

int inject_write_cdi(const char *cdi_folder, const struct inject_edits *edits,
		     const struct inject_slot *slot, struct fault *why)
{
	owned(inject_free) struct inject_edits *whole = NULL;
	owned(cJSON_free) char *text = NULL;
	char path[PATH_MAX];
	int r = cdi_path(cdi_folder, slot->kind, slot->name, path, why);

	if (r < 0)
		return r;
	if (!edits->hook || !edits->mounts)
		return fault_set(why, -EINVAL,
				 "%s: without the hook a container would not be protected", path);
	r = edits_copy(edits, &whole);
	if (r == 0)
		r = edits_slot(whole, slot);
	if (r < 0)
		return edits_fault(r, why);
	text = write_device(whole, slot);
	return write_file(cdi_folder, path, text, why);
}

int inject_write_plain(const char *cdi_folder, const char *kind, const struct inject_edits *edits,
		       const struct inject_plain *devices, uint32_t count, struct fault *why)
{
	owned(cJSON_free) char *text = write_plain(kind, edits, devices, count);
	char path[PATH_MAX];
	size_t vendor = strcspn(kind, "/");

	for (uint32_t i = 0; i < count; i++)
		if (!is_valid(kind, devices[i].name))
			return fault_set(why, -EINVAL, "'%s=%s' is not the name of a CDI device",
					 kind, devices[i].name);
	if (snprintf(path, sizeof(path), "%s/%.*s-%s.json", cdi_folder, (int)vendor, kind,
		     kind + vendor + 1) >= (int)sizeof(path))
		return fault_set(why, -ENAMETOOLONG, "%s: too long", cdi_folder);
	return write_file(cdi_folder, path, text, why);
}

bool inject_has_cdi(const char *cdi_folder, const char *kind, const char *name)
{
	char path[PATH_MAX];
	struct fault why;

	return cdi_path(cdi_folder, kind, name, path, &why) == 0 && access(path, F_OK) == 0;
}

int inject_remove_cdi(const char *cdi_folder, const char *kind, const char *name, struct fault *why)
{
	char path[PATH_MAX];
	int r = cdi_path(cdi_folder, kind, name, path, why);

	if (r < 0)
		return r;
	if (unlink(path) != 0 && errno != ENOENT)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	return 0;
}
