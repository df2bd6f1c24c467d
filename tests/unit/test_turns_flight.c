/* SPDX-License-Identifier: Apache-2.0 */
#include "core/turns/turns_flight.h"

#include "tests/test.h"

static const uint64_t ms = 1000000;

static struct turns turns;
static struct turns_device device;
static struct turns_tenant tenants[2];
static struct turns_seat seats[2];

static void given(enum share_class one, enum share_class other)
{
	const enum share_class class[] = {one, other};

	memset(tenants, 0, sizeof(tenants));
	memset(seats, 0, sizeof(seats));
	turns_init(&turns, &turns_usual);
	turns_device_init(&turns, &device, 0);
	for (size_t i = 0; i < ARRAY_SIZE(seats); i++) {
		const struct turns_share share = {.weight = 100, .class = class[i]};

		turns_tenant_init(&turns, &tenants[i], &share);
		turns_join(&seats[i], &tenants[i], &device, NULL, false, ms);
	}
}

TEST(less_is_under_way_while_another_tenant_waits)
{
	given(SHARE_STANDARD, SHARE_STANDARD);
	expect_eq(turns_flight_ns(&seats[0], false), 20 * ms);
	expect_eq(turns_flight_ns(&seats[0], true), 4 * ms);
}

TEST(least_is_under_way_beside_a_tenant_that_always_comes_first)
{
	given(SHARE_STANDARD, SHARE_INTERACTIVE);
	expect_eq(turns_flight_ns(&seats[0], false), 1 * ms);
	expect_eq(turns_flight_ns(&seats[0], true), 1 * ms);
	expect_eq(turns_flight_ns(&seats[1], false), 20 * ms);
	/* It has left. */
	turns_leave(&seats[1], 2 * ms);
	expect_eq(turns_flight_ns(&seats[0], false), 20 * ms);
}
