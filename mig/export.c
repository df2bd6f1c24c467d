/* SPDX-License-Identifier: Apache-2.0 */
#include "mig/export.h"

#include <string.h>

/* A row of the output: GPUs that are alike, and their models. */
struct row {
	struct mig_wish is;
	uint64_t device;
	uint32_t models, model[MIG_GPUS_MAX]; /* sorted, each once */
};

struct export
{
	uint32_t gpus, rows;
	uint32_t model[MIG_GPUS_MAX]; /* of each GPU */
	bool several;		      /* models */
	struct row row[MIG_GPUS_MAX];
	FILE *out;
};

static void add_model(struct row *row, uint32_t model)
{
	uint32_t at = 0;

	while (at < row->models && row->model[at] < model)
		at++;
	if (at < row->models && row->model[at] == model)
		return;
	memmove(&row->model[at + 1], &row->model[at], (row->models - at) * sizeof(*row->model));
	row->model[at] = model;
	row->models++;
}

static void sort_kinds(struct mig_wish *is)
{
	for (uint32_t i = 1; i < is->kinds; i++)
		for (uint32_t k = i; k && strcmp(is->kind[k - 1].name, is->kind[k].name) > 0; k--) {
			struct mig_count one = is->kind[k];

			is->kind[k] = is->kind[k - 1];
			is->kind[k - 1] = one;
		}
}

static void add_gpu(struct export *e, const struct mig_gpu *gpu)
{
	struct mig_wish is;
	uint32_t i = 0;

	mig_gpu_is(gpu, &is);
	sort_kinds(&is);
	e->model[gpu->index] = gpu->model.id;
	e->several |= gpu->model.id != e->model[0];
	while (i < e->rows && !mig_wish_same(&e->row[i].is, &is))
		i++;
	if (i == e->rows)
		e->row[e->rows++].is = is;
	e->row[i].device |= 1ull << gpu->index;
	add_model(&e->row[i], gpu->model.id);
}

/* Are these all GPUs of the row's models? */
static bool is_all(const struct export *e, const struct row *row)
{
	for (uint32_t i = 0; i < e->gpus; i++)
		for (uint32_t k = 0; k < row->models; k++)
			if (e->model[i] == row->model[k] && !(row->device >> i & 1))
				return false;
	return true;
}

static bool names_models(const struct export *e)
{
	return e->several && e->rows > 1;
}

static void print_devices(const struct export *e, const struct row *row)
{
	const char *comma = "";

	if (is_all(e, row)) {
		fputs("all", e->out);
		return;
	}
	putc('[', e->out);
	for (uint32_t i = 0; i < e->gpus; i++) {
		if (!(row->device >> i & 1))
			continue;
		fprintf(e->out, "%s%u", comma, i);
		comma = ", ";
	}
	putc(']', e->out);
}

static void print_models(const struct export *e, const struct row *row)
{
	const char *comma = "";

	if (row->models > 1)
		putc('[', e->out);
	for (uint32_t i = 0; i < row->models; i++, comma = ", ")
		fprintf(e->out, "%s\"0x%08X\"", comma, row->model[i]);
	if (row->models > 1)
		putc(']', e->out);
}

static void print_yaml(const struct export *e, const char *label)
{
	fprintf(e->out, "version: v1\nmig-configs:\n  %s:\n", label);
	for (uint32_t i = 0; i < e->rows; i++) {
		const struct row *row = &e->row[i];

		fputs("  - ", e->out);
		if (names_models(e)) {
			fputs("device-filter: ", e->out);
			print_models(e, row);
			fputs("\n    ", e->out);
		}
		fputs("devices: ", e->out);
		print_devices(e, row);
		fprintf(e->out, "\n    mig-enabled: %s\n    mig-devices:%s\n",
			row->is.enabled ? "true" : "false", row->is.kinds ? "" : " {}");
		for (uint32_t k = 0; k < row->is.kinds; k++)
			fprintf(e->out, "      %s: %u\n", row->is.kind[k].name,
				row->is.kind[k].count);
	}
}

static void print_json(const struct export *e, const char *label)
{
	fprintf(e->out, "{\n  \"version\": \"v1\",\n  \"mig-configs\": {\n    \"%s\": [", label);
	for (uint32_t i = 0; i < e->rows; i++) {
		const struct row *row = &e->row[i];
		bool all = is_all(e, row);

		fprintf(e->out, "%s\n      {\n", i ? "," : "");
		if (names_models(e)) {
			fputs("        \"device-filter\": ", e->out);
			print_models(e, row);
			fputs(",\n", e->out);
		}
		fprintf(e->out, "        \"devices\": %s", all ? "\"" : "");
		print_devices(e, row);
		fprintf(e->out, "%s,\n        \"mig-enabled\": %s,\n        \"mig-devices\": {",
			all ? "\"" : "", row->is.enabled ? "true" : "false");
		for (uint32_t k = 0; k < row->is.kinds; k++)
			fprintf(e->out, "%s\"%s\": %u", k ? ", " : "", row->is.kind[k].name,
				row->is.kind[k].count);
		fputs("}\n      }", e->out);
	}
	fputs("\n    ]\n  }\n}\n", e->out);
}

int mig_export(const struct mig_nvml *nvml, FILE *out, const char *label, bool json,
	       struct fault *why)
{
	owned(free) struct export *e = calloc(1, sizeof(*e));
	owned(free) struct mig_gpu *gpu = malloc(sizeof(*gpu));

	if (!e || !gpu)
		return fault_set(why, -ENOMEM, "out of memory");
	e->out = out;
	e->gpus = mig_count(nvml);
	for (uint32_t i = 0; i < e->gpus; i++) {
		int r = mig_read(nvml, i, gpu, why);

		if (r < 0)
			return r;
		add_gpu(e, gpu);
	}
	if (!e->rows)
		return fault_set(why, -ENODEV, "this machine has no GPU");
	(json ? print_json : print_yaml)(e, label);
	return 0;
}
