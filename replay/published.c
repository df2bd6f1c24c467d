/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/published.h"

#include <math.h>
#include <string.h>

#include "replay/csv.h"

enum { CELLS = 256 };

static const char *const policies[PUBLISHED_POLICIES] = {
	[CLUSTER_RANDOM] = "01-Random",
	[PLACEMENT_DOT] = "02-DotProd",
	[PLACEMENT_CLUSTERING] = "03-GpuClustering",
	[PLACEMENT_PACKING] = "04-GpuPacking",
	[PLACEMENT_BEST_FIT] = "05-BestFit",
	[PLACEMENT_FGD] = "06-FGD",
};

struct columns {
	int list, policy, asked; /* asked: how much of all GPUs the pods ask for */
	int percent[OPENB_PERCENT];
};

/* Missing cells are empty. */
static int split(char *line, const char *cells[CELLS])
{
	int n = 0;

	for (int i = 0; i < CELLS; i++)
		cells[i] = "";
	line[strcspn(line, "\r\n")] = '\0';
	while (line && n < CELLS)
		cells[n++] = strsep(&line, ",");
	return n;
}

static int find(const char *const *cells, int size, const char *name)
{
	for (int i = 0; i < size; i++)
		if (strcmp(cells[i], name) == 0)
			return i;
	return -1;
}

static int find_columns(char *line, const char *name, struct columns *ret, struct fault *why)
{
	const char *cells[CELLS];
	int n = split(line, cells);

	ret->list = find(cells, n, "workload");
	ret->policy = find(cells, n, "sc_policy");
	ret->asked = find(cells, n, "tune");
	if (ret->list < 0 || ret->policy < 0 || ret->asked < 0)
		return fault_set(why, -EINVAL,
				 "%s: columns workload, sc_policy and tune are needed", name);
	for (int i = 0; i < OPENB_PERCENT; i++) {
		char percent[8];

		snprintf(percent, sizeof(percent), "%d", i);
		ret->percent[i] = find(cells, n, percent);
		if (ret->percent[i] < 0)
			return fault_set(why, -EINVAL, "%s has no column '%d'", name, i);
	}
	return 0;
}

static int add_row(const struct columns *at, const char *const *cells, int size, const char *name,
		   struct published *curve, struct fault *why)
{
	for (int i = 0; i < OPENB_PERCENT; i++) {
		const char *text = at->percent[i] < size ? cells[at->percent[i]] : "";
		char *end;
		double value = strtod(text, &end);

		if (!*text || *end || !(value >= 0 && value <= 100))
			return fault_set(why, -EINVAL, "%s: '%s' is no percentage", name, text);
		/* Keeps the mean so far. */
		curve->percent[i] += (value - curve->percent[i]) / (curve->seeds + 1);
	}
	curve->seeds++;
	return 0;
}

static int policy_of(const char *spelling)
{
	for (int i = 0; i < PUBLISHED_POLICIES; i++)
		if (policies[i] && strcmp(policies[i], spelling) == 0)
			return i;
	return -1;
}

int published_read(FILE *file, const char *name, const char *list, struct published *ret_curves,
		   struct fault *why)
{
	static const char prefix[] = "openb_pod_list_";
	owned(free) char *line = NULL;
	const char *cells[CELLS];
	struct columns at = {0};
	size_t room = 0;
	int r;

	memset(ret_curves, 0, PUBLISHED_POLICIES * sizeof(*ret_curves));
	if (getline(&line, &room, file) < 0)
		return fault_set(why, -EINVAL, "%s is empty", name);
	r = find_columns(line, name, &at, why);
	while (r == 0 && getline(&line, &room, file) >= 0) {
		int n = split(line, cells), policy;

		if (at.list >= n || at.policy >= n || at.asked >= n)
			return fault_set(why, -EINVAL, "%s: a line is too short", name);
		policy = policy_of(cells[at.policy]);
		if (policy >= 0 && strcmp(cells[at.asked], "1.3") == 0 &&
		    strncmp(cells[at.list], prefix, strlen(prefix)) == 0 &&
		    strcmp(cells[at.list] + strlen(prefix), list) == 0)
			r = add_row(&at, cells, n, name, &ret_curves[policy], why);
	}
	return r;
}

int published_load(const char *folder, const char *kind, const char *list,
		   struct published *ret_curves, struct fault *why)
{
	owned(fclose) FILE *file = NULL;
	char path[4096];
	int r;

	memset(ret_curves, 0, PUBLISHED_POLICIES * sizeof(*ret_curves));
	snprintf(path, sizeof(path), "%s/published_%s.csv", folder, kind);
	r = csv_open(path, &file, why);
	if (r == -ENOENT)
		return 0;
	return r < 0 ? r : published_read(file, path, list, ret_curves, why);
}
