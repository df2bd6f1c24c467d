/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cli/pick_choose.h"
#include "tests/test.h"

/* Of 100 bytes, but the fourth, of 1000, and the last, of 50. */
static const struct pick_gpu gpus[] = {
	{0, "GPU-a", 0.40, 0.10, 100, 90}, {1, "GPU-b", 0.00, 0.30, 100, 70},
	{2, "GPU-c", 0.90, 0.05, 100, 95}, {3, "GPU-d", NAN, 0.20, 1000, 800},
	{4, "GPU-e", 0.10, 0.60, 100, 40}, {5, "GPU-f", 0.10, 0.00, 50, 50},
};

static struct pick_criteria usual(enum pick_order order)
{
	return (struct pick_criteria){
		.order = order, .limit = 1, .max_load = 0.5, .max_memory = 0.5};
}

static uint64_t nobody(void)
{
	test_fail(__FILE__, __LINE__, "randomness that was not asked for");
}

/* The indices chosen, as a text. */
static const char *chosen(const struct pick_criteria *criteria, uint64_t (*random)(void))
{
	static char text[PICK_GPUS * 3];
	size_t order[PICK_GPUS];
	size_t n = pick_choose(gpus, ARRAY_SIZE(gpus), criteria, random, order), used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%u",
					 gpus[order[i]].index);
	return text;
}

TEST(busy_and_full_and_silent_gpus_are_left_out)
{
	struct pick_criteria c = usual(PICK_FIRST);

	expect_str(chosen(&c, nobody), "015");
	c.include_nan = true;
	expect_str(chosen(&c, nobody), "0135");
	c.max_load = c.max_memory = 1.01;
	expect_str(chosen(&c, nobody), "012345");
	c.max_load = 0;
	expect_str(chosen(&c, nobody), "3");
}

TEST(the_limits_are_not_reached_themselves)
{
	struct pick_criteria c = usual(PICK_FIRST);

	c.max_load = 0.4;
	expect_str(chosen(&c, nobody), "15");
	c.max_load = 0.41;
	expect_str(chosen(&c, nobody), "015");
}

TEST(orders_are_gputils)
{
	struct pick_criteria c = usual(PICK_LAST);

	expect_str(chosen(&c, nobody), "510");
	c.order = PICK_LOAD;
	expect_str(chosen(&c, nobody), "150");
	c.order = PICK_MEMORY;
	expect_str(chosen(&c, nobody), "501");
	c.order = PICK_LOAD;
	c.include_nan = true;
	expect_str(chosen(&c, nobody), "1503");
}

static uint64_t counting_down(void)
{
	static uint64_t next = 100;

	return next-- << 20;
}

TEST(random_is_the_generators_order)
{
	struct pick_criteria c = usual(PICK_RANDOM);

	expect_str(chosen(&c, counting_down), "510");
}

TEST(gpus_are_excluded_by_index_and_uuid)
{
	struct pick_criteria c = usual(PICK_FIRST);

	c.exclude = "1,GPU-f";
	expect_str(chosen(&c, nobody), "0");
	c.exclude = "5";
	expect_str(chosen(&c, nobody), "01");
}

TEST(excluded_gpus_must_be_there)
{
	const char *const wrong[] = {"foo", "",	  "1,",	 ",1",	  "1,,2", "6",
				     "01",  "-1", "GPU", "GPU-g", "1 "};
	struct fault why;

	expect_eq(pick_check_exclude(NULL, gpus, 6, 6, &why), 0);
	expect_eq(pick_check_exclude("0,GPU-f,5", gpus, 6, 6, &why), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		expect_eq(pick_check_exclude(wrong[i], gpus, 6, 6, &why), -ENODEV);
	expect_eq(pick_check_exclude("3,foo", gpus, 6, 6, &why), -ENODEV);
	expect_str(why.text, "--exclude: there is no 'foo'; accepted: UUIDs and indices below 6 "
			     "(`mete ps` lists them)");
	/* One that is broken does not say its name. */
	expect_eq(pick_check_exclude("6,GPU-g", gpus, 6, 7, &why), 0);
	expect_eq(pick_check_exclude("foo", gpus, 6, 7, &why), -ENODEV);
}

TEST(each_gpu_that_does_not_qualify_is_named_with_its_cause)
{
	struct pick_criteria c = usual(PICK_FIRST);
	char said[300];

	pick_say_unfit(&c, gpus, ARRAY_SIZE(gpus), said, sizeof(said));
	expect_str(
		said,
		"the driver does not say (--include-nan): 3; load not below 50 % (--max-load): 2; "
		"memory in use not below 50 % (--max-memory): 4");
	c.max_load = 0.255;
	c.memory_free.bytes = 80;
	c.exclude = "2,3";
	pick_say_unfit(&c, gpus, ARRAY_SIZE(gpus), said, sizeof(said));
	expect_str(said, "load not below 25.5 % (--max-load): 0; memory in use not below 50 % "
			 "(--max-memory): 4; "
			 "less memory free than --memory-free: 1,5");
	pick_say_unfit(&c, gpus, ARRAY_SIZE(gpus), said, 20);
	expect_str(said, "load not below 25.5");
	pick_say_unfit(&c, gpus, 0, said, sizeof(said));
	expect_str(said, "");
}

TEST(an_unknown_order_is_refused_with_the_known_ones)
{
	enum pick_order order;
	struct fault why;

	expect_eq(pick_parse_order("memory", &order, &why), 0);
	expect_eq(order, PICK_MEMORY);
	expect_eq(pick_parse_order("best", &order, &why), -EINVAL);
	expect_str(why.text, "--order 'best': first, last, random, load, memory or memory-free is "
			     "accepted");
}

TEST(as_much_memory_is_free_as_asked_in_bytes_or_of_each_gpus_own)
{
	struct pick_criteria c = usual(PICK_FIRST);

	c.include_nan = true;
	c.memory_free.bytes = 70;
	expect_str(chosen(&c, nobody), "013");
	c.memory_free.bytes = 71;
	expect_str(chosen(&c, nobody), "03");
	c.memory_free = (struct share_amount){.milli = 800};
	expect_str(chosen(&c, nobody), "035");
	c.memory_free.milli = 801;
	expect_str(chosen(&c, nobody), "05");
	c.memory_free = (struct share_amount){0};
	c.order = PICK_MEMORY_FREE;
	expect_str(chosen(&c, nobody), "3015");
}

TEST(a_gpu_whose_free_memory_is_unknown_counts_as_asked)
{
	const struct pick_gpu silent = {0, "GPU-a", 0, NAN, 0, 0};
	struct pick_criteria c = usual(PICK_MEMORY_FREE);
	size_t order[PICK_GPUS];

	c.memory_free.bytes = 1;
	expect_eq(pick_choose(&silent, 1, &c, nobody, order), 0);
	c.include_nan = true;
	expect_eq(pick_choose(&silent, 1, &c, nobody, order), 1);
}
