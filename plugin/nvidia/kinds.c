/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Under which names devices are offered: mete's one, or, with a file without `mete`, those of
 * NVIDIA's device plugin, which has one for each kind of parts that MIG makes (migStrategy: mixed).
 * The name of a kind follows from the driver's name for its parts.
 */
#include <string.h>

#include "plugin/nvidia/mig_name.h"
#include "plugin/nvidia/parts.h"
#include "plugin/plugin.h"

static bool is_part(const struct plugin *p, uint32_t device)
{
	return p->host->device[device].gpu_instance >= 0;
}

/* "mig-1g.10gb"; false: it is not a whole GPU instance, which that plugin does not offer. */
static bool name_kind(const struct plugin *p, uint32_t device, char ret_name[MIG_NAME])
{
	return mig_name_resource(p->host->device[device].model, ret_name);
}

static uint32_t replicas_of(const struct config_as_nvidia *alone, const char *kind)
{
	if (strcmp(kind, "gpu") == 0)
		return alone->replicas;
	for (uint32_t i = 0; i < alone->kinds; i++)
		if (strcmp(alone->kind[i].name, kind) == 0)
			return alone->kind[i].replicas;
	return 0;
}

bool kinds_offers(const struct plugin *p, const struct config *config, uint32_t device)
{
	enum config_mig strategy = config->as_nvidia.mig;
	char kind[MIG_NAME];

	if (!is_part(p, device))
		return true;
	return strategy != CONFIG_MIG_NONE &&
	       (!config_mig_names_kinds(strategy) || name_kind(p, device, kind));
}

/* The resource that a device is of. False: it is not offered. */
static bool find_resource(const struct plugin *p, uint32_t device,
			  char ret_resource[SERVING_RESOURCE], uint32_t *ret_replicas)
{
	const struct config_as_nvidia *alone = &p->config->as_nvidia;
	char kind[MIG_NAME] = "gpu";

	if (!kinds_offers(p, p->config, device))
		return false;
	if (is_part(p, device) && config_mig_names_kinds(alone->mig))
		best_effort(name_kind(p, device, kind));
	*ret_replicas = replicas_of(alone, kind);
	snprintf(ret_resource, SERVING_RESOURCE, "nvidia.com/%s%s", kind,
		 alone->renamed && *ret_replicas ? ".shared" : "");
	return true;
}

static struct serving *find(struct serving *all, uint32_t count, const char *resource)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(all[i].resource, resource) == 0)
			return &all[i];
	return NULL;
}

const struct serving *kinds_of(const struct plugin *p, uint32_t device)
{
	char resource[SERVING_RESOURCE];
	uint32_t replicas;

	if (!find_resource(p, device, resource, &replicas))
		return NULL;
	return find((struct serving *)p->serving, p->servings, resource);
}

/* The names of the devices, each name once. NULL: there are too many. */
struct names {
	struct {
		char resource[SERVING_RESOURCE];
		uint32_t replicas;
	} row[SERVINGS_MAX];
	uint32_t count;
};

static bool add_name(struct names *names, const char *resource, uint32_t replicas)
{
	for (uint32_t i = 0; i < names->count; i++)
		if (strcmp(names->row[i].resource, resource) == 0)
			return true;
	if (names->count == SERVINGS_MAX)
		return false;
	snprintf(names->row[names->count].resource, SERVING_RESOURCE, "%s", resource);
	names->row[names->count++].replicas = replicas;
	return true;
}

struct naming {
	struct names *names;
	bool all;
};

/* A part that could be made. */
static void name_profile(void *owner, const char *profile)
{
	struct naming *naming = owner;
	char model[MIG_NAME + 8], kind[MIG_NAME], resource[SERVING_RESOURCE];

	snprintf(model, sizeof(model), "x MIG %.40s", profile);
	if (!mig_name_resource(model, kind))
		return;
	snprintf(resource, sizeof(resource), "nvidia.com/%s", kind);
	naming->all &= add_name(naming->names, resource, 0);
}

/* Where nothing is offered there is the usual name, as if all GPUs were lost. */
static bool find_names(const struct plugin *p, struct names *ret_names)
{
	char resource[SERVING_RESOURCE];
	uint32_t replicas;
	struct naming naming = {ret_names, true};
	bool all;

	ret_names->count = 0;
	/* Before those of parts that are there: these come and go, and names keep their order. */
	if (!p->config->has_mete)
		parts_each_profile(p->parts, name_profile, &naming);
	all = naming.all;
	for (uint32_t i = 0; !p->config->has_mete && i < p->host->devices; i++)
		if (find_resource(p, i, resource, &replicas))
			all &= add_name(ret_names, resource, replicas);
	if (!ret_names->count)
		all &= add_name(ret_names, p->config->resource, p->config->as_nvidia.replicas);
	return all;
}

bool kinds_differ(const struct plugin *p)
{
	struct names names;

	if (!find_names(p, &names) || names.count != p->servings)
		return true;
	for (uint32_t i = 0; i < names.count; i++)
		if (strcmp(names.row[i].resource, p->serving[i].resource) != 0)
			return true;
	return false;
}

void kinds_follow(struct plugin *p)
{
	struct names names;

	if (!find_names(p, &names))
		return;
	for (uint32_t i = 0; i < names.count && i < p->servings; i++)
		p->serving[i].replicas = names.row[i].replicas;
}

