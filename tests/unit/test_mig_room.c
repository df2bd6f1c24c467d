/* SPDX-License-Identifier: Apache-2.0 */
/* Room for parts, their names, and the place that costs the others least. */
#include <string.h>

#include "mig/place.h"
#include "mig/room.h"
#include "tests/test.h"

enum { SMALL, MEDIA, PAIR, TWO, HALF, LARGE, WHOLE };

/* A GPU of eight slices of memory, with places as NVIDIA's have them. */
static struct mig_gpu gpu(void)
{
	static const struct {
		const char *name;
		uint32_t most, places, step, size;
	} rows[] = {
		[SMALL] = {"1g.10gb", 7, 7, 1, 1}, [MEDIA] = {"1g.10gb+me", 1, 7, 1, 1},
		[PAIR] = {"1g.20gb", 4, 4, 2, 2},  [TWO] = {"2g.20gb", 3, 3, 2, 2},
		[HALF] = {"3g.40gb", 2, 2, 4, 4},  [LARGE] = {"4g.40gb", 1, 1, 4, 4},
		[WHOLE] = {"7g.80gb", 1, 1, 8, 8},
	};
	struct mig_gpu made = {.uuid = "GPU-1", .on = true};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mig_profile *profile = &made.profile[made.profiles++];

		*profile = (struct mig_profile){.most = rows[i].most, .places = rows[i].places};
		snprintf(profile->name, sizeof(profile->name), "%s", rows[i].name);
		for (uint32_t k = 0; k < rows[i].places; k++)
			profile->place[k] = (struct mig_place){k * rows[i].step, rows[i].size};
	}
	return made;
}

static void add(struct mig_gpu *g, uint32_t profile, uint32_t place)
{
	g->part[g->parts++] =
		(struct mig_part){.profile = profile, .place = g->profile[profile].place[place]};
}

static uint32_t count(const struct mig_room *room, uint32_t profile)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < MIG_PLACES_MAX; k++)
		n += room->open[profile][k];
	return n;
}

TEST(parts_that_stay_close_the_places_that_they_overlap)
{
	bool goes[MIG_PARTS_MAX] = {false};
	struct mig_gpu g = gpu();
	struct mig_room room;

	add(&g, HALF, 1);
	mig_room_find(&g, goes, &room);
	expect_eq(count(&room, SMALL), 4);
	expect_eq(count(&room, TWO), 2);
	expect_eq(count(&room, HALF), 1);
	expect_eq(count(&room, WHOLE), 0);
	goes[0] = true;
	mig_room_find(&g, goes, &room);
	expect_eq(count(&room, SMALL), 7);
	expect_eq(count(&room, WHOLE), 1);
}

TEST(a_gpu_that_is_not_in_mig_mode_has_no_room)
{
	const bool goes[MIG_PARTS_MAX] = {false};
	struct mig_gpu g = gpu();
	struct mig_room room;

	g.on = false;
	mig_room_find(&g, goes, &room);
	for (uint32_t i = 0; i < g.profiles; i++)
		expect_eq(count(&room, i), 0);
}

TEST(no_more_is_offered_than_there_may_be_at_a_time)
{
	const bool goes[MIG_PARTS_MAX] = {false};
	struct mig_gpu g = gpu();
	struct mig_room room;

	mig_room_find(&g, goes, &room);
	mig_room_offer(&g, goes, MEDIA, &room);
	expect_eq(count(&room, MEDIA), 1);
	expect(room.open[MEDIA][6]);
	add(&g, MEDIA, 0);
	mig_room_find(&g, goes, &room);
	mig_room_offer(&g, goes, MEDIA, &room);
	expect_eq(count(&room, MEDIA), 0);
}

TEST(the_cheapest_place_is_beside_parts_that_are_there)
{
	const bool goes[MIG_PARTS_MAX] = {false};
	struct mig_gpu g = gpu();
	struct mig_room room;

	add(&g, SMALL, 0);
	mig_room_find(&g, goes, &room);
	for (uint32_t k = 2; k < 7; k++)
		expect(mig_room_cost(&g, &room, SMALL, 1) < mig_room_cost(&g, &room, SMALL, k));
}

