/* SPDX-License-Identifier: Apache-2.0 */
/* Which pod's seat a binding belongs to, for who asks about all of them. */
#include <string.h>

#include "plugin/sums/seats_inside.h"

static int compare_names(const char *namespace, const char *pod, const struct seat *seat)
{
	int r = strcmp(pod, seat->pod);

	return r ? r : strcmp(namespace, seat->namespace);
}

static int by_uid(const void *a, const void *b)
{
	const struct seat *const *one = a, *const *other = b;

	return strcmp((*one)->own_uid, (*other)->own_uid);
}

static int by_pod(const void *a, const void *b)
{
	const struct seat *const *one = a, *const *other = b;

	return strcmp((*one)->uid, (*other)->uid);
}

static int by_name(const void *a, const void *b)
{
	const struct seat *const *one = a, *const *other = b;

	return compare_names((*one)->namespace, (*one)->pod, *other);
}

static int uid_to_seat(const void *binding, const void *seat)
{
	const struct binding *b = binding;

	return strcmp(b->uid, (*(const struct seat *const *)seat)->own_uid);
}

static int pod_to_seat(const void *pod, const void *seat)
{
	return strcmp(((const struct pod *)pod)->uid, (*(const struct seat *const *)seat)->uid);
}

static int name_to_seat(const void *binding, const void *seat)
{
	const struct binding *b = binding;

	return compare_names(b->namespace, b->pod, *(const struct seat *const *)seat);
}

int seats_index_make(const struct seats *seats, struct seats_index *ret_index)
{
	struct seats_index index = {.count = 0};
	size_t at = 0;

	list_for_each(link, (struct list *)&seats->all) index.count++;
	index.by_pod = calloc(3 * index.count + 1, sizeof(struct seat *));
	if (!index.by_pod)
		return -ENOMEM;
	index.by_uid = index.by_pod + index.count;
	index.by_name = index.by_uid + index.count;
	list_for_each(link, (struct list *)&seats->all)
	{
		index.by_pod[at] = index.by_uid[at] = index.by_name[at] =
			list_entry(link, struct seat, link);
		at++;
	}
	qsort(index.by_pod, index.count, sizeof(struct seat *), by_pod);
	qsort(index.by_uid, index.count, sizeof(struct seat *), by_uid);
	qsort(index.by_name, index.count, sizeof(struct seat *), by_name);
	*ret_index = index;
	return 0;
}

void seats_index_free(struct seats_index *index)
{
	free(index->by_pod);
}

/* Names of pods are reused: if the UID is known, it decides, as in seats_are_of(). */
struct seat *seats_index_find(const struct seats_index *index, const struct binding *b)
{
	struct seat **found = bsearch(b, *b->uid ? index->by_uid : index->by_name, index->count,
				      sizeof(struct seat *), *b->uid ? uid_to_seat : name_to_seat);

	return found ? *found : NULL;
}

bool seats_index_has(const struct seats_index *index, const struct pod *pod)
{
	struct seat **found =
		bsearch(pod, index->by_pod, index->count, sizeof(struct seat *), pod_to_seat);

	return found && (*found)->is.seated;
}
