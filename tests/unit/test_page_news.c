/* SPDX-License-Identifier: Apache-2.0 */
#include "page/news.h"

#include <string.h>

#include "core/happened.h"
#include "tests/test.h"

enum { ADA = 1000, BOB };

static struct ps_rows seen;
static bool sees_all;
static struct wire_event_row event;

static void given(bool all, uint32_t owner, uint32_t tenant, enum happened kind)
{
	sees_all = all;
	event = (struct wire_event_row){
		.number = 1, .kind = kind, .tenant = tenant, .owner = owner};
	wire_set_text(&event.said, "it names secret");
}

static bool knows(void)
{
	return news_seen(&(struct news){.all = sees_all, .uid = ADA, .rows = &seen}, &event);
}

TEST(who_sees_all_is_told_all_as_it_is)
{
	for (uint32_t kind = 0; kind <= HAPPENED_HEALTHY; kind++) {
		given(true, BOB, kind % 2, kind);
		expect(knows());
		news_withhold(&event, true);
		expect_eq(strcmp(event.said.text, "it names secret"), 0);
	}
}

TEST(a_user_is_told_of_his_own_tenants_also_of_those_that_have_ended)
{
	for (uint32_t kind = 0; kind <= HAPPENED_HEALTHY; kind++) {
		given(false, ADA, 5, kind);
		expect(knows());
		given(false, BOB, 5, kind);
		expect(!knows());
	}
}

/* Each kind is one of these two: of a device as such, or of somebody's program on it. */
TEST(of_what_is_no_tenants_only_what_devices_are_is_told)
{
	static const enum happened told[] = {HAPPENED_BEGAN, HAPPENED_CORDONED, HAPPENED_UNCORDONED,
					     HAPPENED_UNHEALTHY, HAPPENED_HEALTHY};

	for (uint32_t kind = 0; kind <= HAPPENED_HEALTHY; kind++) {
		bool is = false;

		for (size_t i = 0; i < ARRAY_SIZE(told); i++)
			is = is || told[i] == kind;
		given(false, UINT32_MAX, 0, kind);
		expect_eq(knows(), is);
	}
}

TEST(what_may_name_others_or_count_them_is_withheld)
{
	given(false, ADA, 5, HAPPENED_REFUSED);
	news_withhold(&event, false);
	expect(!strstr(event.said.text, "secret"));
	given(false, UINT32_MAX, 0, HAPPENED_BEGAN);
	news_withhold(&event, false);
	expect_eq(strcmp(event.said.text, "meted began"), 0);
}
