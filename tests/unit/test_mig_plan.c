/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts of a GPU stay, and where new ones lie: against a search that tries everything. */
#include "mig/plan.h"
#include "tests/test.h"

/* A GPU of eight slices of memory, with places as NVIDIA's have them. */
static struct mig_gpu gpu(void)
{
	static const struct {
		const char *name;
		uint32_t slices, most, places, step, size;
	} rows[] = {
		{"1g.10gb", 1, 7, 7, 1, 1}, {"1g.10gb+me", 1, 1, 7, 1, 1},
		{"1g.20gb", 1, 4, 4, 2, 2}, {"2g.20gb", 2, 3, 3, 2, 2},
		{"3g.40gb", 3, 2, 2, 4, 4}, {"4g.40gb", 4, 1, 1, 4, 4},
		{"7g.80gb", 7, 1, 1, 8, 8},
	};
	struct mig_gpu made = {.name = "GPU", .capable = true, .on = true};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mig_profile *profile = &made.profile[made.profiles++];

		*profile = (struct mig_profile){
			.slices = rows[i].slices, .most = rows[i].most, .places = rows[i].places};
		snprintf(profile->name, sizeof(profile->name), "%s", rows[i].name);
		for (uint32_t k = 0; k < rows[i].places; k++)
			profile->place[k] = (struct mig_place){k * rows[i].step, rows[i].size};
	}
	return made;
}

static void add(struct mig_gpu *g, uint32_t profile, uint32_t start)
{
	g->part[g->parts++] = (struct mig_part){.profile = profile,
						.place = {start, g->profile[profile].place[0].size},
						.computes = 1,
						.compute_slices = {g->profile[profile].slices}};
}

static void want(struct mig_wish *wish, const char *name, uint32_t count)
{
	wish->enabled = true;
	snprintf(wish->kind[wish->kinds].name, MIG_NAME_MAX, "%s", name);
	wish->kind[wish->kinds++].count = count;
}

static uint32_t mask(uint32_t start, uint32_t size)
{
	return ((1u << size) - 1) << start;
}

TEST(parts_that_are_wanted_and_there_stay)
{
	const bool used[MIG_PARTS_MAX] = {false, true};
	struct mig_gpu g = gpu();
	struct mig_wish wish = {0};
	struct mig_plan plan;
	struct fault why;

	add(&g, 0, 0);
	add(&g, 0, 1);
	want(&wish, "1g.10gb", 1);
	want(&wish, "3g.40gb", 1);
	expect_eq(mig_plan(&g, &wish, used, &plan, &why), 0);
	expect(!plan.stays[0] && plan.stays[1]); /* of two that are alike, the idle one goes */
	expect_eq(plan.makes, 1);
	expect_eq(plan.make[0].profile, 4);
	expect_eq(plan.make[0].start, 4);
}

TEST(an_idle_part_that_lies_badly_is_made_elsewhere)
{
	const bool idle[MIG_PARTS_MAX] = {false}, busy[MIG_PARTS_MAX] = {true};
	struct mig_gpu g = gpu();
	struct mig_wish wish = {0};
	struct mig_plan plan;
	struct fault why;

	add(&g, 0, 0); /* where the only place of 4g lies */
	want(&wish, "1g.10gb", 1);
	want(&wish, "4g.40gb", 1);
	expect_eq(mig_plan(&g, &wish, idle, &plan, &why), 0);
	expect(!plan.stays[0]);
	expect_eq(plan.makes, 2);
	/* One that is in use would have to go all the same: that is found out when the plan is
	 * applied. */
	expect_eq(mig_plan(&g, &wish, busy, &plan, &why), 0);
	expect(!plan.stays[0]);
}