/* ---- what does not go together -------------------------------------------------------------- */

/* Two parts of different kinds, or a part and a whole GPU. The sentences contain those of that
 * plugin, for which people search. */
static int check_single(const struct plugin *p, struct fault *why)
{
	const struct host_device *device = p->host->device, *part = NULL, *whole = NULL;
	char kind[MIG_NAME], other[MIG_NAME];

	for (uint32_t i = 0; i < p->host->devices; i++) {
		if (device[i].gone)
			continue;
		if (!is_part(p, i))
			whole = whole ? whole : &device[i];
		else if (!part)
			part = &device[i];
	}
	if (!part)
		return 0;
	if (whole)
		return fault_set(why, -EINVAL,
				 "flags.migStrategy: single: all devices on the node must be "
				 "configured with the same migEnabled value: GPU %u is divided by "
				 "MIG, and GPU %u is not; accepted: all of them, none, or "
				 "migStrategy: mixed",
				 part->gpu_index, whole->gpu_index);
	best_effort(mig_name_resource(part->model, kind));
	for (uint32_t i = 0; i < p->host->devices; i++) {
		if (device[i].gone)
			continue;
		best_effort(mig_name_resource(device[i].model, other));
		if (strcmp(kind, other) != 0)
			return fault_set(why, -EINVAL,
					 "flags.migStrategy: single: more than one MIG device type "
					 "present on node: %s and %s; accepted: parts of one kind, "
					 "or migStrategy: mixed",
					 kind + 4, other + 4);
	}
	return 0;
}

static bool is_single(const struct config *config)
{
	return !config->has_mete && config->as_nvidia.mig == CONFIG_MIG_SINGLE;
}

int kinds_fit(const struct plugin *p, const struct config *config, struct fault *why)
{
	if (config_makes_parts(config))
		return p->host->mig_config
			       ? fault_set(
					 why, -EINVAL,
					 "%s: dynamic does not go with "
					 "--mig-config: both would divide the GPUs; accepted: one "
					 "of the two",
					 config->has_mete ? "mete.mig" : "flags.migStrategy")
			       : 0;
	return is_single(config) ? check_single(p, why) : 0;
}

int kinds_check(const struct plugin *p, struct fault *why)
{
	if (is_single(p->config) && p->host->unparted)
		return fault_set(why, -EINVAL,
				 "flags.migStrategy: single: at least one device with "
				 "migEnabled=true was not configured correctly: GPU %u is in MIG "
				 "mode and has no parts",
				 p->host->unparted_gpu[0].gpu_index);
	return kinds_fit(p, p->config, why);
}

static void begin(struct plugin *p, uint32_t i, const struct names *names)
{
	struct serving *s = &p->serving[i];

	free(s->said.bytes);
	*s = (struct serving){.plugin = p, .replicas = names->row[i].replicas};
	snprintf(s->resource, sizeof(s->resource), "%s", names->row[i].resource);
	list_init(&s->streams);
}

/* The resources to be served, if the configuration allows them. A GPU that has lost its parts takes
 * nothing from those that are served. */
static int find_checked(struct plugin *p, struct names *ret_names, struct fault *why)
{
	int r = kinds_fit(p, p->config, why);

	if (r < 0 || find_names(p, ret_names))
		return r;
	return fault_set(why, -E2BIG, "flags.migStrategy: %s: more than %d kinds of parts",
			 p->config->as_nvidia.mig == CONFIG_MIG_DYNAMIC ? "dynamic" : "mixed",
			 SERVINGS_MAX);
}

/* New devices are behind the others, and so are their names. */
int kinds_add(struct plugin *p, struct fault *why)
{
	struct names names;
	int r = find_checked(p, &names, why);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < p->servings; i++)
		if (i >= names.count || strcmp(names.row[i].resource, p->serving[i].resource) != 0)
			return 1;
	for (; r == 0 && p->servings < names.count; p->servings++) {
		begin(p, p->servings, &names);
		r = plugin_name_socket(&p->serving[p->servings], why);
	}
	return r;
}

void kinds_say_unparted(struct plugin *p)
{
	uint64_t now = 0;

	for (uint32_t i = 0; i < p->host->unparted && !config_makes_parts(p->config); i++) {
		unsigned gpu = p->host->unparted_gpu[i].gpu_index;

		now |= UINT64_C(1) << gpu % 64;
		if (!(p->unparted >> gpu % 64 & 1))
			log_warning(
				"mig.unparted",
				"gpu=%u reason=\"it is in MIG mode and has no parts: nothing of "
				"it is offered\"",
				gpu);
	}
	p->unparted = now;
}

/* Only a first start is refused for a GPU without parts, as NVIDIA's plugin refuses its own. Later
 * the pods of the other GPUs keep theirs. */
int kinds_find(struct plugin *p, struct fault *why)
{
	struct names names;
	int r = p->servings ? 0 : kinds_check(p, why);

	if (r < 0)
		return r;
	kinds_say_unparted(p);
	/* First what parts there could be: they have names. */
	r = parts_begin(p->parts, why);
	if (r < 0)
		return r;
	r = find_checked(p, &names, why);
	if (r < 0)
		return r;
	p->servings = names.count;
	for (uint32_t i = 0; i < names.count; i++)
		begin(p, i, &names);
	offered_find(p);
	return 0;
}
