/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs that MIG has divided, as tests/drivers/divided/nvml.c shows them. */
#include "node/devices/nvml.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

static struct nvml *opened(void)
{
	struct nvml *nvml;
	struct fault why;

	if (nvml_open(DIVIDED, &nvml, &why) < 0)
		test_fail(__FILE__, __LINE__, "%s", why.text);
	return nvml;
}

TEST(a_divided_gpu_is_its_parts_and_another_is_itself)
{
	struct nvml *nvml = opened();

	expect_eq(nvml_count(nvml), 3);
	expect_str(nvml_device(nvml, 0)->uuid_text, "MIG-00000000-0000-0000-0000-000000000011");
	expect_eq(nvml_device(nvml, 0)->total_bytes, 18ull << 30);
	expect_eq(nvml_device(nvml, 0)->minor, 5);
	expect_eq(nvml_device(nvml, 0)->gpu_instance, 1);
	expect_eq(nvml_device(nvml, 1)->gpu_instance, 2);
	expect_eq(nvml_device(nvml, 1)->compute_instance, 0);
	expect_str(nvml_device(nvml, 2)->uuid_text, "GPU-00000000-0000-0000-0000-000000000002");
	expect_eq(nvml_device(nvml, 2)->gpu_instance, -1);
	expect_eq(nvml_device(nvml, 2)->minor, 6);
	nvml_close(nvml);
}

static const char path[] = "nvml_parts.txt";

/* By a file, from now on. */
static void divide(const char *parts)
{
	FILE *file = fopen(path, "we");

	expect(file && fputs(parts, file) >= 0 && fclose(file) == 0);
	setenv("METE_TEST_DIVIDED", path, 1);
}

static void divide_no_more(void)
{
	unlink(path);
	unsetenv("METE_TEST_DIVIDED");
}

TEST(devices_are_counted_as_nvidias_tools_count)
{
	struct nvml *nvml = opened();

	expect_eq(nvml_device(nvml, 0)->gpu_index, 0);
	expect_eq(nvml_device(nvml, 0)->part_index, 1);
	expect_eq(nvml_device(nvml, 1)->gpu_index, 0);
	expect_eq(nvml_device(nvml, 1)->part_index, 2);
	expect_eq(nvml_device(nvml, 2)->gpu_index, 1);
	nvml_close(nvml);
}

TEST(a_gpu_that_mig_is_to_divide_and_has_not_is_no_device)
{
	struct nvml *nvml;

	divide("");
	nvml = opened();
	expect_eq(nvml_count(nvml), 1);
	expect_str(nvml_device(nvml, 0)->uuid_text, "GPU-00000000-0000-0000-0000-000000000002");
	expect_eq(nvml_device(nvml, 0)->gpu_index, 1);
	/* And is known all the same. */
	expect_eq(nvml_unparted(nvml), 1);
	expect_eq(nvml_unparted_gpu(nvml, 0)->gpu_index, 0);
	expect_str(nvml_unparted_gpu(nvml, 0)->uuid_text,
		   "GPU-00000000-0000-0000-0000-000000000001");
	expect_eq(nvml_unparted_gpu(nvml, 0)->gpu_instance, -1);
	nvml_close(nvml);
	divide_no_more();
}

TEST(a_part_that_was_destroyed_answers_no_more_until_it_is_made_anew)
{
	struct nvml *nvml = opened();

	expect(nvml_answers(nvml, 0) && nvml_answers(nvml, 1) && nvml_answers(nvml, 2));
	divide("2");
	expect(!nvml_answers(nvml, 0) && nvml_answers(nvml, 1) && nvml_answers(nvml, 2));
	divide("-");
	expect(!nvml_answers(nvml, 0) && !nvml_answers(nvml, 1) && nvml_answers(nvml, 2));
	divide("12*");
	expect(nvml_answers(nvml, 0) && nvml_answers(nvml, 1) && nvml_answers(nvml, 2));
	nvml_close(nvml);
	divide_no_more();
}

