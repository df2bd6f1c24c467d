/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "replay/csv.h"
#include "replay/trace.h"

enum { COLUMNS = 16 };

struct table {
	FILE *file;
	const char *path;
	char line[1024];
	int number;
	const char *const *names; /* the columns that are wanted */
	int wanted;
	int at[COLUMNS]; /* their positions; -1: the file does not have the column */
	const char *value[COLUMNS];
};

static int split(char *line, const char *cells[32])
{
	int n = 0;

	line[strcspn(line, "\r\n")] = '\0';
	while (line && n < 32)
		cells[n++] = strsep(&line, ",");
	return n;
}

static int open_table(struct table *t, const char *path, const char *const *names, int wanted,
		      int needed, struct fault *why)
{
	const char *cells[32];
	int n;

	t->path = path;
	t->names = names;
	t->wanted = wanted;
	t->number = 1;
	if (!fgets(t->line, sizeof(t->line), t->file))
		return fault_set(why, -EINVAL,
				 "%s is empty: a first line with column names is needed", path);
	n = split(t->line, cells);
	for (int i = 0; i < wanted; i++) {
		t->at[i] = -1;
		for (int k = 0; k < n; k++)
			if (strcmp(cells[k], names[i]) == 0)
				t->at[i] = k;
		if (t->at[i] < 0 && i < needed)
			return fault_set(why, -EINVAL, "%s has no column '%s'", path, names[i]);
	}
	return 0;
}

/* Returns 1: a row; 0: the end. */
static int next_row(struct table *t)
{
	const char *cells[32];
	int n;

	if (!fgets(t->line, sizeof(t->line), t->file))
		return 0;
	t->number++;
	n = split(t->line, cells);
	for (int i = 0; i < t->wanted; i++)
		t->value[i] = t->at[i] >= 0 && t->at[i] < n ? cells[t->at[i]] : "";
	return 1;
}

static int number(const struct table *t, int column, uint64_t most, uint32_t *ret_value,
		  struct fault *why)
{
	const char *text = t->value[column];
	char *end;
	unsigned long long value = strtoull(text, &end, 10);

	if (!*text && t->at[column] < 0)
		value = 0;
	else if (*text < '0' || *text > '9' || *end || value > most)
		return fault_set(why, -EINVAL,
				 "%s line %d: %s is '%s': a number up to %llu is needed", t->path,
				 t->number, t->names[column], text, (unsigned long long)most);
	*ret_value = (uint32_t)value;
	return 0;
}

static int find_model(struct replay_trace *trace, const char *name)
{
	for (uint32_t i = 0; i < trace->models_size; i++)
		if (strcmp(trace->models[i], name) == 0)
			return (int)i;
	if (trace->models_size == ARRAY_SIZE(trace->models) ||
	    strlen(name) >= sizeof(trace->models[0]))
		return -ENOSPC;
	strcpy(trace->models[trace->models_size], name);
	return (int)trace->models_size++;
}

/* Makes room for one more item, if necessary by doubling. */
static int grow(void *items, size_t size, size_t item)
{
	void *old, *more;

	if (size & (size - 1))
		return 0;
	memcpy(&old, items, sizeof(old));
	more = realloc(old, (size ? size * 2 : 1) * item);
	if (!more)
		return -ENOMEM;
	memcpy(items, &more, sizeof(more));
	return 0;
}

static int read_nodes(struct table *t, struct replay_trace *trace, struct fault *why)
{
	static const char *const names[] = {"cpu_milli", "memory_mib", "gpu", "model"};
	int r = open_table(t, t->path, names, 4, 4, why);

	while (r == 0 && next_row(t)) {
		struct replay_node node = {0};
		uint32_t gpus = 0;
		int model;

		r = grow(&trace->nodes, trace->nodes_size, sizeof(node));
		if (r == 0)
			r = number(t, 0, 1 << 30, &node.cpu_milli, why);
		if (r == 0)
			r = number(t, 1, 1 << 30, &node.memory_mib, why);
		if (r == 0)
			r = number(t, 2, 16, &gpus, why);
		if (r < 0)
			return r;
		model = find_model(trace, t->value[3]);
		if (model < 0)
			return fault_set(why, -EINVAL,
					 "%s line %d: model '%s': at most 64 models of 23 letters",
					 t->path, t->number, t->value[3]);
		node.gpus = (uint8_t)gpus;
		node.model = (uint8_t)model;
		trace->nodes[trace->nodes_size++] = node;
	}
	return r;
}

