/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of a journal's records; random journals against a naive reading of them. */
#include "node/state/past.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

static struct past past;

static void given(const char *const *lines)
{
	past_done(&past);
	while (*lines)
		past_add(&past, *lines++);
	past_settle(&past);
}

static size_t alive(void)
{
	size_t count = 0;

	for (size_t i = 0; i < past.count; i++)
		count += past.records[i].text != NULL;
	return count;
}

static int has(const char *line)
{
	for (size_t i = 0; i < past.count; i++) {
		if (past.records[i].text && strcmp(past.records[i].text, line) == 0)
			return 1;
	}
	return 0;
}

TEST(the_latest_record_counts_and_one_that_was_taken_back_does_not)
{
	given((const char *const[]){
		"last id=3", "tenant id=4 name=a", "tenant id=5 name=b", "tenant id=4 name=c",
		"guest tenant=4 pid=1 started=1", "guest tenant=4 pid=1 started=2",
		"left tenant=4 pid=1 started=1", "held tenant=4 device=0 most=1",
		"held tenant=4 device=1 most=1", "held tenant=4 device=0 most=2",
		"reserved device=GPU-1 pid=1 started=1 until=0", "reserved device=GPU-2 pid=1",
		"told tenant=4 device=0 kind=1", "told tenant=4 device=1 kind=2",
		"over tenant=4 device=0", "free device=GPU-1", "nonsense id=9",
		"left tenant=4 pid=7 started=7", NULL});
	expect_eq(past.last_tenant, 5);
	expect(has("tenant id=4 name=c") && has("tenant id=5 name=b"));
	expect(has("guest tenant=4 pid=1 started=2"));
	expect(has("held tenant=4 device=0 most=2") && has("held tenant=4 device=1 most=1"));
	expect(has("reserved device=GPU-2 pid=1"));
	expect(has("end id=4") == 0);
	expect(has("told tenant=4 device=1 kind=2"));
	expect_eq(alive(), 7);
}

TEST(the_end_of_a_tenant_takes_its_guests_and_bounds_along)
{
	given((const char *const[]){"tenant id=4 name=a", "guest tenant=4 pid=1 started=1",
				    "held tenant=4 device=0 most=1", "tenant id=40 name=b",
				    "guest tenant=40 pid=1 started=1",
				    "told tenant=4 device=0 kind=1", "owed tenant=4 device=0 cap=7",
				    "owed tenant=40 device=0 cap=1",
				    "owed tenant=40 device=0 cap=2", "end id=4", NULL});
	expect(has("tenant id=40 name=b") && has("guest tenant=40 pid=1 started=1"));
	expect(!has("tenant id=4 name=a") && !has("guest tenant=4 pid=1 started=1"));
	expect(has("owed tenant=40 device=0 cap=2"));
	expect(!has("owed tenant=40 device=0 cap=1") && !has("owed tenant=4 device=0 cap=7"));
	expect(!has("held tenant=4 device=0 most=1") && !has("told tenant=4 device=0 kind=1"));
}

enum { LINES = 200, LENGTH = 64 };

static struct {
	char line[LINES][LENGTH];
	int alive[LINES];
} naive;

/* Does `line` take the place of `old`, or take it back? */
static int replaces(const char *line, const char *old)
{
	unsigned a[3] = {0}, b[3] = {0};

	if (sscanf(line, "end id=%u", a) == 1)
		return (sscanf(old, "tenant id=%u", b) == 1 && a[0] == b[0]) ||
		       (sscanf(old, "guest tenant=%u", b) == 1 && a[0] == b[0]) ||
		       (sscanf(old, "held tenant=%u", b) == 1 && a[0] == b[0]);
	if (sscanf(line, "tenant id=%u", a) == 1)
		return sscanf(old, "tenant id=%u", b) == 1 && a[0] == b[0];
	if (sscanf(line, "held tenant=%u device=%u", a, a + 1) == 2)
		return sscanf(old, "held tenant=%u device=%u", b, b + 1) == 2 &&
		       memcmp(a, b, sizeof(a)) == 0;
	if (sscanf(line, "guest tenant=%u pid=%u started=%u", a, a + 1, a + 2) == 3 ||
	    sscanf(line, "left tenant=%u pid=%u started=%u", a, a + 1, a + 2) == 3)
		return sscanf(old, "guest tenant=%u pid=%u started=%u", b, b + 1, b + 2) == 3 &&
		       memcmp(a, b, sizeof(a)) == 0;
	return 0;
}

static void random_line(char *line, unsigned n)
{
	unsigned tenant = (unsigned)test_random_below(5), other = (unsigned)test_random_below(4);

	switch (test_random_below(8)) {
	case 0:
		snprintf(line, LENGTH, "tenant id=%u name=%u", tenant, n);
		break;
	case 1:
		snprintf(line, LENGTH, "end id=%u", tenant);
		break;
	case 2:
	case 3:
		snprintf(line, LENGTH, "held tenant=%u device=%u most=%u", tenant, other, n);
		break;
	case 4:
		snprintf(line, LENGTH, "left tenant=%u pid=%u started=1", tenant, other);
		break;
	default:
		snprintf(line, LENGTH, "guest tenant=%u pid=%u started=1", tenant, other);
		break;
	}
}

TEST(any_journal_is_understood_as_by_a_naive_reader)
{
	for (unsigned round = 0; round < test_rounds(200); round++) {
		size_t wanted = 0;

		past_done(&past);
		for (unsigned n = 0; n < LINES; n++) {
			char *line = naive.line[n];

			random_line(line, n);
			past_add(&past, line);
			for (unsigned i = 0; i < n; i++)
				naive.alive[i] &= !replaces(line, naive.line[i]);
			naive.alive[n] =
				strncmp(line, "end", 3) != 0 && strncmp(line, "left", 4) != 0;
		}
		past_settle(&past);
		for (unsigned n = 0; n < LINES; n++) {
			expect(!naive.alive[n] || has(naive.line[n]));
			wanted += (size_t)naive.alive[n];
		}
		expect_eq(alive(), wanted);
	}
	past_done(&past);
}