/* With any places taken: the offered places of all profiles lie beside parts that stay, and beside
 * each other. */
TEST(all_offered_places_have_room_at_random)
{
	for (int round = 0; round < 300; round++) {
		bool goes[MIG_PARTS_MAX] = {false};
		struct mig_gpu g = gpu();
		struct mig_room room, left;

		for (uint64_t tries = test_random_below(8); tries > 0; tries--) {
			uint32_t profile = (uint32_t)test_random_below(g.profiles);
			uint32_t place = (uint32_t)test_random_below(g.profile[profile].places);

			mig_room_find(&g, goes, &room);
			if (room.open[profile][place])
				add(&g, profile, place);
		}
		for (uint32_t i = 0; i < g.profiles; i++) {
			mig_room_find(&g, goes, &room);
			mig_room_offer(&g, goes, i, &room);
			left = room;
			for (uint32_t k = 0; k < g.profile[i].places; k++) {
				if (!room.open[i][k])
					continue;
				expect(left.open[i][k]);
				mig_room_take(&g, i, k, &left);
				for (uint32_t n = 0; n < g.parts; n++)
					expect(!mig_place_overlaps(g.part[n].place,
								   g.profile[i].place[k]));
			}
		}
	}
}

/* ---- histories on each model ------------------------------------------------------------------
 */

static const struct {
	const char *model, *name;
	uint32_t places, step, size, most;
} profiles[] = {
#define PROFILE(model, name, kind, id, slices, places, step, size, most, ...)                      \
	{model, name, places, step, size, most},
#include "sim/machine/mig.def"
};

static struct mig_gpu gpu_of(const char *model)
{
	struct mig_gpu made = {.uuid = "GPU-1", .on = true};

	for (size_t i = 0; i < ARRAY_SIZE(profiles); i++) {
		struct mig_profile *profile = &made.profile[made.profiles];

		if (strcmp(profiles[i].model, model) != 0)
			continue;
		made.profiles++;
		*profile = (struct mig_profile){.most = profiles[i].most,
						.places = profiles[i].places};
		snprintf(profile->name, sizeof(profile->name), "%s", profiles[i].name);
		for (uint32_t k = 0; k < profiles[i].places; k++)
			profile->place[k] =
				(struct mig_place){k * profiles[i].step, profiles[i].size};
	}
	return made;
}

/* Looked at slice by slice: may the driver make it there, once what goes has gone? */
static bool has_room(const struct mig_gpu *g, const bool *goes, uint32_t profile, uint32_t place)
{
	struct mig_place wanted = g->profile[profile].place[place];
	bool taken[8] = {false};
	uint32_t alike = 0;

	for (uint32_t n = 0; n < g->parts; n++) {
		alike += !goes[n] && g->part[n].profile == profile;
		for (uint32_t at = 0; !goes[n] && at < g->part[n].place.size; at++) {
			expect(!taken[g->part[n].place.start + at]);
			taken[g->part[n].place.start + at] = true;
		}
	}
	for (uint32_t at = 0; at < wanted.size; at++)
		if (taken[wanted.start + at])
			return false;
	return alike < g->profile[profile].most;
}

/* As many places as there can be parts of the profile, beside those that stay, are offered: not one
 * that is taken, and never none while there is room. (Places of one profile do not overlap.) */
static void check_offers(const struct mig_gpu *g, const bool *goes, uint32_t profile,
			 struct mig_room *room)
{
	uint32_t free = 0, staying = 0, most = g->profile[profile].most;

	for (uint32_t n = 0; n < g->parts; n++)
		staying += !goes[n] && g->part[n].profile == profile;
	mig_room_find(g, goes, room);
	mig_room_offer(g, goes, profile, room);
	for (uint32_t k = 0; k < g->profile[profile].places; k++) {
		bool fits = has_room(g, goes, profile, k);

		free += fits;
		expect(!room->open[profile][k] || fits);
	}
	expect_eq(count(room, profile), free < most - staying ? free : most - staying);
}

