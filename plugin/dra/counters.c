/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/counters.h"

#include <stdio.h>
#include <string.h>

#include "base/least.h"

bool counters_can_count(const struct slices_device *d)
{
	return d->is_part && d->slices.gpu_compute > 0 && d->slices.gpu_memory > 0 &&
	       d->slices.gpu_memory <= COUNTERS_MEMORY_MAX;
}

static const struct slices_device *find(const struct counters *c, uint32_t gpu)
{
	for (size_t i = 0; i < c->gpus; i++)
		if (c->part[i]->gpu == gpu)
			return c->part[i];
	return NULL;
}

static void take_place(struct counters *c, const struct slices_device *d)
{
	for (size_t i = 0; i < c->gpus; i++)
		if (c->part[i]->gpu == d->gpu && !c->part[i]->is_place)
			c->part[i] = d;
}

void counters_find(const struct slices_device *devices, size_t count, struct counters *ret)
{
	ret->gpus = 0;
	for (size_t i = 0; i < count && ret->gpus < COUNTERS_GPUS_MAX; i++)
		if (counters_can_count(&devices[i]) && !find(ret, devices[i].gpu))
			ret->part[ret->gpus++] = &devices[i];
	/* A place knows the engines, too. */
	for (size_t i = 0; i < count; i++)
		if (counters_can_count(&devices[i]) && devices[i].is_place)
			take_place(ret, &devices[i]);
}

static bool add_counter(cJSON *counters, const char *name, uint32_t value)
{
	cJSON *counter = cJSON_AddObjectToObject(counters, name);
	char text[16];

	snprintf(text, sizeof(text), "%u", value);
	return counter && cJSON_AddStringToObject(counter, "value", text);
}

static const char *const engine_names[MIG_ENGINES] = {
#define ENGINE(name, counter, field) [MIG_ENGINE_##name] = (counter),
#include "mig/engines.def"
#undef ENGINE
};

/* Memory from `first` to before `end`. A counter of which nothing is consumed is left out. */
static bool add_counters(cJSON *to, uint32_t first, uint32_t end, uint32_t compute,
			 const uint32_t engines[MIG_ENGINES])
{
	cJSON *counters = cJSON_AddObjectToObject(to, "counters");
	char name[32];
	bool good = counters && (!compute || add_counter(counters, "compute-slices", compute));

	for (uint32_t i = first; good && i < end; i++) {
		snprintf(name, sizeof(name), "memory-slice-%u", i);
		good = add_counter(counters, name, 1);
	}
	for (uint32_t i = 0; good && i < MIG_ENGINES; i++)
		good = !engines[i] || add_counter(counters, engine_names[i], engines[i]);
	return good;
}

static cJSON *append(cJSON *list)
{
	cJSON *row = cJSON_CreateObject();

	if (cJSON_AddItemToArray(list, row))
		return row;
	cJSON_Delete(row);
	return NULL;
}

static void name_set(uint32_t gpu, char ret_name[24])
{
	snprintf(ret_name, 24, "gpu-%u", gpu);
}

/* A part of the processors of a GPU instance shares its memory with the instance's others. */
static bool add_consumed(cJSON *row, const struct slices_device *d,
			 const struct slices_device *part)
{
	uint32_t all = part->slices.gpu_memory;
	uint32_t first = (uint32_t)least(d->slices.memory_first, all);

	if (!d->is_part)
		return add_counters(row, 0, all, part->slices.gpu_compute,
				    part->slices.gpu_engines);
	return add_counters(row, first, (uint32_t)least(first + d->slices.memory, all),
			    (uint32_t)least(d->slices.compute, part->slices.gpu_compute),
			    d->slices.engines);
}

bool counters_consume(cJSON *device, const struct counters *c, const struct slices_device *d)
{
	const struct slices_device *part = find(c, d->gpu);
	cJSON *list, *row;
	char name[24];

	if (!part || (d->is_part && !d->slices.compute && !d->slices.memory))
		return true;
	list = cJSON_AddArrayToObject(device, "consumesCounters");
	row = list ? append(list) : NULL;
	name_set(d->gpu, name);
	return row && cJSON_AddStringToObject(row, "counterSet", name) &&
	       add_consumed(row, d, part);
}

bool counters_add_sets(cJSON *spec, const struct counters *c, size_t first, size_t count)
{
	cJSON *list = cJSON_AddArrayToObject(spec, "sharedCounters"), *row;
	bool good = list;
	char name[24];

	for (size_t i = first; good && i < first + count; i++) {
		const struct slices_device *part = c->part[i];

		row = append(list);
		name_set(part->gpu, name);
		good = row && cJSON_AddStringToObject(row, "name", name) &&
		       add_counters(row, 0, part->slices.gpu_memory, part->slices.gpu_compute,
				    part->slices.gpu_engines);
	}
	return good;
}

bool counters_are_right(const char *version)
{
	unsigned major, minor;

	return sscanf(version, "v%9u.%9u.", &major, &minor) == 2 &&
	       (major > 1 || (major == 1 && minor >= 37));
}

bool counters_told(struct counters_server *server, const char *version, uint64_t now_ns)
{
	char was[sizeof(server->version)];

	server->answered = true;
	if (!version || !*version)
		return false;
	memcpy(was, server->version, sizeof(was));
	snprintf(server->version, sizeof(server->version), "%s", version);
	server->drops = false;
	server->due_ns = now_ns + COUNTERS_OLD_S * UINT64_C(1000000000);
	return strcmp(was, server->version) != 0;
}

bool counters_are_in(const cJSON *slice)
{
	const cJSON *spec = cJSON_GetObjectItemCaseSensitive(slice, "spec"), *device;

	if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(spec, "sharedCounters")) > 0)
		return true;
	cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(spec, "devices"))
	{
		if (cJSON_GetObjectItemCaseSensitive(device, "consumesCounters"))
			return true;
	}
	return false;
}