TEST(a_gpu_that_mig_divides_now_answers_no_more)
{
	struct nvml *nvml;

	divide("-");
	nvml = opened();
	expect_eq(nvml_count(nvml), 2);
	expect(nvml_answers(nvml, 0) && nvml_answers(nvml, 1));
	divide("");
	expect(!nvml_answers(nvml, 0) && nvml_answers(nvml, 1));
	nvml_close(nvml);
	divide_no_more();
}

static void look_again(struct nvml *nvml)
{
	struct fault why;

	expect(nvml_news(nvml) != 0);
	expect_eq(nvml_look_again(nvml, &why), 0);
	nvml_accept(nvml);
	expect_eq(nvml_news(nvml), 0);
}

TEST(a_gpu_that_has_lost_all_of_its_parts_is_news_once)
{
	struct nvml *nvml;

	divide("12");
	nvml = opened();
	expect_eq(nvml_unparted(nvml), 0);
	/* One of two parts: the GPU is divided still. */
	divide("1");
	expect_eq(nvml_news(nvml), 0);
	divide("");
	look_again(nvml);
	expect_eq(nvml_unparted(nvml), 1);
	expect_eq(nvml_count(nvml), 3);
	expect(nvml_device(nvml, 0)->gone && nvml_device(nvml, 1)->gone);
	expect(!nvml_device(nvml, 2)->gone);
	divide("1");
	look_again(nvml);
	expect_eq(nvml_unparted(nvml), 0);
	expect(!nvml_device(nvml, 0)->gone && nvml_device(nvml, 1)->gone);
	divide("");
	look_again(nvml);
	divide_no_more();
	nvml_close(nvml);
}

TEST(devices_keep_their_places_when_mig_divides_a_gpu_anew)
{
	struct nvml *nvml;
	struct fault why;

	divide("2");
	nvml = opened();
	expect_eq(nvml_count(nvml), 2);
	expect_eq(nvml_news(nvml), 0);
	divide("1");
	expect_eq(nvml_look_again(nvml, &why), 0);
	expect_eq(nvml_count(nvml), 2);
	expect(!nvml_device(nvml, 0)->gone);
	look_again(nvml);
	expect_eq(nvml_count(nvml), 3);
	expect(nvml_device(nvml, 0)->gone && !nvml_device(nvml, 1)->gone);
	expect_str(nvml_device(nvml, 2)->uuid_text, "MIG-00000000-0000-0000-0000-000000000011");
	expect_eq(nvml_device(nvml, 2)->gpu_index, 0);
	expect_eq(nvml_device(nvml, 2)->gpu_instance, 1);
	/* A device that is back is as it was. */
	divide("12");
	look_again(nvml);
	expect_eq(nvml_count(nvml), 3);
	expect(!nvml_device(nvml, 0)->gone && !nvml_device(nvml, 2)->gone);
	divide("-");
	look_again(nvml);
	expect_eq(nvml_count(nvml), 4);
	expect(nvml_device(nvml, 0)->gone && nvml_device(nvml, 2)->gone);
	expect_eq(nvml_device(nvml, 3)->gpu_instance, -1);
	expect_eq(nvml_link(nvml, 3, 1).nvlinks, 0);
	nvml_close(nvml);
	divide_no_more();
}

/* `part_index` names a part in containers' environments and in the configuration, and its place is
 * published. */
TEST(parts_are_counted_anew_when_others_are_made_and_destroyed)
{
	struct nvml *nvml;

	divide("2");
	nvml = opened();
	expect_eq(nvml_device(nvml, 0)->part_index, 1);
	divide("1");
	look_again(nvml);
	expect_eq(nvml_device(nvml, 2)->part_index, 1);
	divide("12");
	look_again(nvml);
	expect_eq(nvml_device(nvml, 2)->part_index, 1);
	expect_eq(nvml_device(nvml, 0)->part_index, 2);
	expect_eq(nvml_device(nvml, 0)->part.memory_first, 1);
	expect_eq(nvml_device(nvml, 0)->part.memory_slices, 1);
	expect_eq(nvml_device(nvml, 0)->part.gpu_memory_slices, 2);
	divide("21");
	look_again(nvml);
	expect_eq(nvml_count(nvml), 3);
	expect_eq(nvml_device(nvml, 0)->part_index, 1);
	expect_eq(nvml_device(nvml, 0)->part.memory_first, 0);
	expect_eq(nvml_device(nvml, 2)->part_index, 2);
	/* A part less is news where another one has its index. */
	divide("1");
	look_again(nvml);
	expect(nvml_device(nvml, 0)->gone && !nvml_device(nvml, 2)->gone);
	expect_eq(nvml_device(nvml, 2)->part_index, 1);
	nvml_close(nvml);
	divide_no_more();
}

