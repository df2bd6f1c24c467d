/* SPDX-License-Identifier: Apache-2.0 */
#include "core/doing.h"
#include "tests/test.h"
#include "view/ps_rows.h"
#include "wire/page.h"

static const char *state_of(const struct wire_tenant_row *tenant)
{
	static struct ps_text said;
	struct wire_message row = {.code = WIRE_tenant_row, .tenant_row = *tenant};
	struct ps_rows rows = {.row = &row, .count = 1};
	int bad;

	said = ps_state(&rows, &row.tenant_row, &bad);
	return said.text;
}

TEST(a_tenant_whose_gate_is_closed_is_not_said_to_have_one_that_cannot_be)
{
	struct wire_tenant_row tenant = {
		.tenant = 1, .guests = 1, .coupled = 1, .doing = DOING_SUSPENDED};

	tenant.gate = WIRE_GATE_CLOSING;
	expect_str(state_of(&tenant),
		   "suspended by `mete suspend`, coupled: its gate could not be closed");
	tenant.gate = WIRE_GATE_CLOSED;
	expect_str(state_of(&tenant), "suspended by `mete suspend`");
}

TEST(a_wait_is_told_in_milliseconds_up_to_a_second)
{
	expect_str(ps_wait(0).text, "0.00 ms");
	expect_str(ps_wait(417000).text, "0.42 ms");
	expect_str(ps_wait(999.4e6).text, "999.40 ms");
	expect_str(ps_wait(1e9).text, "1.0 s");
	expect_str(ps_wait(90.25e9).text, "90.2 s");
}
