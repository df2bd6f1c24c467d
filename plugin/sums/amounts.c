/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/sums/amounts.h"

#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "kube/json.h"
#include "plugin/quantity.h"

enum { LEAST_BYTES = 1 << 20, MILLI_ALL = 1000 };

void amounts_name(struct amounts_names *names, const char *resource, const char *domain)
{
	snprintf(names->gpu, AMOUNTS_NAME, "%s", resource);
	snprintf(names->memory, AMOUNTS_NAME, "%s/gpu-memory", domain);
	snprintf(names->milli, AMOUNTS_NAME, "%s/gpu-milli", domain);
}

/* Requests of extended resources are their limits; the API server fills in the one from the
 * other. */
static void take_one(const cJSON *resources, const char *name, char ret_text[AMOUNTS_TEXT])
{
	const char *text = json_text(cJSON_GetObjectItemCaseSensitive(resources, "requests"), name);

	if (!text)
		text = json_text(cJSON_GetObjectItemCaseSensitive(resources, "limits"), name);
	snprintf(ret_text, AMOUNTS_TEXT, "%s", text ? text : "");
}

void amounts_take(const cJSON *container, const struct amounts_names *names,
		  struct amounts_said *ret_said)
{
	const cJSON *resources = cJSON_GetObjectItemCaseSensitive(container, "resources");

	*ret_said = (struct amounts_said){.kind = PLACEMENT_APP};
	take_one(resources, names->gpu, ret_said->gpu);
	take_one(resources, names->memory, ret_said->memory);
	take_one(resources, names->milli, ret_said->milli);
}

static uint64_t value_of(const char *text)
{
	uint64_t value;

	return *text && quantity_read(text, &value) == 0 ? value : 0;
}

struct amounts amounts_counted(const struct amounts_said *said)
{
	return (struct amounts){value_of(said->gpu), value_of(said->memory), value_of(said->milli)};
}

static struct amounts plus(struct amounts a, struct amounts b)
{
	return (struct amounts){a.gpus + b.gpus, a.memory_bytes + b.memory_bytes,
				a.milli + b.milli};
}

static struct amounts larger(struct amounts a, struct amounts b)
{
	return (struct amounts){most(a.gpus, b.gpus), most(a.memory_bytes, b.memory_bytes),
				most(a.milli, b.milli)};
}

struct amounts amounts_of_pod(const struct amounts_said *said, size_t count)
{
	struct amounts sidecars = {0}, all = {0}, peak = {0};

	for (size_t i = 0; i < count; i++) {
		struct amounts one = amounts_counted(&said[i]);

		if (said[i].kind == PLACEMENT_INIT) {
			peak = larger(peak, plus(one, sidecars));
			continue;
		}
		all = plus(all, one);
		if (said[i].kind == PLACEMENT_SIDECAR)
			sidecars = plus(sidecars, one);
	}
	return larger(all, peak);
}

bool amounts_any(const struct amounts_said *said)
{
	return value_of(said->gpu) || *said->memory || *said->milli;
}

static int refuse(const char *name, const char *text, struct fault *why, const char *sentence)
{
	return fault_set(why, -EINVAL, "%s: '%s' %s", name, text, sentence);
}

static int split_memory(const struct amounts_said *said, const char *name,
			struct seating_container *it, struct fault *why)
{
	uint64_t total;

	if (!*said->memory) {
		it->slot_memory = true;
		return 0;
	}
	if (quantity_read(said->memory, &total) < 0)
		return refuse(name, said->memory, why,
			      "is no whole number of bytes; accepted: an amount such as 20Gi");
	it->memory_bytes = total / it->gpus;
	if (it->memory_bytes < LEAST_BYTES)
		return refuse(name, said->memory, why,
			      "is less than a mebibyte of each GPU; accepted: an amount with its "
			      "unit, such as 20Gi");
	if (it->memory_bytes >> 56)
		return refuse(name, said->memory, why,
			      "is more than any GPU has; accepted: an amount such as 20Gi");
	return 0;
}

static int split_milli(const struct amounts_said *said, const char *name,
		       struct seating_container *it, struct fault *why)
{
	struct fault problem;
	uint64_t total;

	if (!*said->milli) {
		it->slot_milli = true;
		return 0;
	}
	if (quantity_read(said->milli, &total) == 0 && total <= (uint64_t)MILLI_ALL * it->gpus &&
	    (!total || total >= it->gpus)) {
		it->milli = (uint32_t)(total / it->gpus);
		return 0;
	}
	fault_set(&problem, 0,
		  "is no such part of %u GPU%s; accepted: thousandths of a GPU's time, from 0 to "
		  "%u, of which each GPU gives the same number",
		  it->gpus, it->gpus > 1 ? "s" : "", MILLI_ALL * it->gpus);
	return refuse(name, said->milli, why, problem.text);
}

int amounts_split(const struct amounts_said *said, const struct amounts_names *names,
		  struct seating_container *ret_container, struct fault *why)
{
	struct seating_container it = {.kind = said->kind};
	uint64_t gpus = value_of(said->gpu);
	int r;

	if (!gpus)
		return fault_set(why, -EINVAL,
				 "%s: '%s' without %s says nothing about a GPU; accepted: together "
				 "with %s: 1, or more",
				 *said->memory ? names->memory : names->milli,
				 *said->memory ? said->memory : said->milli, names->gpu,
				 names->gpu);
	if (gpus > SEATING_DEVICES)
		return fault_set(why, -EINVAL, "%s: '%s' GPUs; accepted: at most %d", names->gpu,
				 said->gpu, SEATING_DEVICES);
	it.gpus = (uint8_t)gpus;
	r = split_memory(said, names->memory, &it, why);
	if (r == 0)
		r = split_milli(said, names->milli, &it, why);
	if (r == 0)
		*ret_container = it;
	return r;
}
