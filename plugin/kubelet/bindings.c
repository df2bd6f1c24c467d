/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/bindings.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/place.h"

enum { RECORD_MAX = 256 << 10 };

struct binding *bindings_find(struct bindings *bindings, const char *key)
{
	list_for_each(link, &bindings->all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		if (strcmp(b->key, key) == 0)
			return b;
	}
	return NULL;
}

struct binding *bindings_of_tenant(const struct bindings *bindings, uint32_t tenant)
{
	list_for_each(link, (struct list *)&bindings->all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		if (b->tenant == tenant)
			return b;
	}
	return NULL;
}

int binding_place(const struct binding *binding, uint32_t device)
{
	for (uint32_t i = 0; i < binding->devices; i++)
		if (binding->device[i] == device)
			return (int)i;
	return -1;
}

static void path_of(const struct bindings *bindings, const char *key, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s/%s", bindings->folder, key);
}

static int write_down(const struct bindings *bindings, const struct binding *b,
		      const struct host *host, struct fault *why)
{
	owned(free) char *text = binding_describe(b, host);
	char path[PATH_MAX];
	int r;

	if (!text)
		return fault_set(why, -ENOMEM, "out of memory");
	path_of(bindings, b->key, path);
	r = file_replace(path, text, strlen(text), 0600);
	return r < 0 ? fault_set(why, r, "%s: %s", path, strerror(-r)) : 0;
}

int bindings_put(struct bindings *bindings, struct binding *binding, const struct host *host,
		 struct fault *why)
{
	struct binding *was = bindings_find(bindings, binding->key);
	int r = write_down(bindings, binding, host, why);

	if (r < 0)
		return r;
	if (was)
		binding_free(was);
	else
		bindings->count++;
	list_append(&bindings->all, &binding->link);
	return 0;
}

void bindings_rewrite(struct bindings *bindings, const struct binding *binding,
		      const struct host *host)
{
	struct fault why;

	if (write_down(bindings, binding, host, &why) < 0)
		log_error("binding.unwritten", "reason=%s", log_text(why.text).text);
}

void bindings_drop(struct bindings *bindings, struct binding *binding)
{
	char path[PATH_MAX];

	path_of(bindings, binding->key, path);
	unlink(path);
	bindings->count--;
	binding_free(binding);
}

static int read_one(struct bindings *bindings, const char *name, const struct host *host)
{
	owned(free) char *text = NULL;
	struct binding *b;
	char path[PATH_MAX];
	size_t size;
	int r;

	path_of(bindings, name, path);
	r = file_slurp(path, RECORD_MAX, &text, &size);
	if (r == 0)
		r = binding_parse(name, text, size, host, &b);
	if (r != 0)
		return r;
	list_append(&bindings->all, &b->link);
	bindings->count++;
	return 0;
}

/* A record that cannot be parsed belongs to nobody: the kubelet asks again before it starts a
 * container. One that cannot be read now (no descriptors, no memory) is left where it is. */
static void read_file(struct bindings *bindings, const char *name, const struct host *host)
{
	int r = -EINVAL;
	char path[PATH_MAX];

	if (strlen(name) == IDS_KEY - 1)
		r = read_one(bindings, name, host);
	else if (strlen(name) != IDS_KEY - 1 + strlen(".new"))
		return; /* not a file of ours; one beside a record was left by a writer that was
			   killed */
	if (r == 0)
		return;
	if (strlen(name) == IDS_KEY - 1)
		log_warning("binding.lost", "file=%s reason=%s", log_text(name).text,
			    log_text(strerror(-r)).text);
	path_of(bindings, name, path);
	if (r == -EINVAL || r == -EFBIG)
		unlink(path);
}

int bindings_open(struct bindings *bindings, const char *folder, const struct host *host,
		  struct fault *why)
{
	struct dirent *entry;
	DIR *files;
	int r;

	list_init(&bindings->all);
	bindings->count = 0;
	bindings->folder = strdup(folder);
	if (!bindings->folder)
		return fault_set(why, -ENOMEM, "out of memory");
	r = place_make(folder, PLACE_PRIVATE, why);
	if (r < 0)
		return r;
	files = opendir(folder);
	if (!files)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	while ((entry = readdir(files)))
		read_file(bindings, entry->d_name, host);
	closedir(files);
	return 0;
}

void bindings_close(struct bindings *bindings)
{
	if (!bindings->all.next)
		return;
	list_for_each(link, &bindings->all) binding_free(list_entry(link, struct binding, link));
	free(take(bindings->folder));
}
