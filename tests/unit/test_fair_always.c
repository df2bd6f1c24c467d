/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws of core/fair.h against random histories of users who are quiet, and such as flood:
 *
 *  - Who has no more than an even part of the room loses nothing, and so with a user's tenants.
 *  - Nobody loses anything to one who then has more than he.
 *  - What goes is the oldest of its tenant.
 *
 * METE_SEED repeats a history.
 */
#include "core/fair.h"

#include "tests/test.h"

enum { USERS = 6, TENANTS = 5, ROOM_LEAST = 1 };

static struct fair_part part[FAIR_MOST];
static uint32_t room, held;

static uint32_t of_user(uint64_t user)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < held; i++)
		n += part[i].user == user;
	return n;
}

static uint32_t of_tenant(const struct fair_part *whose)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < held; i++)
		n += part[i].user == whose->user && part[i].tenant == whose->tenant;
	return n;
}

/* With what comes; `users` of them have something. */
static uint32_t most_of_users(const struct fair_part *comes, uint32_t *ret_users)
{
	uint32_t most = 0;

	*ret_users = 0;
	for (uint64_t user = 0; user < USERS; user++) {
		uint32_t n = of_user(user) + (comes->user == user);

		*ret_users += n > 0;
		most = n > most ? n : most;
	}
	return most;
}

static uint32_t most_of_tenants(uint64_t user, const struct fair_part *comes)
{
	uint32_t most = 0;

	for (uint64_t tenant = 0; tenant < TENANTS; tenant++) {
		const struct fair_part whose = {user, tenant};
		uint32_t n = of_tenant(&whose) + (comes->user == user && comes->tenant == tenant);

		most = n > most ? n : most;
	}
	return most;
}

/* Of what is older than `at`, nothing could as well have gone. */
static void check_older(uint32_t at, const struct fair_part *comes, uint32_t most)
{
	const struct fair_part lost = part[at];
	uint32_t most_of_his = most_of_tenants(lost.user, comes);
	bool seen = false;

	for (uint32_t i = 0; i < at; i++) {
		const struct fair_part *older = &part[i];
		bool its = comes->user == older->user;

		seen |= older->user == lost.user;
		if (older->user == lost.user)
			expect(of_tenant(older) + (its && comes->tenant == older->tenant) <
			       most_of_his);
		else if (!seen)
			expect(of_user(older->user) + its < most);
	}
}

static void check(uint32_t at, const struct fair_part *comes)
{
	const struct fair_part lost = part[at];
	bool own = comes->user == lost.user;
	uint32_t users, most = most_of_users(comes, &users);

	expect_eq(of_user(lost.user) + own, most);
	expect((of_user(lost.user) + own) * users > room);
	expect_eq(of_tenant(&lost) + (own && comes->tenant == lost.tenant),
		  most_of_tenants(lost.user, comes));
	check_older(at, comes, most);
}

static void come(const struct fair_part *comes)
{
	if (held == room) {
		uint32_t at = fair_goes(part, held, comes);

		expect(at < held);
		check(at, comes);
		held--;
		memmove(&part[at], &part[at + 1], (held - at) * sizeof(part[0]));
	}
	part[held++] = *comes;
}

/* Each user has a temper: how often he comes, and through how many tenants. */
TEST(a_user_with_no_more_than_an_even_part_loses_nothing)
{
	for (unsigned round = test_rounds(60); round > 0; round--) {
		uint64_t often[USERS], tenants[USERS], all = 0;
		uint64_t steps;

		held = 0;
		room = (uint32_t)(ROOM_LEAST + test_random_below(round % 8 ? 30 : 100));
		steps = 4 * room;
		for (uint32_t i = 0; i < USERS; i++) {
			often[i] = test_random_below(3) ? test_random_below(4) : 100;
			tenants[i] = 1 + test_random_below(TENANTS);
			all += often[i];
		}
		for (; all && steps > 0; steps--) {
			uint64_t drawn = test_random_below(all), user = 0;

			for (; drawn >= often[user]; user++)
				drawn -= often[user];
			come(&(struct fair_part){user, test_random_below(tenants[user])});
		}
	}
}

/* All that can be kept is kept by keys that share a place of the table, too. */
TEST(a_full_room_of_as_many_users_loses_the_oldest)
{
	held = room = FAIR_MOST;
	for (uint32_t i = 0; i < room; i++)
		part[i] = (struct fair_part){(uint64_t)i << 40, i};
	expect_eq(fair_goes(part, held, &(struct fair_part){1, 1}), 0);
	expect_eq(fair_goes(part, held, &(struct fair_part){7ull << 40, 9}), 7);
}