TEST(an_impossible_division_is_refused_with_the_possible_ones)
{
	const bool used[MIG_PARTS_MAX] = {false};
	struct mig_gpu g = gpu();
	struct mig_wish small = {0}, many = {0}, processors = {0};
	struct mig_plan plan;
	struct fault why;

	want(&small, "1g.5gb", 1);
	expect_eq(mig_plan(&g, &small, used, &plan, &why), -ENOENT);
	expect_str(why.text,
		   "GPU 0 (GPU) has no profile 1g.5gb; accepted there: 1g.10gb, 1g.10gb+me, "
		   "1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb");
	want(&many, "3g.40gb", 2);
	want(&many, "1g.10gb", 1);
	expect_eq(mig_plan(&g, &many, used, &plan, &why), -ENOSPC);
	expect_str(why.text,
		   "GPU 0 (GPU) has no room for all of these together: 2 3g.40gb, 1 1g.10gb");
	want(&processors, "1c.3g.40gb", 3);
	expect_eq(mig_plan(&g, &processors, used, &plan, &why), -ENOENT);
	expect(strstr(why.text, "which mete does not make"));
}

/* ---- whatever is there, and whatever is wanted ---------------------------------------------- */

/* Tries each place of each part that is left. */
static bool fits(const struct mig_gpu *g, const uint32_t *profile, uint32_t n, uint32_t taken)
{
	if (!n)
		return true;
	for (uint32_t i = 0; i < g->profile[*profile].places; i++) {
		const struct mig_place *place = &g->profile[*profile].place[i];

		if (!(mask(place->start, place->size) & taken) &&
		    fits(g, profile + 1, n - 1, taken | mask(place->start, place->size)))
			return true;
	}
	return false;
}

static void draw_parts(struct mig_gpu *g)
{
	uint32_t taken = 0;

	for (int i = 0; i < 6; i++) {
		uint32_t profile = (uint32_t)test_random_below(g->profiles);
		uint32_t at = (uint32_t)test_random_below(g->profile[profile].places);
		struct mig_place place = g->profile[profile].place[at];

		if (mask(place.start, place.size) & taken)
			continue;
		taken |= mask(place.start, place.size);
		add(g, profile, place.start);
	}
}

static void check(const struct mig_gpu *g, const uint32_t counts[], const struct mig_plan *plan)
{
	uint32_t have[MIG_KINDS_MAX] = {0}, taken = 0;

	for (uint32_t i = 0; i < g->parts; i++) {
		if (!plan->stays[i])
			continue;
		have[g->part[i].profile]++;
		taken |= mask(g->part[i].place.start, g->part[i].place.size);
	}
	for (uint32_t i = 0; i < plan->makes; i++) {
		const struct mig_profile *profile = &g->profile[plan->make[i].profile];
		uint32_t slices = mask(plan->make[i].start, profile->place[0].size);
		bool is_place = false;

		for (uint32_t k = 0; k < profile->places; k++)
			is_place |= profile->place[k].start == plan->make[i].start;
		expect(is_place);
		expect(!(slices & taken));
		taken |= slices;
		have[plan->make[i].profile]++;
	}
	for (uint32_t i = 0; i < g->profiles; i++)
		expect_eq(have[i], counts[i]);
}

TEST(a_plan_is_found_where_there_is_one)
{
	unsigned found = 0, rounds = test_rounds(2000);

	for (unsigned round = 0; round < rounds; round++) {
		uint32_t counts[MIG_KINDS_MAX] = {0}, list[64], n = 0;
		bool used[MIG_PARTS_MAX] = {false}, few = true;
		struct mig_gpu g = gpu();
		struct mig_wish wish = {.enabled = true};
		struct mig_plan plan;
		struct fault why;
		int r;

		draw_parts(&g);
		for (uint32_t i = 0; i < g.parts; i++)
			used[i] = test_random_below(2);
		for (uint32_t i = 0; i < g.profiles; i++) {
			counts[i] = (uint32_t)(test_random_below(3) ? 0 : test_random_below(4));
			if (counts[i])
				want(&wish, g.profile[i].name, counts[i]);
			few &= counts[i] <= g.profile[i].most;
			for (uint32_t k = 0; k < counts[i]; k++)
				list[n++] = i;
		}
		r = mig_plan(&g, &wish, used, &plan, &why);
		expect_eq(r == 0, few && fits(&g, list, n, 0));
		if (r == 0)
			check(&g, counts, &plan);
		found += r == 0 && n;
	}
	expect(found > rounds / 10);
}
