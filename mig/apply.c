/* SPDX-License-Identifier: Apache-2.0 */
#include "mig/apply.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "mig/place.h"
#include "mig/plan.h"

/* ---- what a row means for a GPU ------------------------------------------------------------- */

const struct mig_wish *mig_wish_of(const struct mig_spec *spec, const struct mig_gpu *gpu)
{
	const struct mig_wish *wish = NULL;

	for (uint32_t i = 0; i < spec->rows; i++)
		if (mig_row_matches(&spec->row[i], gpu->index, gpu->model))
			wish = &spec->row[i].wish;
	return wish;
}

/* As mig-parted: a row for all GPUs passes over those that have no MIG. */
static int check_capable(const struct mig_spec *spec, const struct mig_gpu *gpu, struct fault *why)
{
	for (uint32_t i = 0; i < spec->rows && !gpu->capable; i++)
		if (mig_row_matches(&spec->row[i], gpu->index, gpu->model) && !spec->row[i].all &&
		    spec->row[i].wish.enabled)
			return fault_set(why, -ENOENT, "GPU %u (%.60s) has no MIG", gpu->index,
					 gpu->name);
	return 0;
}

/* ---- is it so? ------------------------------------------------------------------------------ */

static int differs(struct fault *why, const struct mig_gpu *gpu, const char *what)
{
	best_effort(fault_set(why, 0, "GPU %u (%.60s): %s", gpu->index, gpu->name, what));
	return MIG_DIFFERS;
}

static int compare(const struct mig_spec *spec, const struct mig_gpu *gpu, bool mode_only,
		   struct fault *why)
{
	const struct mig_wish *wish = mig_wish_of(spec, gpu);
	struct mig_wish is;

	if (!wish)
		return mode_only ? 0
				 : differs(why, gpu, "no row of the configuration speaks of it");
	if (!gpu->capable)
		return wish->enabled ? differs(why, gpu, "it has no MIG") : 0;
	if (wish->enabled != gpu->on)
		return differs(why, gpu,
			       gpu->on ? "MIG is enabled, and shall not be"
				       : "MIG is not enabled, and shall be");
	if (wish->enabled != gpu->later)
		return differs(why, gpu,
			       gpu->later
				       ? "MIG is enabled by the next reset, and shall not be"
				       : "MIG is not enabled after the next reset, and shall be");
	mig_gpu_is(gpu, &is);
	if (!mode_only && !mig_wish_same(wish, &is))
		return differs(why, gpu, "it has other parts than it shall have");
	return 0;
}

int mig_assert(const struct mig_nvml *nvml, const struct mig_spec *spec, bool mode_only,
	       struct fault *why)
{
	owned(free) struct mig_gpu *gpu = malloc(sizeof(*gpu));
	int r = 0;

	if (!gpu)
		return fault_set(why, -ENOMEM, "out of memory");
	for (uint32_t i = 0; r == 0 && i < mig_count(nvml); i++) {
		r = mig_read(nvml, i, gpu, why);
		if (r == 0)
			r = compare(spec, gpu, mode_only, why);
	}
	return r;
}

/* ---- who uses it ---------------------------------------------------------------------------- */

struct applying {
	const struct mig_nvml *nvml;
	const struct mig_spec *spec;
	const struct mig_tenants *tenants;
	bool mode_only;
	struct fault *why;
	struct mig_gpu gpu;
	char who[160]; /* of the last that is_used() found */
	bool unsaid;   /* the driver does not say whether that is used: it counts as used */
};