static int read_models(struct table *t, struct replay_trace *trace, char *text, uint64_t *ret_set,
		       struct fault *why)
{
	char *name;

	*ret_set = 0;
	while ((name = strsep(&text, "|"))) {
		int model = *name ? find_model(trace, name) : -1;

		if (*name && model < 0)
			return fault_set(why, -EINVAL,
					 "%s line %d: model '%s': at most 64 models of 23 letters",
					 t->path, t->number, name);
		if (*name)
			*ret_set |= 1ull << model;
	}
	return 0;
}

/* Returns 0 if the list does not state a lifetime, or not in seconds. */
static double read_lifetime(const struct table *t)
{
	char *created_end, *deleted_end;
	double created = strtod(t->value[6], &created_end);
	double deleted = strtod(t->value[7], &deleted_end);

	if (created_end == t->value[6] || *created_end || deleted_end == t->value[7] ||
	    *deleted_end || !(deleted > created) || !(deleted - created < 1e12))
		return 0;
	return deleted - created;
}

static int read_pods(struct table *t, struct replay_trace *trace, struct fault *why)
{
	static const char *const names[] = {"cpu_milli",     "memory_mib",   "num_gpu",
					    "gpu_milli",     "gpu_spec",     "qos",
					    "creation_time", "deletion_time"};
	int r = open_table(t, t->path, names, 8, 4, why);

	while (r == 0 && next_row(t)) {
		struct replay_pod pod = {0};
		char models[256];

		snprintf(models, sizeof(models), "%s", t->value[4]);
		r = grow(&trace->pods, trace->pods_size, sizeof(pod));
		if (r == 0)
			r = number(t, 0, 1 << 30, &pod.cpu_milli, why);
		if (r == 0)
			r = number(t, 1, 1 << 30, &pod.memory_mib, why);
		if (r == 0)
			r = number(t, 2, 16, &pod.gpus, why);
		if (r == 0 && pod.gpus)
			r = number(t, 3, 1000, &pod.gpu_milli, why);
		if (r == 0 && pod.gpus)
			r = read_models(t, trace, models, &pod.models, why);
		if (r < 0)
			return r;
		pod.lifetime_s = read_lifetime(t);
		pod.best_effort = strcmp(t->value[5], "BE") == 0;
		trace->pods[trace->pods_size++] = pod;
	}
	return r;
}

int replay_trace_read(FILE *nodes_file, const char *nodes_name, FILE *pods_file,
		      const char *pods_name, struct replay_trace *ret_trace, struct fault *why)
{
	struct replay_trace trace = {0};
	struct table nodes = {.path = nodes_name, .file = nodes_file};
	struct table pods = {.path = pods_name, .file = pods_file};
	int r;

	fault_set(why, -ENOMEM, "out of memory");
	r = read_nodes(&nodes, &trace, why);
	if (r == 0)
		r = read_pods(&pods, &trace, why);
	if (r == 0 && (!trace.nodes_size || !trace.pods_size))
		r = fault_set(why, -EINVAL, "%s has no rows",
			      trace.nodes_size ? pods_name : nodes_name);
	if (r < 0) {
		replay_trace_done(&trace);
		return r;
	}
	*ret_trace = trace;
	return 0;
}

int replay_trace_load(const char *nodes_csv, const char *pods_csv, struct replay_trace *ret_trace,
		      struct fault *why)
{
	owned(fclose) FILE *nodes = NULL, *pods = NULL;
	int r = csv_open(nodes_csv, &nodes, why);

	if (r == 0)
		r = csv_open(pods_csv, &pods, why);
	return r < 0 ? r : replay_trace_read(nodes, nodes_csv, pods, pods_csv, ret_trace, why);
}

void replay_trace_done(struct replay_trace *trace)
{
	free(trace->nodes);
	free(trace->pods);
	memset(trace, 0, sizeof(*trace));
}
