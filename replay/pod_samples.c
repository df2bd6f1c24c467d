/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/pod_samples.h"

#include <stdlib.h>
#include <string.h>

#include "replay/csv.h"

enum { LINE_MOST = 256 };

static const char header[] = "t_s,pod,duty,memory_bytes";

void pod_samples_done(struct pod_samples *samples)
{
	free(samples->row);
	*samples = (struct pod_samples){0};
}

static int add(struct pod_samples *all, size_t *room, const struct pod_sample *sample)
{
	if (all->size == *room) {
		size_t more = *room ? 2 * *room : 4096;
		struct pod_sample *row = realloc(all->row, more * sizeof(*row));

		if (!row)
			return -ENOMEM;
		all->row = row;
		*room = more;
	}
	all->row[all->size++] = *sample;
	return 0;
}

static int by_pod(const void *a, const void *b)
{
	const struct pod_sample *x = a, *y = b;

	if (x->pod != y->pod)
		return x->pod < y->pod ? -1 : 1;
	return x->at_s < y->at_s ? -1 : x->at_s > y->at_s;
}

static int parse(const char *line, struct pod_sample *ret)
{
	unsigned long long at, memory;
	double duty;

	if (sscanf(line, "%llu,%u,%lf,%llu", &at, &ret->pod, &duty, &memory) != 4 ||
	    !(duty >= 0 && duty <= 100) || at > 1000000000 || memory > 1ull << 50)
		return -EINVAL;
	ret->at_s = at;
	ret->duty_milli = (uint32_t)(duty * 10 + 0.5);
	ret->memory = memory;
	return 0;
}

int pod_samples_read(FILE *file, const char *name, struct pod_samples *ret_samples,
		     struct fault *why)
{
	owned(pod_samples_done) struct pod_samples all = {0};
	struct pod_sample sample;
	char line[LINE_MOST];
	size_t room = 0;

	if (!fgets(line, sizeof(line), file) || strncmp(line, header, sizeof(header) - 1) != 0)
		return fault_set(why, -EINVAL, "%s: its first line is not %s", name, header);
	for (size_t number = 2; fgets(line, sizeof(line), file); number++) {
		if (parse(line, &sample) < 0)
			return fault_set(why, -EINVAL, "%s: line %zu is not a sample", name,
					 number);
		if (add(&all, &room, &sample) < 0)
			return fault_set(why, -ENOMEM, "out of memory");
	}
	if (!all.size)
		return fault_set(why, -EINVAL, "%s has no samples", name);
	qsort(all.row, all.size, sizeof(*all.row), by_pod);
	*ret_samples = all;
	all = (struct pod_samples){0};
	return 0;
}

int pod_samples_load(const char *path, struct pod_samples *ret_samples, struct fault *why)
{
	owned(fclose) FILE *file = NULL;
	int r = csv_open(path, &file, why);

	return r < 0 ? r : pod_samples_read(file, path, ret_samples, why);
}