static void name_process(struct applying *a, unsigned pid)
{
	owned(free) char *text = NULL;
	char path[40];
	size_t size = 0;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	if (file_slurp(path, 64, &text, &size) < 0) {
		snprintf(a->who, sizeof(a->who), "process %u", pid);
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	text_make_plain(text);
	snprintf(a->who, sizeof(a->who), "process %u (%s)", pid, text);
}

static bool has_tenant(struct applying *a, const char *uuid)
{
	const char *who = a->tenants && *uuid ? a->tenants->who(a->tenants->owner, uuid) : NULL;

	if (who)
		snprintf(a->who, sizeof(a->who), "%s", who);
	return who != NULL;
}

/* He may have its place: one who was given that before anybody made the part (migStrategy:
 * dynamic). */
static bool has_place(struct applying *a, const struct mig_part *part)
{
	const struct mig_profile *profile = &a->gpu.profile[part->profile];
	char name[MIG_PLACE_NAME_MAX];

	for (uint32_t i = 0; i < profile->places; i++)
		if (profile->place[i].start == part->place.start)
			return mig_place_name(&a->gpu, part->profile, i, name, sizeof(name)) == 0 &&
			       has_tenant(a, name);
	return false;
}

/* NULL: the GPU itself. */
static bool is_used(struct applying *a, const struct mig_part *part)
{
	unsigned pid;
	int r;

	a->unsaid = false;
	if (!part && has_tenant(a, a->gpu.uuid))
		return true;
	for (uint32_t i = 0; part && i < part->computes; i++)
		if (has_tenant(a, part->uuid[i]))
			return true;
	if (part && has_place(a, part))
		return true;
	r = mig_user(a->nvml, &a->gpu, part, &pid);
	if (r == 0 && pid)
		name_process(a, pid);
	a->unsaid = r < 0;
	return r < 0 || pid;
}

static int say_used(struct applying *a, const struct mig_part *part)
{
	char name[MIG_NAME_MAX] = "";

	if (part)
		snprintf(name, sizeof(name), "%s", a->gpu.profile[part->profile].name);
	if (a->unsaid)
		return fault_set(a->why, -EBUSY,
				 "GPU %u (%.60s): the driver does not say whether a process uses "
				 "%s%s, which would have to go",
				 a->gpu.index, a->gpu.name, part ? "its part " : "it", name);
	return fault_set(a->why, -EBUSY, "GPU %u (%.60s): %s%s in use by %s, and would have to go",
			 a->gpu.index, a->gpu.name, part ? "its part " : "it is",
			 part ? strcat(name, " is") : "",
			 *a->who ? a->who : "a process that the driver does not name");
}

static void find_used(struct applying *a, bool used[MIG_PARTS_MAX])
{
	for (uint32_t i = 0; i < MIG_PARTS_MAX; i++)
		used[i] = i < a->gpu.parts && is_used(a, &a->gpu.part[i]);
}

/* ---- may it change? ------------------------------------------------------------------------- */

/* Of the parts that do not stay, none may be in use. */
static int check_parts(struct applying *a, const struct mig_wish *wish, struct mig_plan *plan)
{
	bool used[MIG_PARTS_MAX];
	int r;

	find_used(a, used);
	r = mig_plan(&a->gpu, wish, used, plan, a->why);
	for (uint32_t i = 0; r == 0 && i < a->gpu.parts; i++)
		if (used[i] && !plan->stays[i] && is_used(a, &a->gpu.part[i]))
			return say_used(a, &a->gpu.part[i]);
	return r;
}

static int check(struct applying *a, const struct mig_wish *wish)
{
	const struct mig_wish none = {.enabled = wish->enabled};
	struct mig_plan plan;
	struct mig_wish is;

	if (a->gpu.on == wish->enabled && a->mode_only)
		return 0;
	mig_gpu_is(&a->gpu, &is);
	if (mig_wish_same(&is, wish))
		return 0;
	a->who[0] = '\0';
	if (a->gpu.on != wish->enabled && !a->gpu.on && is_used(a, NULL))
		return say_used(a, NULL);
	return check_parts(a, a->mode_only ? &none : wish, &plan);
}

/* ---- changes -------------------------------------------------------------------------------- */

static int unmake(struct applying *a, const struct mig_part *part)
{
	int r = mig_unmake(a->nvml, &a->gpu, part, a->why);

	a->who[0] = '\0';
	if (r != MIG_IN_USE)
		return r;
	best_effort(is_used(a, part)); /* for the words */
	return say_used(a, part);
}

/* An earlier change waits for a reset: it shall not come about. */
static int call_off(struct applying *a, const struct mig_wish *wish)
{
	int r = mig_set_mode(a->nvml, &a->gpu, wish->enabled, a->why);

	return r == MIG_IN_USE ? 0 : r; /* it is noted all the same */
}

static int change_mode(struct applying *a, const struct mig_wish *wish)
{
	struct fault undone;
	int r = 0;

	if (a->gpu.on == wish->enabled)
		return a->gpu.later == wish->enabled ? 0 : call_off(a, wish);
	for (uint32_t i = 0; r == 0 && i < a->gpu.parts; i++)
		r = unmake(a, &a->gpu.part[i]);
	if (r == 0)
		r = mig_set_mode(a->nvml, &a->gpu, wish->enabled, a->why);
	a->who[0] = '\0';
	if (r == MIG_IN_USE && is_used(a, NULL)) {
		best_effort(mig_set_mode(a->nvml, &a->gpu, a->gpu.on, &undone));
		return say_used(a, NULL);
	}
	/* Programs of the system have it open (nvidia-persistenced, an exporter), as have we. */
	if (r == MIG_PENDING || r == MIG_IN_USE)
		return fault_set(a->why, -EAGAIN,
				 "GPU %u (%.60s): its MIG mode changes when the GPU is reset "
				 "(nvidia-smi --gpu-reset -i %u), or the machine",
				 a->gpu.index, a->gpu.name, a->gpu.index);
	return r;
}

static int change_parts(struct applying *a, const struct mig_wish *wish)
{
	struct mig_plan plan;
	struct mig_wish is;
	int r;

	mig_gpu_is(&a->gpu, &is);
	if (a->mode_only || !wish->enabled || mig_wish_same(&is, wish))
		return 0;
	r = check_parts(a, wish, &plan);
	for (uint32_t i = 0; r == 0 && i < a->gpu.parts; i++)
		if (!plan.stays[i])
			r = unmake(a, &a->gpu.part[i]);
	for (uint32_t i = 0; r == 0 && i < plan.makes; i++)
		r = mig_make(a->nvml, &a->gpu, plan.make[i].profile, plan.make[i].start, a->why);
	return r;
}

typedef int change(struct applying *a, const struct mig_wish *wish);

/* Each GPU that a row speaks of, and that has MIG; read anew, as an earlier step may have changed
 * it. */
static int each_gpu(struct applying *a, change *what)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < mig_count(a->nvml); i++) {
		const struct mig_wish *wish;

		r = mig_read(a->nvml, i, &a->gpu, a->why);
		if (r < 0)
			return r;
		wish = mig_wish_of(a->spec, &a->gpu);
		r = check_capable(a->spec, &a->gpu, a->why);
		if (r == 0 && wish && a->gpu.capable)
			r = what(a, wish);
	}
	return r;
}

int mig_apply(const struct mig_nvml *nvml, const struct mig_spec *spec, bool mode_only,
	      const struct mig_tenants *tenants, struct fault *why)
{
	static change *const steps[] = {check, change_mode, change_parts};
	owned(free) struct applying *a = calloc(1, sizeof(*a));
	int r = 0;

	if (!a)
		return fault_set(why, -ENOMEM, "out of memory");
	*a = (struct applying){nvml, spec, tenants, mode_only, .why = why};
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(steps); i++)
		r = each_gpu(a, steps[i]);
	return r;
}
