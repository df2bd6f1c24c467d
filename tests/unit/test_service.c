/* SPDX-License-Identifier: Apache-2.0 */
#include "core/service.h"

#include <string.h>

#include "tests/test.h"

enum { MEMBERS = 12, MOST = 50, GRACE = 10 };

static struct service_member member[MEMBERS];
static struct line_member *heaps[2][MEMBERS];
static struct service service;

static void given(void)
{
	memset(member, 0, sizeof(member));
	service = (struct service){
		.prompt = {.heap = heaps[0], .room = MEMBERS, .grace = GRACE},
		.late = {.heap = heaps[1], .room = MEMBERS},
	};
}

/* It wants something, is served until it is late, and wants more. */
static void make_late(struct service_member *one)
{
	service_want(&service, one);
	for (int i = 1; i <= SERVICE_ROW; i++) {
		expect(service_next(&service, false) == one);
		expect_eq(service_done(&service, one, 1, true),
			  i == SERVICE_ROW ? SERVICE_BECAME_LATE : SERVICE_SAME);
	}
}

TEST(a_member_that_never_stops_is_served_late)
{
	given();
	make_late(&member[0]);
	expect(service_next(&service, false) == NULL);
	expect(service_next(&service, true) == &member[0]);
	expect_eq(service_done(&service, &member[0], 1, true), SERVICE_SAME);
	expect(service_next(&service, true) == &member[0]);
}

TEST(a_member_that_stops_in_time_is_never_late)
{
	given();
	for (int round = 0; round < 100; round++) {
		service_want(&service, &member[0]);
		for (int i = 1; i < SERVICE_ROW; i++) {
			expect(service_next(&service, false) == &member[0]);
			expect_eq(service_done(&service, &member[0], 7, i < SERVICE_ROW - 1),
				  SERVICE_SAME);
		}
		expect(service_next(&service, true) == NULL);
	}
}

TEST(a_member_that_was_late_and_stops_is_as_good_as_any_other)
{
	given();
	service_want(&service, &member[1]);
	expect(service_next(&service, false) == &member[1]);
	expect_eq(service_done(&service, &member[1], 1000, false), SERVICE_SAME);
	make_late(&member[0]);
	expect(service_next(&service, true) == &member[0]);
	expect_eq(service_done(&service, &member[0], 1000000, false), SERVICE_BECAME_PROMPT);
	/* It comes back, and is served before members that were given more. */
	service_want(&service, &member[1]);
	service_want(&service, &member[0]);
	expect(service_next(&service, false) == &member[0]);
}

TEST(a_late_member_waits_for_no_prompt_one_and_holds_up_none)
{
	given();
	make_late(&member[0]);
	service_want(&service, &member[1]);
	service_want(&service, &member[0]); /* harmless */
	expect(service_next(&service, false) == &member[1]);
	expect_eq(service_done(&service, &member[1], 1, false), SERVICE_SAME);
	expect(service_next(&service, false) == NULL);
	service_leave(&service, &member[0]);
	expect(service_next(&service, true) == NULL);
}

TEST(a_request_that_comes_while_its_member_is_served_costs_the_time_it_took)
{
	given();
	service_want(&service, &member[0]);
	service_want(&service, &member[1]);
	expect(service_next(&service, false) == &member[0]);
	service_want(&service, &member[0]);
	expect_eq(service_done(&service, &member[0], MOST, true), SERVICE_SAME);
	expect(service_next(&service, false) == &member[1]);
	expect_eq(service_done(&service, &member[1], MOST - 1, true), SERVICE_SAME);
	expect(service_next(&service, false) == &member[1]);
}

/* The right state of each. */
static struct model {
	bool wants;
	uint32_t row;
	bool late;
} model[MEMBERS];

static uint32_t count_wanting(void)
{
	uint32_t count = 0;

	for (int i = 0; i < MEMBERS; i++)
		count += model[i].wants;
	return count;
}

static void serve(bool late)
{
	struct service_member *one = service_next(&service, late);
	bool any = false, more = test_random_below(8) != 0;
	struct model *m;

	for (int i = 0; i < MEMBERS; i++)
		any |= model[i].wants && model[i].late == late;
	expect((one != NULL) == any);
	if (!one)
		return;
	m = &model[one - member];
	expect(m->wants && m->late == late);
	if (test_random_below(4) == 0)
		service_want(&service, one);
	m->row = more && !late ? m->row + 1 : 0;
	m->wants = more;
	switch (service_done(&service, one, test_random_below(MOST), more)) {
	case SERVICE_BECAME_LATE:
		expect(!late && more && m->row == SERVICE_ROW);
		m->late = true;
		m->row = 0;
		break;
	case SERVICE_BECAME_PROMPT:
		expect(late && !more);
		m->late = false;
		break;
	case SERVICE_SAME:
		expect(late ? more : m->row < SERVICE_ROW);
		break;
	}
}

TEST(the_laws_hold_after_any_history)
{
	for (unsigned round = 0; round < test_rounds(200); round++) {
		given();
		memset(model, 0, sizeof(model));
		for (int step = 0; step < 3000; step++) {
			uint32_t i = test_random_below(MEMBERS);

			if (test_random_below(3) == 0) {
				service_want(&service, &member[i]);
				model[i].wants = true;
			}
			if (test_random_below(40) == 0) {
				service_leave(&service, &member[i]);
				model[i].wants = false;
			}
			serve(test_random_below(10) == 0);
			for (i = 0; i < MEMBERS; i++) {
				expect_eq(member[i].place.place != 0, model[i].wants);
				expect_eq(member[i].late, model[i].late);
			}
			expect_eq(service.prompt.count + service.late.count, count_wanting());
		}
	}
}
