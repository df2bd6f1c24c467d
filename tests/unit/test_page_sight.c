/* SPDX-License-Identifier: Apache-2.0 */
#include "page/sight.h"

#include "page/access.h"
#include "tests/test.h"

enum { ADA = 1000, BOB };

static struct ps_rows all, seen;

static struct wire_message *add(uint32_t code)
{
	struct wire_message *row = ps_rows_add(&all);

	row->code = code;
	return row;
}

static void add_tenant(uint32_t id, uint32_t owner, uint32_t behind, uint32_t outer)
{
	struct wire_tenant_row *row = &add(WIRE_tenant_row)->tenant_row;

	row->tenant = id;
	row->owner = owner;
	row->behind = behind;
	row->outer = outer;
	add(WIRE_guest_row)->guest_row.tenant = id;
}

static void given(void)
{
	ps_rows_free(&all);
	all = (struct ps_rows){0};
	add(WIRE_device_row)->device_row =
		(struct wire_device_row){.picker = 77, .picked_by = BOB, .hold = 5};
	add_tenant(1, ADA, 2, 0);
	add_tenant(2, BOB, 0, 1);
	add(WIRE_outside_row)->outside_row.user = BOB;
	add(WIRE_outside_row)->outside_row.user = ADA;
}

static void look(bool everything, uid_t uid)
{
	const struct sight sight = {.all = everything, .uid = uid};

	ps_rows_free(&seen);
	expect_eq(sight_look(&sight, &all, &seen), 0);
}

TEST(a_user_that_may_see_all_sees_all)
{
	given();
	look(true, 0);
	expect_eq(seen.count, all.count);
	expect_eq(seen.row[1].tenant_row.behind, 2);
	expect_eq(seen.row[0].device_row.picker, 77);
	expect(!seen.flat);
}

TEST(a_user_sees_his_tenants_with_their_processes_and_nobody_elses)
{
	given();
	look(false, ADA);
	expect_eq(seen.count, 4);
	expect_eq(seen.row[0].code, WIRE_device_row);
	expect_eq(seen.row[1].tenant_row.tenant, 1);
	expect_eq(seen.row[2].guest_row.tenant, 1);
	expect_eq(seen.row[3].outside_row.user, ADA);
	look(false, 4711);
	expect_eq(seen.count, 1);
}

TEST(names_of_others_are_not_in_a_row_that_is_seen)
{
	given();
	look(false, ADA);
	expect_eq(seen.row[1].tenant_row.behind, 0);
	expect_eq(seen.row[0].device_row.picker, 0);
	expect_eq(seen.row[0].device_row.picked_by, 0);
	expect_eq(seen.row[0].device_row.hold, 0);
	look(false, BOB);
	expect_eq(seen.row[1].tenant_row.outer, 0);
	expect_eq(seen.row[0].device_row.picker, 77);
	expect(seen.flat);
}

TEST(names_that_somebody_elses_dns_may_have_led_here_are_not_ours)
{
	static const char *const ours[] = {
		"127.0.0.1",	"127.0.0.1:9401", "[::1]",	"[::1]:9401", "localhost",
		"LOCALHOST:80", "page.localhost", "10.1.2.3:1", "gpu1",	      "GPU1:9401"};
	static const char *const others[] = {"",
					     "evil.example",
					     "evil.example:9401",
					     "localhost.evil.example",
					     "127.0.0.1.evil.example",
					     "gpu1.evil.example",
					     "xlocalhost",
					     "[::1",
					     "[]",
					     "localhost:80@evil",
					     "gpu1x",
					     "127.0.0.1:x",
					     "1",
					     "0x7f.1"};

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		if (!access_names_us(ours[i], "gpu1"))
			fail_msg("%s is ours", ours[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (access_names_us(others[i], "gpu1"))
			fail_msg("%s is not ours", others[i]);
	expect(!access_names_us("gpu1", ""));
}
