/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/binding_store.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/place.h"

enum { RECORD_MAX = 256 << 10 };

struct binding *binding_store_find(struct binding_store *store, const char *key)
{
	list_for_each(link, &store->all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		if (strcmp(b->key, key) == 0)
			return b;
	}
	return NULL;
}

struct binding *binding_store_of_tenant(const struct binding_store *store, uint32_t tenant)
{
	list_for_each(link, (struct list *)&store->all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		if (b->tenant == tenant)
			return b;
	}
	return NULL;
}

static void path_of(const struct binding_store *store, const char *key, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s/%s", store->folder, key);
}

static int write_down(const struct binding_store *store, const struct binding *b,
		      const struct host *host, struct fault *why)
{
	owned(free) char *text = binding_describe(b, host);
	char path[PATH_MAX];
	int r;

	if (!text)
		return fault_set(why, -ENOMEM, "out of memory");
	path_of(store, b->key, path);
	r = file_replace(path, text, strlen(text), 0600);
	return r < 0 ? fault_set(why, r, "%s: %s", path, strerror(-r)) : 0;
}

int binding_store_put(struct binding_store *store, struct binding *binding, const struct host *host,
		      struct fault *why)
{
	struct binding *was = binding_store_find(store, binding->key);
	int r = write_down(store, binding, host, why);

	if (r < 0)
		return r;
	if (was)
		binding_free(was);
	else
		store->count++;
	list_append(&store->all, &binding->link);
	return 0;
}

void binding_store_rewrite(struct binding_store *store, const struct binding *binding,
			   const struct host *host)
{
	struct fault why;

	if (write_down(store, binding, host, &why) < 0)
		log_error("binding.unwritten", "reason=%s", log_text(why.text).text);
}

void binding_store_drop(struct binding_store *store, struct binding *binding)
{
	char path[PATH_MAX];

	path_of(store, binding->key, path);
	unlink(path);
	store->count--;
	binding_free(binding);
}

static int read_one(struct binding_store *store, const char *name, const struct host *host)
{
	owned(free) char *text = NULL;
	struct binding *b;
	char path[PATH_MAX];
	size_t size;
	int r;

	path_of(store, name, path);
	r = file_slurp(path, RECORD_MAX, &text, &size);
	if (r == 0)
		r = binding_parse(name, text, size, host, &b);
	if (r != 0)
		return r;
	list_append(&store->all, &b->link);
	store->count++;
	return 0;
}

/* A record that cannot be parsed belongs to nobody: the kubelet asks again before it starts a
 * container. One that cannot be read now (no descriptors, no memory) is left where it is. */
static void read_file(struct binding_store *store, const char *name, const struct host *host)
{
	int r = -EINVAL;
	char path[PATH_MAX];

	if (strlen(name) == IDS_KEY - 1)
		r = read_one(store, name, host);
	else if (strlen(name) != IDS_KEY - 1 + strlen(".new"))
		return; /* not a file of ours; one beside a record was left by a writer that was
			   killed */
	if (r == 0)
		return;
	if (strlen(name) == IDS_KEY - 1)
		log_warning("binding.lost", "file=%s reason=%s", log_text(name).text,
			    log_text(strerror(-r)).text);
	path_of(store, name, path);
	if (r == -EINVAL || r == -EFBIG)
		unlink(path);
}

int binding_store_open(struct binding_store *store, const char *folder, const struct host *host,
		       struct fault *why)
{
	struct dirent *entry;
	DIR *files;
	int r;

	list_init(&store->all);
	store->count = 0;
	store->folder = strdup(folder);
	if (!store->folder)
		return fault_set(why, -ENOMEM, "out of memory");
	r = place_make(folder, PLACE_PRIVATE, why);
	if (r < 0)
		return r;
	files = opendir(folder);
	if (!files)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	while ((entry = readdir(files)))
		read_file(store, entry->d_name, host);
	closedir(files);
	return 0;
}

void binding_store_close(struct binding_store *store)
{
	if (!store->all.next)
		return;
	list_for_each(link, &store->all) binding_free(list_entry(link, struct binding, link));
	free(take(store->folder));
}
