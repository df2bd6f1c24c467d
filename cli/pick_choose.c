/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/pick_choose.h"

static const char *const orders[] = {"first", "last", "random", "load", "memory", "memory-free"};

int pick_parse_order(const char *text, enum pick_order *ret_order, struct fault *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		if (strcmp(text, orders[i]) == 0) {
			*ret_order = (enum pick_order)i;
			return 0;
		}
	}
	return fault_set(
		why, -EINVAL,
		"--order '%s': first, last, random, load, memory or memory-free is accepted", text);
}

/* A GPU that could not be asked may have any UUID. */
static bool is_here(const char *name, const struct pick_gpu *gpus, size_t size, size_t count)
{
	size_t digits = strspn(name, "0123456789");

	if (digits && !name[digits])
		return (*name != '0' || digits == 1) && strtoul(name, NULL, 10) < count;
	for (size_t i = 0; i < size; i++)
		if (text_uuid_begins(gpus[i].uuid, name))
			return true;
	return size < count && (strncmp(name, "GPU-", 4) == 0 || strncmp(name, "MIG-", 4) == 0);
}

int pick_check_exclude(const char *list, const struct pick_gpu *gpus, size_t size, size_t count,
		       struct fault *why)
{
	while (list) {
		size_t n = strcspn(list, ",");
		char name[sizeof(gpus->uuid)];

		snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : sizeof(name)),
			 list);
		if (!is_here(name, gpus, size, count))
			return fault_set(why, -ENODEV,
					 "--exclude: there is no '%s'; accepted: UUIDs and indices "
					 "below %zu (`mete ps` lists them)",
					 name, count);
		list = list[n] ? list + n + 1 : NULL;
	}
	return 0;
}

static bool excluded(const struct pick_gpu *gpu, const char *list)
{
	char index[16];

	snprintf(index, sizeof(index), "%u", gpu->index);
	while (list && *list) {
		size_t n = strcspn(list, ",");
		char name[sizeof(gpu->uuid)];

		snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : 0), list);
		if (strcmp(name, index) == 0 || text_uuid_begins(gpu->uuid, name))
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

size_t pick_left(const struct pick_criteria *criteria, const struct pick_gpu *gpus, size_t size)
{
	size_t left = 0;

	for (size_t i = 0; i < size; i++)
		left += !excluded(&gpus[i], criteria->exclude);
	return left;
}

/* In bytes, or as a part of the GPU's own memory. */
static bool has_free(const struct pick_gpu *gpu, const struct pick_criteria *criteria)
{
	uint64_t least = criteria->memory_free.bytes;

	if (!least && !criteria->memory_free.milli)
		return true;
	if (!least)
		return (double)gpu->free_bytes * 1000 >=
		       (double)gpu->memory_bytes * criteria->memory_free.milli;
	return gpu->free_bytes >= least;
}

enum fit { FITS, EXCLUDED, UNSAID, LOADED, FULL, LACKING };

static enum fit fit(const struct pick_gpu *gpu, const struct pick_criteria *criteria)
{
	if (excluded(gpu, criteria->exclude))
		return EXCLUDED;
	if ((isnan(gpu->load) || isnan(gpu->memory)) && !criteria->include_nan)
		return UNSAID;
	/* What is not said is no number, which no comparison holds for. */
	if (gpu->load >= criteria->max_load)
		return LOADED;
	if (gpu->memory >= criteria->max_memory)
		return FULL;
	return isnan(gpu->memory) || has_free(gpu, criteria) ? FITS : LACKING;
}

/* Smaller is better; GPUs that do not say come last. */
static double rank(const struct pick_gpu *gpu, enum pick_order order, uint64_t (*random)(void))
{
	double used = order == PICK_LOAD ? gpu->load : gpu->memory;

	switch (order) {
	case PICK_FIRST:
		return gpu->index;
	case PICK_LAST:
		return -(double)gpu->index;
	case PICK_RANDOM:
		return (double)(random() >> 12);
	case PICK_MEMORY_FREE:
		return isnan(used) ? INFINITY : -(double)gpu->free_bytes;
	case PICK_LOAD:
	case PICK_MEMORY:
		return isnan(used) ? INFINITY : used;
	}
	return 0;
}

size_t pick_choose(const struct pick_gpu *gpus, size_t size, const struct pick_criteria *criteria,
		   uint64_t (*random)(void), size_t ret_chosen[PICK_GPUS])
{
	double ranks[PICK_GPUS];
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		const struct pick_gpu *gpu = &gpus[i];
		size_t at = n;
		double mine;

		if (fit(gpu, criteria) != FITS)
			continue;
		mine = rank(gpu, criteria->order, random);
		for (; at > 0 && mine < ranks[at - 1]; at--) {
			ranks[at] = ranks[at - 1];
			ret_chosen[at] = ret_chosen[at - 1];
		}
		ranks[at] = mine;
		ret_chosen[at] = i;
		n++;
	}
	return n;
}

static void say_cause(enum fit cause, const struct pick_criteria *criteria, char *ret_text,
		      size_t room)
{
	switch (cause) {
	case LOADED:
		snprintf(ret_text, room, "load not below %g %% (--max-load)",
			 criteria->max_load * 100);
		break;
	case FULL:
		snprintf(ret_text, room, "memory in use not below %g %% (--max-memory)",
			 criteria->max_memory * 100);
		break;
	case LACKING:
		snprintf(ret_text, room, "less memory free than --memory-free");
		break;
	case UNSAID:
		snprintf(ret_text, room, "the driver does not say (--include-nan)");
		break;
	case FITS:
	case EXCLUDED:
		*ret_text = '\0';
		break;
	}
}

void pick_say_unfit(const struct pick_criteria *criteria, const struct pick_gpu *gpus, size_t size,
		    char *ret_text, size_t room)
{
	size_t used = 0;

	*ret_text = '\0';
	for (enum fit cause = UNSAID; cause <= LACKING; cause++) {
		char said[80], index[16];
		size_t found = 0;

		say_cause(cause, criteria, said, sizeof(said));
		for (size_t i = 0; i < size && used < room; i++) {
			if (fit(&gpus[i], criteria) != cause)
				continue;
			snprintf(index, sizeof(index), "%s%u", found++ ? "," : ": ", gpus[i].index);
			used += (size_t)snprintf(ret_text + used, room - used, "%s%s%s",
						 found == 1 && used ? "; " : "",
						 found == 1 ? said : "", index);
		}
	}
}
