/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/faults.h"

#include "tests/test.h"

static struct faults_row rows[FAULTS_MAX];
static size_t count;
static struct fault why;

TEST(a_fault_has_a_kind_a_time_a_place_and_a_victim)
{
	expect_eq(faults_parse("oom@3, hang@2+:1;slow=5ms/1234\n# nothing\nxid=79 ecc-corrected",
			       rows, &count, &why),
		  0);
	expect_eq(count, 5);
	expect_eq(rows[0].kind, FAULTS_OUT_OF_MEMORY);
	expect_eq(rows[0].first, 3);
	expect_eq(rows[0].last, 3);
	expect_eq(rows[0].device, -1);
	expect_eq(rows[1].kind, FAULTS_HANG);
	expect_eq(rows[1].first, 2);
	expect(rows[1].last == UINT64_MAX);
	expect_eq(rows[1].device, 1);
	expect_eq(rows[2].kind, FAULTS_SLOW);
	expect_eq(rows[2].value, 5000000);
	expect_eq(rows[2].pid, 1234);
	expect_eq(rows[2].first, 1);
	expect_eq(rows[3].kind, FAULTS_XID);
	expect_eq(rows[3].value, 79);
	expect_eq(rows[4].kind, FAULTS_ECC_CORRECTED);
}

TEST(a_change_by_mig_has_the_chosen_answer)
{
	expect_eq(faults_parse("make-gi=no-room@1:2,make-ci=unknown,destroy-ci=in-use@2+"
			       ",destroy-gi=stall/7,die@2",
			       rows, &count, &why),
		  0);
	expect_eq(count, 5);
	expect_eq(rows[0].point, FAULTS_MAKE_GI);
	expect_eq(rows[0].kind, FAULTS_NO_ROOM);
	expect_eq(rows[0].last, 1);
	expect_eq(rows[0].device, 2);
	expect_eq(rows[1].point, FAULTS_MAKE_CI);
	expect_eq(rows[1].kind, FAULTS_UNKNOWN);
	expect_eq(rows[2].point, FAULTS_DESTROY_CI);
	expect_eq(rows[2].kind, FAULTS_IN_USE);
	expect_eq(rows[2].first, 2);
	expect_eq(rows[3].point, FAULTS_DESTROY_GI);
	expect_eq(rows[3].kind, FAULTS_STALL);
	expect_eq(rows[3].pid, 7);
	expect_eq(rows[4].point, FAULTS_DIVISION);
}

TEST(an_empty_text_is_no_fault)
{
	expect_eq(faults_parse("", rows, &count, &why), 0);
	expect_eq(count, 0);
	expect_eq(faults_parse(" ,;\n# oom", rows, &count, &why), 0);
	expect_eq(count, 0);
}

TEST(a_fault_that_cannot_be_read_is_named)
{
	static const char *const bad[] = {"boom",
					  "oom@",
					  "oom@0",
					  "oom@-1",
					  "oom=3@",
					  "xid",
					  "xid=",
					  "xid=x",
					  "slow",
					  "slow=5",
					  "slow=5m",
					  "hang:16",
					  "hang:",
					  "hang/0",
					  "hang/x",
					  "hang@1++",
					  "oom3",
					  "oom@99999999999999999999",
					  "@3",
					  "slow=5ms=",
					  "make-gi",
					  "make-gi=",
					  "make-gi=full",
					  "make-ci=in-use=",
					  "make-ci=elsewhere"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int r = faults_parse(bad[i], rows, &count, &why);

		if (strcmp(bad[i], "slow=5") == 0) {
			expect_eq(r, 0); /* nanoseconds */
			continue;
		}
		if (r != -EINVAL)
			printf("%s\n", bad[i]);
		expect_eq(r, -EINVAL);
		expect(strstr(why.text, "wants KIND") != NULL);
	}
}

TEST(there_is_a_limit_to_misfortune)
{
	char text[FAULTS_MAX * 4 + 8] = "";

	for (int i = 0; i < FAULTS_MAX; i++)
		strcat(text, "oom,");
	expect_eq(faults_parse(text, rows, &count, &why), 0);
	expect_eq(count, FAULTS_MAX);
	strcat(text, "oom");
	expect_eq(faults_parse(text, rows, &count, &why), -EINVAL);
}
