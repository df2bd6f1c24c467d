/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/mig.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MIG_SLICES = 8 };

static const struct mig_profile rows[] = {
#define PROFILE(...) {__VA_ARGS__},
#include "sim/machine/mig.def"
#undef PROFILE
};

const struct mig_profile *mig_row(uint32_t number)
{
	return number < ARRAY_SIZE(rows) ? &rows[number] : NULL;
}

const struct mig_profile *mig_next(const char *model, uint32_t number, uint32_t *ret_number)
{
	for (; number < ARRAY_SIZE(rows); number++) {
		if (strcmp(rows[number].model, model) != 0)
			continue;
		*ret_number = number;
		return &rows[number];
	}
	return NULL;
}

uint32_t mig_mask(const struct mig_profile *row, uint32_t start)
{
	return ((1u << row->size) - 1) << start;
}

bool mig_is_start(const struct mig_profile *row, uint32_t start)
{
	return start % row->step == 0 && start / row->step < row->places;
}

int mig_start(const struct mig_profile *row, uint32_t taken)
{
	for (uint32_t i = 0; i < row->places; i++)
		if (!(mig_mask(row, i * row->step) & taken))
			return (int)(i * row->step);
	return -1;
}

/* Ids of the whole, then of its halves, quarters and eighths: 0; 1, 2; 3 to 6; 7 to 14. */
uint32_t mig_instance(const struct mig_profile *row, uint32_t start)
{
	return MIG_SLICES / row->size - 1 + start / row->size;
}

void mig_shape(const struct mig_profile *row, const struct settings_device *gpu,
	       struct settings_device *ret_shape)
{
	uint64_t memory_mib = gpu->memory_bytes >> 20, model_mib = memory_mib;
	uint32_t sms = gpu->sms ? gpu->sms : 1, model_sms = sms;

	/* The parts' memory follows the GPU's size, if that was changed. */
	settings_model_size(gpu->model, &model_mib, &model_sms);
	*ret_shape = *gpu;
	snprintf(ret_shape->name, sizeof(ret_shape->name), "%.40s MIG %s", gpu->name, row->name);
	ret_shape->memory_bytes = row->memory_mib * memory_mib / model_mib << 20;
	ret_shape->sms = sms * row->sms / model_sms;
	if (!ret_shape->sms)
		ret_shape->sms = 1;
	ret_shape->l2_bytes = gpu->l2_bytes * row->size / MIG_SLICES;
	ret_shape->device_rate = gpu->device_rate * row->size / MIG_SLICES;
	ret_shape->instruction_rate = gpu->instruction_rate * ret_shape->sms / sms;
	ret_shape->nvlinks = 0;
}

/* ---- METE_SIM_PARTS: "0:7x1g.10gb;1:3g.40gb,2g.20gb" ---------------------------------------- */

struct reader {
	struct settings *settings;
	struct fault *why;
	const char *text;
	uint32_t gpu, taken;
};

static int refuse(const struct reader *r, const char *what)
{
	return fault_set(r->why, -EINVAL,
			 "METE_SIM_PARTS=%s: %s; wants GPU:COUNTxPROFILE,...;... such as "
			 "0:7x1g.10gb;1:3g.40gb,2g.20gb",
			 r->text, what);
}

static const struct mig_profile *named(const struct reader *r, const char *name, size_t length,
				       uint32_t *ret_number)
{
	const char *model = r->settings->devices[r->gpu].model;
	const struct mig_profile *row;

	for (uint32_t i = 0; (row = mig_next(model, i, ret_number)); i = *ret_number + 1)
		if (strlen(row->name) == length && strncasecmp(row->name, name, length) == 0)
			return row;
	return NULL;
}

static uint32_t count_of(const struct reader *r, uint32_t number)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->settings->part_count; i++)
		count += r->settings->parts[i].gpu == r->gpu &&
			 r->settings->parts[i].profile == number;
	return count;
}

static int add_part(struct reader *r, const struct mig_profile *row, uint32_t number)
{
	struct settings *settings = r->settings;
	int start = mig_start(row, r->taken);

	if (settings->part_count == SETTINGS_PARTS_MAX)
		return refuse(r, "there are too many parts in all");
	if (start < 0 || count_of(r, number) == row->most)
		return refuse(r, "the GPU has no room for all of its parts");
	r->taken |= mig_mask(row, (uint32_t)start);
	settings->parts[settings->part_count++] =
		(struct settings_part){r->gpu, number, (uint32_t)start};
	return 0;
}

/* "7x1g.10gb": so many of a profile. A profile begins with a digit, too, but has no x. */
static int read_profile(struct reader *r, const char *at, size_t length)
{
	const char *x = memchr(at, 'x', length);
	const struct mig_profile *row;
	unsigned long count = 1;
	uint32_t number;
	char *end;
	int ret = 0;

	if (x) {
		count = strtoul(at, &end, 10);
		if (end != x || count == 0 || count > MIG_PARTS)
			return refuse(r, "a GPU has from 1 to 7 parts");
		length -= (size_t)(x + 1 - at);
		at = x + 1;
	}
	row = named(r, at, length, &number);
	if (!row)
		return refuse(r, "the GPU's model has no such profile");
	while (count-- && ret == 0)
		ret = add_part(r, row, number);
	return ret;
}

static int read_gpu(struct reader *r, const char *at, size_t length)
{
	const char *end = at + length;
	char *colon;
	unsigned long gpu;
	int ret = 0;

	if (*at < '0' || *at > '9')
		return refuse(r, "a GPU is a number");
	gpu = strtoul(at, &colon, 10);
	if (*colon != ':' || gpu >= r->settings->device_count)
		return refuse(r, "there is no such GPU");
	r->gpu = (uint32_t)gpu;
	r->taken = 0;
	for (uint32_t i = 0; i < r->settings->part_count; i++)
		if (r->settings->parts[i].gpu == r->gpu)
			return refuse(r, "a GPU is named twice");
	for (at = colon + 1; ret == 0; at++) {
		size_t n = strcspn(at, ",;");

		ret = read_profile(r, at, n);
		at += n;
		if (at == end)
			break;
	}
	return ret;
}

int mig_load(struct settings *settings, struct fault *why)
{
	struct reader r = {.settings = settings, .why = why, .text = getenv("METE_SIM_PARTS")};
	int ret = 0;

	for (const char *at = r.text; at && *at && ret == 0;) {
		size_t length = strcspn(at, ";");

		ret = read_gpu(&r, at, length);
		at += length;
		at += *at == ';';
	}
	return ret;
}
