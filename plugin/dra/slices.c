/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/slices.h"

#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "kube/json.h"
#include "plugin/dra/counters.h"
#include "plugin/kubelet/numa.h"

/*
 * A trap: Kubernetes checks that a default and a maximum are so many steps above the minimum, but
 * rounds a request to a multiple of the step. So the minimum is a multiple of the step, too.
 */
#define MEMORY_STEP (UINT64_C(1) << 20)
/* Less would hold no context of a program; it is raised to that. */
#define MEMORY_LEAST (256 * MEMORY_STEP)

enum { COMPUTE_ALL = 100 };

/* Of a device, as attributes have it. */
struct made {
	char model[SLICES_TEXT_MAX + 1], capability[SLICES_VERSION], driver[SLICES_VERSION],
		cuda[SLICES_VERSION], pci[24];
};

static void make_texts(const struct slices_device *d, struct made *ret_made)
{
	*ret_made = (struct made){.pci = ""};
	snprintf(ret_made->model, sizeof(ret_made->model), "%.*s",
		 (int)text_fit(d->model, SLICES_TEXT_MAX), d->model);
	slices_version(d->driver, ret_made->driver);
	if (d->major > 0)
		snprintf(ret_made->capability, SLICES_VERSION, "%d.%d.0", d->major, d->minor);
	if (d->cuda > 0)
		snprintf(ret_made->cuda, SLICES_VERSION, "%d.%d.0", d->cuda / 1000,
			 d->cuda % 1000 / 10);
	if (numa_name(d->pci, ret_made->pci) < 0)
		*ret_made->pci = '\0';
}

static bool add_TEXT(cJSON *to, const char *name, const char *text)
{
	cJSON *value = *text ? cJSON_AddObjectToObject(to, name) : NULL;

	return !*text || (value && cJSON_AddStringToObject(value, "string", text));
}

static bool add_VERSION(cJSON *to, const char *name, const char *text)
{
	cJSON *value = *text ? cJSON_AddObjectToObject(to, name) : NULL;

	return !*text || (value && cJSON_AddStringToObject(value, "version", text));
}

static bool add_NUMBER(cJSON *to, const char *name, int64_t number)
{
	cJSON *value = number >= 0 ? cJSON_AddObjectToObject(to, name) : NULL;

	return number < 0 || (value && cJSON_AddNumberToObject(value, "int", (double)number));
}

static bool add_attributes(cJSON *device, const struct slices_device *d, const struct made *made)
{
	cJSON *to = cJSON_AddObjectToObject(device, "attributes");
	bool good = to;

#define ATTRIBUTE(name, kind, value) good = good && add_##kind(to, name, value);
#include "plugin/dra/attributes.def"
#undef ATTRIBUTE
	return good;
}

/* A whole number of units, "4096Mi". */
static bool add_amount(cJSON *to, const char *name, uint64_t amount, const char *unit)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu%s", (unsigned long long)amount, unit);
	return cJSON_AddStringToObject(to, name, text);
}

/* In steps, which are the unit. */
struct range {
	uint64_t value, least, most, usual;
	const char *unit;
};

static cJSON *add_capacity(cJSON *to, const char *name, const struct range *range)
{
	cJSON *capacity = cJSON_AddObjectToObject(to, name), *policy;

	if (!capacity || !add_amount(capacity, "value", range->value, range->unit))
		return NULL;
	policy = cJSON_AddObjectToObject(capacity, "requestPolicy");
	return policy && add_amount(policy, "default", range->usual, range->unit) ? policy : NULL;
}

static bool add_range(cJSON *to, const char *name, const struct range *range)
{
	cJSON *policy = add_capacity(to, name, range);
	cJSON *valid = policy ? cJSON_AddObjectToObject(policy, "validRange") : NULL;

	return valid && add_amount(valid, "min", range->least, range->unit) &&
	       add_amount(valid, "max", range->most, range->unit) &&
	       add_amount(valid, "step", 1, range->unit);
}

static bool add_capacities(cJSON *device, const struct slices_device *d)
{
	uint64_t all = d->total_bytes / MEMORY_STEP;
	/* One claim can have no more than there is, however much is promised to all of them. */
	const struct range memory = {.value = most(all, d->promised_bytes / MEMORY_STEP),
				     .least = least(MEMORY_LEAST / MEMORY_STEP, all / 2),
				     .most = all,
				     .usual = all,
				     .unit = "Mi"};
	const struct range compute = {COMPUTE_ALL, 1, COMPUTE_ALL, COMPUTE_ALL, ""};
	const struct range slots = {.value = d->slots, .usual = 1, .unit = ""};
	cJSON *to = cJSON_AddObjectToObject(device, "capacity"), *policy, *values;

	if (!to || !add_range(to, "memory", &memory) || !add_range(to, "compute", &compute))
		return false;
	policy = add_capacity(to, "slots", &slots);
	values = policy ? cJSON_AddArrayToObject(policy, "validValues") : NULL;
	return values && cJSON_AddItemToArray(values, cJSON_CreateString("1"));
}

static bool add_taint(cJSON *list, const struct slices_pool *pool, const struct slices_taint *t)
{
	cJSON *taint = cJSON_CreateObject();
	char key[80];

	if (!cJSON_AddItemToArray(list, taint)) {
		cJSON_Delete(taint);
		return false;
	}
	snprintf(key, sizeof(key), "%s/%s", pool->driver, t->key);
	return cJSON_AddStringToObject(taint, "key", key) &&
	       (!t->value || cJSON_AddStringToObject(taint, "value", t->value)) &&
	       cJSON_AddStringToObject(taint, "effect", t->effect);
}

