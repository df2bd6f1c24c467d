/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/usual_pods.h"

#include <stdlib.h>

static int compare_requests(const struct placement_request *a, const struct placement_request *b)
{
	const struct placement_container *x = &a->container[0], *y = &b->container[0];

	if (x->cpu_milli != y->cpu_milli)
		return x->cpu_milli < y->cpu_milli ? -1 : 1;
	if (x->compute_milli != y->compute_milli)
		return x->compute_milli < y->compute_milli ? -1 : 1;
	if (x->devices != y->devices)
		return x->devices < y->devices ? -1 : 1;
	if (a->models != b->models)
		return a->models < b->models ? -1 : 1;
	return (int)a->class - (int)b->class;
}

static int by_request(const void *a, const void *b)
{
	return compare_requests(&((const struct usual_pod *)a)->request,
				&((const struct usual_pod *)b)->request);
}

/* Sorts by frequency, the highest first. Among equals the larger request comes first, as in
 * the published simulator. */
static int by_count(const void *a, const void *b)
{
	const struct usual_pod *x = a, *y = b;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return compare_requests(&y->request, &x->request);
}

/* Counts equal requests. Returns how many different ones there are. */
static size_t count_equals(struct usual_pod *all, size_t size)
{
	size_t different = 0;

	for (size_t i = 0; i < size; i++)
		all[i].count = 1;
	qsort(all, size, sizeof(*all), by_request);
	for (size_t i = 0; i < size; i++) {
		if (different && by_request(&all[different - 1], &all[i]) == 0)
			all[different - 1].count++;
		else
			all[different++] = all[i];
	}
	qsort(all, different, sizeof(*all), by_count);
	return different;
}

int usual_pods_find(struct usual_pod *all, size_t size, unsigned percent,
		    struct usual_pods *ret_usuals)
{
	size_t different = count_equals(all, size), covered = 0;
	struct usual_pods it = {0};

	it.request = calloc(different + 1, sizeof(*it.request));
	it.count = calloc(different + 1, sizeof(*it.count));
	if (!it.request || !it.count) {
		usual_pods_done(&it);
		return -ENOMEM;
	}
	while (it.size < different && covered * 100 < size * percent) {
		it.request[it.size] = all[it.size].request;
		it.count[it.size] = all[it.size].count;
		covered += all[it.size++].count;
	}
	*ret_usuals = it;
	return 0;
}

void usual_pods_done(struct usual_pods *usuals)
{
	free(usuals->request);
	free(usuals->count);
}