/* Some parts are idle, and go when their place is needed. */
static void take_some(struct mig_gpu *g, bool *goes, uint32_t profile, const struct mig_room *room)
{
	uint32_t kept = 0, place = (uint32_t)test_random_below(g->profile[profile].places);

	if (!room->open[profile][place])
		return;
	for (uint32_t n = 0; n < g->parts; n++)
		if (!goes[n] ||
		    !mig_place_overlaps(g->part[n].place, g->profile[profile].place[place])) {
			goes[kept] = goes[n];
			g->part[kept++] = g->part[n];
		}
	g->parts = kept;
	goes[g->parts] = false;
	add(g, profile, place);
}

static void remove_one(struct mig_gpu *g, bool *goes)
{
	uint32_t n = (uint32_t)test_random_below(g->parts);

	g->part[n] = g->part[--g->parts];
	goes[n] = goes[g->parts];
}

TEST(in_any_history_parts_never_overlap_and_a_free_place_is_offered)
{
	static const char *const models[] = {"A100-40", "A100", "H100", "H200", "B200"};

	for (size_t m = 0; m < ARRAY_SIZE(models); m++) {
		bool goes[MIG_PARTS_MAX] = {false};
		struct mig_gpu g = gpu_of(models[m]);
		uint32_t made = 0;

		expect_eq(g.profiles, 7);
		for (int step = 0; step < 3000; step++) {
			uint32_t profile = (uint32_t)test_random_below(g.profiles), before;
			struct mig_room room;

			if (g.parts && test_random_below(3) == 0)
				remove_one(&g, goes);
			if (g.parts && test_random_below(2) == 0)
				goes[test_random_below(g.parts)] ^= true;
			check_offers(&g, goes, profile, &room);
			before = g.parts;
			take_some(&g, goes, profile, &room);
			made += g.parts > before;
		}
		expect(made > 100);
		while (g.parts)
			remove_one(&g, goes);
		for (uint32_t i = 0; i < g.profiles; i++) {
			struct mig_room room;

			check_offers(&g, goes, i, &room);
			expect(count(&room, i) > 0);
		}
	}
}

TEST(a_place_is_found_by_its_name)
{
	struct mig_gpu g[2] = {gpu(), gpu()};
	struct mig_place_at at;
	char name[64];

	snprintf(g[1].uuid, sizeof(g[1].uuid), "GPU-2");
	expect_eq(mig_place_name(&g[1], HALF, 1, name, sizeof(name)), 0);
	expect_str(name, "GPU-2:3g.40gb:4");
	expect_eq(mig_place_find(g, 2, name, &at), 0);
	expect_eq(at.gpu, 1);
	expect_eq(at.profile, HALF);
	expect_eq(at.place, 1);
	expect_eq(mig_place_name(&g[1], HALF, 1, name, 15), -ENAMETOOLONG);
	g[1].on = false;
	expect_eq(mig_place_find(g, 2, "GPU-2:3g.40gb:4", &at), -ENOENT);
}

TEST(text_that_is_no_place_is_not_found)
{
	static const char *const others[] = {"",
					     "GPU-1",
					     "GPU-1::4",
					     "GPU-1:",
					     "GPU-1:3g.40gb",
					     "GPU-1:3g.40gb:3",
					     "GPU-1:x:0",
					     "GPU-1:3g.40gb:0x",
					     "GPU-3:3g.40gb:4",
					     "MIG-1:3g.40gb:4"};
	struct mig_gpu g = gpu();
	struct mig_place_at at;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		expect_eq(mig_place_find(&g, 1, others[i], &at), -ENOENT);
	expect(!mig_place_is_name("GPU-1::4"));
	expect(!mig_place_is_name("MIG-1"));
}