static bool add_taints(cJSON *device, const struct slices_pool *pool, const struct slices_device *d)
{
	cJSON *list = d->taint[0].key ? cJSON_AddArrayToObject(device, "taints") : NULL;

	for (uint32_t i = 0; i < SLICES_TAINTS && d->taint[i].key; i++)
		if (!list || !add_taint(list, pool, &d->taint[i]))
			return false;
	return true;
}

static bool add_device(cJSON *list, const struct slices_pool *pool, const struct counters *counters,
		       const struct slices_device *d)
{
	cJSON *device = cJSON_CreateObject();
	char name[SLICES_NAME];
	struct made made;

	if (!cJSON_AddItemToArray(list, device)) {
		cJSON_Delete(device);
		return false;
	}
	slices_device_name(d->uuid, name);
	make_texts(d, &made);
	return cJSON_AddStringToObject(device, "name", name) &&
	       cJSON_AddTrueToObject(device, "allowMultipleAllocations") &&
	       add_attributes(device, d, &made) && add_capacities(device, d) &&
	       counters_consume(device, counters, d) && add_taints(device, pool, d);
}

/* A node that is removed takes its slices along. */
static bool add_owner(cJSON *meta, const struct slices_pool *pool)
{
	cJSON *list = cJSON_AddArrayToObject(meta, "ownerReferences");
	cJSON *owner = cJSON_CreateObject();

	if (!list || !cJSON_AddItemToArray(list, owner)) {
		cJSON_Delete(owner);
		return false;
	}
	return cJSON_AddStringToObject(owner, "apiVersion", "v1") &&
	       cJSON_AddStringToObject(owner, "kind", "Node") &&
	       cJSON_AddStringToObject(owner, "name", pool->node) &&
	       cJSON_AddStringToObject(owner, "uid", pool->node_uid) &&
	       cJSON_AddTrueToObject(owner, "controller");
}

static bool add_head(cJSON *slice, const struct slices_pool *pool, size_t index)
{
	cJSON *meta = cJSON_AddObjectToObject(slice, "metadata");
	char name[SLICES_POOL], full[SLICES_POOL + 24];

	slices_pool_name(pool->node, name);
	/* A name of its own: what was written twice is there once. */
	snprintf(full, sizeof(full), "%s-%zu", name, index);
	return cJSON_AddStringToObject(slice, "apiVersion", "resource.k8s.io/v1") &&
	       cJSON_AddStringToObject(slice, "kind", "ResourceSlice") && meta &&
	       cJSON_AddStringToObject(meta, "name", full) && add_owner(meta, pool);
}

static cJSON *add_spec(cJSON *slice, const struct slices_pool *pool, size_t slices)
{
	cJSON *spec = cJSON_AddObjectToObject(slice, "spec"), *of;
	char name[SLICES_POOL];

	slices_pool_name(pool->node, name);
	if (!spec || !cJSON_AddStringToObject(spec, "driver", pool->driver) ||
	    !cJSON_AddStringToObject(spec, "nodeName", pool->node))
		return NULL;
	of = cJSON_AddObjectToObject(spec, "pool");
	if (!of || !cJSON_AddStringToObject(of, "name", name) ||
	    !cJSON_AddNumberToObject(of, "generation", (double)pool->generation) ||
	    !cJSON_AddNumberToObject(of, "resourceSliceCount", (double)slices))
		return NULL;
	return spec;
}

/* The spec of the list's next slice; NULL: out of memory. */
static cJSON *add_slice(cJSON *list, const struct slices_pool *pool, size_t slices)
{
	cJSON *slice = cJSON_CreateObject();
	size_t index = (size_t)cJSON_GetArraySize(list);

	if (!cJSON_AddItemToArray(list, slice)) {
		cJSON_Delete(slice);
		return NULL;
	}
	return add_head(slice, pool, index) ? add_spec(slice, pool, slices) : NULL;
}

static bool add_devices(cJSON *spec, const struct slices_pool *pool,
			const struct counters *counters, const struct slices_device *devices,
			size_t count)
{
	cJSON *rows = spec ? cJSON_AddArrayToObject(spec, "devices") : NULL;
	bool good = rows;

	for (size_t i = 0; good && i < count; i++)
		good = add_device(rows, pool, counters, &devices[i]);
	return good;
}

static size_t most_of(const struct slices_device *devices, size_t count,
		      const struct counters *counters)
{
	for (size_t i = 0; i < count; i++)
		if (devices[i].taint[0].key)
			return SLICES_DEVICES_TAINTED_MAX;
	return counters->gpus ? SLICES_DEVICES_TAINTED_MAX : SLICES_DEVICES_MAX;
}

static size_t pieces(size_t count, size_t room)
{
	return (count + room - 1) / room;
}

cJSON *slices_describe(const struct slices_pool *pool, const struct slices_device *devices,
		       size_t count)
{
	cJSON *list = cJSON_CreateArray();
	struct counters counters;
	size_t room, of_devices, slices;
	bool good = list;

	counters_find(devices, count, &counters);
	room = most_of(devices, count, &counters);
	of_devices = count ? pieces(count, room) : 1;
	slices = of_devices + pieces(counters.gpus, COUNTERS_SETS_MAX);
	for (size_t i = 0; good && i < of_devices; i++)
		good = add_devices(add_slice(list, pool, slices), pool, &counters,
				   i ? devices + i * room : devices,
				   (size_t)least(room, count - i * room));
	for (size_t i = 0; good && i < counters.gpus; i += COUNTERS_SETS_MAX) {
		cJSON *spec = add_slice(list, pool, slices);

		good = spec &&
		       counters_add_sets(spec, &counters, i,
					 (size_t)least(COUNTERS_SETS_MAX, counters.gpus - i));
	}
	if (!good) {
		cJSON_Delete(list);
		return NULL;
	}
	return list;
}
