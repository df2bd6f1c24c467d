/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/ids.h"
#include "plugin/kubelet/preferred.h"
#include "tests/test.h"

static const char *const uuid = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f";

TEST(a_set_has_the_same_name_in_any_order)
{
	const char *const one[] = {"a::0", "a::1", "b::0"}, *const other[] = {"b::0", "a::0",
									      "a::1"};
	char first[IDS_KEY], second[IDS_KEY];

	ids_key("mete.dev/gpu", one, 3, first);
	ids_key("mete.dev/gpu", other, 3, second);
	expect_str(first, second);
	expect(ids_same(one, 3, other, 3));
}

TEST(sets_that_differ_have_other_names)
{
	static char keys[4096][IDS_KEY];
	char id[IDS_BYTES];
	const char *one = id;
	size_t n = 0;

	for (unsigned i = 0; i < 64; i++) {
		for (unsigned device = 0; device < 8; device++) {
			char name[] = "GPU-x";

			name[4] = (char)('0' + device);
			ids_of_device(name, i, id);
			ids_key("mete.dev/gpu", &one, 1, keys[n]);
			for (size_t k = 0; k < n; k++)
				expect(strcmp(keys[k], keys[n]) != 0);
			n++;
		}
	}
}

TEST(ids_of_another_resource_have_another_name)
{
	const char *const one[] = {"slot-000"};
	char first[IDS_KEY], second[IDS_KEY];

	ids_key("mete.dev/gpu", one, 1, first);
	ids_key("mete.dev/large", one, 1, second);
	expect(strcmp(first, second) != 0);
}

TEST(a_subset_is_not_the_same)
{
	const char *const one[] = {"a::0", "a::1"};

	expect(!ids_same(one, 2, one, 1));
	expect(!ids_same(one, 1, one + 1, 1));
	expect(ids_same(one, 0, one, 0));
}

TEST(an_id_of_a_device_says_its_number)
{
	char id[IDS_BYTES];

	ids_of_device(uuid, 17, id);
	expect_eq(ids_number(id, uuid), 17);
	expect_eq(ids_number("GPU-00010203::1", uuid), -1);
	expect_eq(ids_number(uuid, uuid), -1);
}

TEST(text_that_is_no_id_has_no_number)
{
	static const char *const wrong[] = {"::", "::x",  "::-1",      "::1x",	":1",
					    "",	  "::1 ", "::9999999", "::0x1", "1"};
	char id[128];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		snprintf(id, sizeof(id), "%s%s", uuid, wrong[i]);
		expect_eq(ids_number(id, uuid), -1);
	}
	expect_eq(ids_slot("slot-007"), 7);
	expect_eq(ids_slot("slot-"), -1);
	expect_eq(ids_slot("slot-1b"), -1);
	expect_eq(ids_slot("plot-1"), -1);
}

/* Two devices with three ids each. */
static const struct preferred_id six[] = {{"a0", 0}, {"a1", 0}, {"a2", 0},
					  {"b0", 1}, {"b1", 1}, {"b2", 1}};

TEST(a_container_that_wants_two_gets_two_devices)
{
	const struct preferred_device devices[2] = {{5}, {0}};
	const char *got[6];

	expect_eq(preferred_choose(six, 6, 0, devices, PREFERRED_SPREAD, 2, got), 2);
	expect_str(got[0], "b0");
	expect_str(got[1], "a0");
}

TEST(the_emptier_device_comes_first_and_the_fuller_where_pods_are_packed)
{
	const struct preferred_device devices[2] = {{1}, {2}};
	const char *got[6];

	expect_eq(preferred_choose(six, 6, 0, devices, PREFERRED_SPREAD, 1, got), 1);
	expect_str(got[0], "a0");
	expect_eq(preferred_choose(six, 6, 0, devices, PREFERRED_PACK, 1, got), 1);
	expect_str(got[0], "b0");
}

TEST(nvidias_policies_count_picked_ids_as_taken)
{
	const struct preferred_device even[2] = {{0}, {0}}, odd[2] = {{0}, {2}};
	const char *got[6];

	expect_eq(preferred_choose(six, 6, 0, even, PREFERRED_DISTRIBUTED, 3, got), 3);
	expect_str(got[0], "a0");
	expect_str(got[1], "b0");
	expect_str(got[2], "a1");
	expect_eq(preferred_choose(six, 6, 0, odd, PREFERRED_DISTRIBUTED, 2, got), 2);
	expect_str(got[1], "a1");
	expect_eq(preferred_choose(six, 6, 0, even, PREFERRED_PACKED, 3, got), 3);
	expect_str(got[1], "a1");
	expect_str(got[2], "a2");
	expect_eq(preferred_choose(six, 6, 0, odd, PREFERRED_PACKED, 1, got), 1);
	expect_str(got[0], "b0");
}

TEST(required_ids_are_there_and_count)
{
	const struct preferred_device devices[2] = {{0}, {9}};
	const char *got[6];

	expect_eq(preferred_choose(six, 6, 1, devices, PREFERRED_SPREAD, 2, got), 2);
	expect_str(got[0], "a0");
	expect_str(got[1], "b0");
}

TEST(no_more_ids_are_given_than_there_are)
{
	const struct preferred_device devices[2] = {{0}, {0}};
	const char *got[8];

	expect_eq(preferred_choose(six, 6, 0, devices, PREFERRED_SPREAD, 8, got), 6);
	expect_eq(preferred_choose(six, 0, 0, devices, PREFERRED_SPREAD, 8, got), 0);
	expect_eq(preferred_choose(six, 2, 5, devices, PREFERRED_SPREAD, 8, got), 2);
}

TEST(any_choice_has_no_id_twice)
{
	for (unsigned round = 0; round < test_rounds(2000); round++) {
		struct preferred_device devices[4];
		struct preferred_id ids[20];
		const char *names[] = {"0",  "1",  "2",	 "3",  "4",  "5",  "6",	 "7",  "8",  "9",
				       "10", "11", "12", "13", "14", "15", "16", "17", "18", "19"};
		const char *got[20];
		size_t count = test_random_below(21), must = test_random_below(5),
		       size = test_random_below(21), n;

		for (size_t i = 0; i < 20; i++)
			ids[i] = (struct preferred_id){names[i], (uint32_t)test_random_below(4)};
		for (size_t i = 0; i < 4; i++)
			devices[i].taken = (uint32_t)test_random_below(3);
		n = preferred_choose(ids, count, must, devices, (enum preferred_way)(round % 4),
				     size, got);
		expect_eq(n, size < count ? size : count);
		for (size_t i = 0; i < n; i++)
			for (size_t k = 0; k < i; k++)
				expect(got[i] != got[k]);
		for (size_t i = 0; i < must && i < n; i++)
			expect(got[i] == ids[i].id);
	}
}