static int ask_who_is_busy(struct nvml *nvml, uint32_t index)
{
	struct nvml_busy row[8];
	uint32_t count;

	return nvml_busy(nvml, index, 0, row, ARRAY_SIZE(row), &count);
}

TEST(a_part_that_is_back_is_asked_by_the_handle_that_it_has_now)
{
	struct nvml *nvml;

	setenv("METE_TEST_SAMPLES", "3 3 0", 1);
	divide("2");
	nvml = opened();
	expect_eq(ask_who_is_busy(nvml, 0), 0);
	divide("1");
	look_again(nvml);
	expect_eq(ask_who_is_busy(nvml, 0), -EIO);
	divide("12*");
	look_again(nvml);
	expect_eq(ask_who_is_busy(nvml, 0), 0);
	expect_eq(ask_who_is_busy(nvml, 2), 0);
	unsetenv("METE_TEST_SAMPLES");
	nvml_close(nvml);
	divide_no_more();
}

TEST(a_part_that_does_not_tell_its_uuid_is_no_news_and_none_is_gone)
{
	struct nvml *nvml;
	struct fault why;

	divide("12");
	nvml = opened();
	divide("2?");
	expect_eq(nvml_news(nvml), 0);
	expect_eq(nvml_look_again(nvml, &why), 0);
	nvml_accept(nvml);
	expect_eq(nvml_count(nvml), 3);
	for (uint32_t i = 0; i < nvml_count(nvml); i++)
		expect(!nvml_device(nvml, i)->gone);
	nvml_close(nvml);
	divide_no_more();
}

TEST(an_event_of_a_gpu_befalls_its_parts_unless_the_driver_names_one)
{
	static const uint32_t whom[] = {1, 0, 1, 2};
	struct nvml *nvml = opened();
	struct nvml_event events[8];
	uint32_t count = 0;

	setenv("METE_TEST_XID", "1", 1);
	expect_eq(nvml_events(nvml, UINT32_MAX, events, ARRAY_SIZE(events), &count), 0);
	unsetenv("METE_TEST_XID");
	expect_eq(count, ARRAY_SIZE(whom));
	for (uint32_t i = 0; i < count; i++) {
		expect_eq(events[i].index, whom[i]);
		expect_eq(events[i].xid, 79);
	}
	nvml_close(nvml);
}

TEST(an_event_that_has_no_room_for_all_that_it_befalls_waits_for_the_next_call)
{
	struct nvml *nvml = opened();
	struct nvml_event events[2];
	uint32_t count = 0;

	setenv("METE_TEST_XID", "1", 1);
	expect_eq(nvml_events(nvml, 2, events, ARRAY_SIZE(events), &count), 0);
	expect_eq(count, 1);
	expect_eq(nvml_events(nvml, 2, events, ARRAY_SIZE(events), &count), 0);
	unsetenv("METE_TEST_XID");
	expect_eq(count, 2);
	expect_eq(events[0].index, 0);
	expect_eq(events[1].index, 1);
	nvml_close(nvml);
}

/* meted has places for 64: what the driver has beyond them befalls nobody. */
TEST(events_of_devices_that_are_not_asked_about_are_left_out)
{
	struct nvml *nvml = opened();
	struct nvml_event events[8];
	uint32_t count = 0;

	setenv("METE_TEST_XID", "1", 1);
	expect_eq(nvml_events(nvml, 2, events, ARRAY_SIZE(events), &count), 0);
	unsetenv("METE_TEST_XID");
	expect_eq(count, 3);
	for (uint32_t i = 0; i < count; i++)
		expect(events[i].index < 2);
	nvml_close(nvml);
}
