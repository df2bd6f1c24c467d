/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/active_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "plugin/config/choice.h"
#include "plugin/nodes.h"

/* As NVIDIA's plugin is without a file. */
static const char empty[] = "version: v1\n";

/* It may be a link, as are all files of a ConfigMap. */
static int read_file(const char *path, char **ret_text, size_t *ret_size)
{
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : file_slurp_from(fd, CONFIG_BYTES_MAX, ret_text, ret_size);
}

/* Why the file could not be read. */
static int blame_file(const char *path, int r, struct fault *why)
{
	if (r == -EFBIG)
		return fault_set(why, r,
				 "%s: the file has more than %d bytes; accepted: at most that many",
				 path, CONFIG_BYTES_MAX);
	return fault_set(why, r, "%s: %s", path, strerror(-r));
}

static bool is_folder(const char *path)
{
	struct stat info;

	return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

struct names {
	struct dirent **entry;
	int count;
};

static void names_owned(struct names *names)
{
	for (int i = 0; i < names->count; i++)
		free(names->entry[i]);
	free(names->entry);
}

/* A ConfigMap's folder has its text in a folder "..data", and links to it. */
static int is_name(const struct dirent *entry)
{
	return strncmp(entry->d_name, ".", 1) != 0 && entry->d_type != DT_DIR;
}

static const char *label_of(const struct config_place *place, const char *name)
{
	for (size_t i = 0; i < place->labels_count; i++)
		if (strcmp(place->labels[i].key, name) == 0)
			return place->labels[i].value;
	return NULL;
}

/* NULL: the empty configuration. The name is newly allocated. */
static int choose(const char *folder, const struct config_place *place, char **ret_name,
		  struct fault *why)
{
	owned(names) struct names names = {NULL, 0};
	owned(free) const char **list = NULL;
	const char *label = getenv("NODE_LABEL"), *name = NULL;
	struct config_choice choice = {
		.folder = folder,
		.value = label_of(place, label && *label ? label : CHOICE_LABEL),
		.usual = getenv("DEFAULT_CONFIG"),
		.fallbacks = getenv("FALLBACK_STRATEGIES"),
	};
	int r;

	names.count = scandir(folder, &names.entry, is_name, alphasort);
	if (names.count < 0)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	list = calloc((size_t)names.count + 1, sizeof(*list));
	if (!list)
		return fault_set(why, -ENOMEM, "out of memory");
	choice.names = list;
	for (int i = 0; names.entry && i < names.count; i++)
		list[choice.count++] = names.entry[i]->d_name;
	r = config_choose(&choice, &name, why);
	if (r < 0)
		return r;
	*ret_name = name ? strdup(name) : NULL;
	return name && !*ret_name ? fault_set(why, -ENOMEM, "out of memory") : 0;
}

/* Which file it is; "": the empty configuration. */
static int find(const struct plugin *p, const struct config_place *place, bool *ret_folder,
		char **ret_path, struct fault *why)
{
	owned(free) char *name = NULL;
	int r;

	*ret_folder = is_folder(p->config_path);
	if (!*ret_folder) {
		*ret_path = strdup(p->config_path);
		return *ret_path ? 0 : fault_set(why, -ENOMEM, "out of memory");
	}
	r = choose(p->config_path, place, &name, why);
	if (r < 0)
		return r;
	if (asprintf(ret_path, "%s%s%s", name ? p->config_path : "", name ? "/" : "",
		     name ? name : "") < 0)
		return fault_set(why, -ENOMEM, "out of memory");
	return 0;
}

static int read_empty(char **ret_text, size_t *ret_size, struct fault *why)
{
	*ret_text = strdup(empty);
	*ret_size = sizeof(empty) - 1;
	return *ret_text ? 0 : fault_set(why, -ENOMEM, "out of memory");
}

/* Sentences about an empty configuration, and the watch, name the folder. */
static int keep_file(struct plugin *p, const char *path, struct fault *why)
{
	char *file = NULL;

	if (asprintf(&file, "%s%s", *path ? path : p->config_path, *path ? "" : "/") < 0)
		return fault_set(why, -ENOMEM, "out of memory");
	free(p->config_file);
	p->config_file = file;
	return 0;
}

int active_file_read(struct plugin *p, const struct config_place *place, char **ret_text,
		     size_t *ret_size, struct fault *ret_unchosen, struct fault *why)
{
	owned(free) char *path = NULL;
	int r = find(p, place, &p->config_is_folder, &path, why);

	ret_unchosen->text[0] = '\0';
	if (r == -ENOENT && !nodes_known(p->nodes) && !p->settled) {
		*ret_unchosen = *why;
		r = 0;
	}
	if (r == 0)
		r = keep_file(p, path ? path : "", why);
	if (r < 0)
		return r;
	if (!path || !*path)
		return read_empty(ret_text, ret_size, why);
	r = read_file(path, ret_text, ret_size);
	return r < 0 ? blame_file(path, r, why) : 0;
}

/* In a folder another file may be the node's now. */
bool active_file_differs(struct plugin *p)
{
	owned(free) char *text = NULL;
	size_t size;
	int r, was = p->config_unread;

	if (p->config_is_folder || is_folder(p->config_path))
		return true;
	r = read_file(p->config_path, &text, &size);
	p->config_unread = r;
	return r == 0 ? !text_same(text, p->config_text) : r != was;
}
