/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/binding_store.h"

#include <string.h>

#include "base/records.h"

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

static int write_down(const struct binding_store *store, const struct binding *b,
		      const struct host *host, struct fault *why)
{
	owned(free) char *text = binding_describe(b, host);

	return records_write(store->folder, b->key, text, why);
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
	struct fault why;

	/* A record that stays is of a container that is gone: sweep.c finds that again. */
	best_effort(records_remove(store->folder, binding->key, &why));
	store->count--;
	binding_free(binding);
}

struct reading {
	struct binding_store *store;
	const struct host *host;
};

static bool is_name(const char *name)
{
	return strlen(name) == IDS_KEY - 1;
}

static int read_one(void *owner, const char *name, const char *text, size_t size)
{
	struct reading *reading = owner;
	struct binding *b;
	int r = binding_parse(name, text, size, reading->host, &b);

	if (r != 0)
		return r;
	list_append(&reading->store->all, &b->link);
	reading->store->count++;
	return 0;
}

/* A record that is no binding may go: the kubelet asks again before it starts a container. */
int binding_store_open(struct binding_store *store, const char *folder, const struct host *host,
		       struct fault *why)
{
	static const struct records_reader reader = {is_name, read_one, "binding.lost"};
	struct reading reading = {.store = store, .host = host};

	list_init(&store->all);
	store->count = 0;
	store->folder = strdup(folder);
	if (!store->folder)
		return fault_set(why, -ENOMEM, "out of memory");
	return records_open(folder, &reader, &reading, why);
}

void binding_store_close(struct binding_store *store)
{
	if (!store->all.next)
		return;
	list_for_each(link, &store->all) binding_free(list_entry(link, struct binding, link));
	free(take(store->folder));
}
