/* SPDX-License-Identifier: Apache-2.0 */
/* Which containers are bound, for who asks about those of all pods. */
#include <stdlib.h>
#include <string.h>

#include "plugin/sums/seats_inside.h"

/* A container by its pod's UID, or if that is "" by its pod's name. */
struct key {
	const char *uid, *namespace, *pod, *container;
};

static int compare(const struct key *a, const struct key *b)
{
	int r = strcmp(a->uid, b->uid);

	if (r == 0 && !*a->uid)
		r = strcmp(a->pod, b->pod);
	if (r == 0 && !*a->uid)
		r = strcmp(a->namespace, b->namespace);
	return r ? r : strcmp(a->container, b->container);
}

static struct key key_of(const struct binding *b)
{
	return (struct key){b->uid, b->namespace, b->pod, b->container};
}

static int by_key(const void *a, const void *b)
{
	const struct key one = key_of(*(const struct binding *const *)a);
	const struct key other = key_of(*(const struct binding *const *)b);

	return compare(&one, &other);
}

static int key_to_row(const void *key, const void *row)
{
	const struct key own = key_of(*(const struct binding *const *)row);

	return compare(key, &own);
}

int seats_bound_make(const struct plugin *p, struct seats_bound *ret_bound)
{
	struct seats_bound bound = {.row = calloc(p->bindings.count + 1, sizeof(*bound.row))};

	if (!bound.row)
		return -ENOMEM;
	list_for_each(link, (struct list *)&p->bindings.all) bound.row[bound.count++] =
		list_entry(link, struct binding, link);
	qsort(bound.row, bound.count, sizeof(*bound.row), by_key);
	*ret_bound = bound;
	return 0;
}

void seats_bound_free(struct seats_bound *bound)
{
	free(bound->row);
}

static bool has(const struct seats_bound *bound, const struct key *key)
{
	return bsearch(key, bound->row, bound->count, sizeof(*bound->row), key_to_row);
}

bool seats_bound_has(const struct seats_bound *bound, const struct pod *pod, const char *container)
{
	const struct key own = {pod->mirrored ? pod->mirrored : pod->uid, "", "", container};
	const struct key named = {"", pod->namespace, pod->name, container};

	return has(bound, &own) || has(bound, &named);
}
