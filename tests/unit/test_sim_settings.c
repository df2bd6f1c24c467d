/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/settings.h"

#include "sim/machine/links.h"

#include "tests/test.h"

static struct settings settings;
static struct fault why;

static void forget(void)
{
	for (size_t i = 0; settings_row(i); i++)
		unsetenv(settings_row(i)->variable);
	unsetenv("METE_SIM_DEVICES");
	unsetenv("METE_SIM_PARTS");
	unsetenv("METE_SIM_DIR");
}

/* On these devices. */
static int divided(const char *devices, const char *parts)
{
	forget();
	setenv("METE_SIM_DEVICES", devices, 1);
	setenv("METE_SIM_PARTS", parts, 1);
	return settings_load(&settings, &why);
}

static int given(const char *variable, const char *value)
{
	forget();
	setenv(variable, value, 1);
	return settings_load(&settings, &why);
}

TEST(without_an_environment_it_is_one_small_device)
{
	forget();
	expect_eq(settings_load(&settings, &why), 0);
	expect_eq(settings.device_count, 1);
	expect_eq(settings.devices[0].sms, 4);
	expect_eq(settings.devices[0].capability_major, 7);
	expect_eq(settings.devices[0].capability_minor, 0);
	expect_eq(settings.devices[0].memory_bytes, 4ULL << 30);
	expect_eq(settings.devices[0].link_rate, 55000000000);
	expect_eq(settings.driver, 12090);
	expect_eq(settings.slice_ns, 2000000);
	expect_eq(settings.given, 0);
}

TEST(every_rows_own_default_and_bounds_are_accepted)
{
	for (size_t i = 0; settings_row(i); i++) {
		const struct settings_row *row = settings_row(i);

		expect_eq(given(row->variable, row->value), 0);
		expect_eq(given(row->variable, row->least), 0);
		expect_eq(given(row->variable, row->most), 0);
		expect_eq(settings.given, 1ULL << i);
	}
}

TEST(every_row_refuses_nonsense_with_its_name_and_its_accepted_values)
{
	static const char *const nonsense[] = {
		"x",	"-1", "1 1",  "4PiB", "1e9",
		"0x10", " 1", "1..2", ".",    "99999999999999999999999"};

	for (size_t i = 0; settings_row(i); i++) {
		for (size_t n = 0; n < ARRAY_SIZE(nonsense); n++) {
			expect_eq(given(settings_row(i)->variable, nonsense[n]), -EINVAL);
			expect(strstr(why.text, settings_row(i)->variable) != NULL);
			expect(strstr(why.text, "wants") != NULL);
		}
	}
}

TEST(a_value_beyond_its_bounds_is_refused)
{
	expect_eq(given("METE_SIM_DILATE", "0"), -EINVAL);
	expect_eq(given("METE_SIM_DILATE", "1001"), -EINVAL);
	expect_eq(given("METE_SIM_DUPLEX", "1.01"), -EINVAL);
	expect_eq(given("METE_SIM_RATE", "0"), -EINVAL);
	expect_str(why.text, "METE_SIM_RATE=0: wants a decimal number such as 0.5, from 0.000001 "
			     "to 1000");
}

TEST(one_setting_is_read_alone)
{
	uint64_t value = 0;

	forget();
	expect_eq(settings_read("driver", &value, &why), 0);
	expect_eq(value, 12090);
	setenv("METE_SIM_DRIVER", "11.4", 1);
	setenv("METE_SIM_RATE", "nonsense", 1);
	expect_eq(settings_read("driver", &value, &why), 0);
	expect_eq(value, 11040);
	setenv("METE_SIM_DRIVER", "2.0", 1);
	expect_eq(settings_read("driver", &value, &why), -EINVAL);
	expect(strstr(why.text, "METE_SIM_DRIVER=2.0") != NULL);
	expect_eq(settings_read("drivers", &value, &why), -EINVAL);
	expect_eq(value, 11040);
}

TEST(bytes_are_binary_and_rates_decimal_unless_their_unit_differs)
{
	expect_eq(given("METE_SIM_MEMORY", "1.5G"), 0);
	expect_eq(settings.devices[0].memory_bytes, 3ULL << 29);
	expect_eq(given("METE_SIM_MEMORY", "512MiB"), 0);
	expect_eq(settings.devices[0].memory_bytes, 512ULL << 20);
	expect_eq(given("METE_SIM_MEMORY", "2GB"), 0);
	expect_eq(settings.devices[0].memory_bytes, 2ULL << 30);
	expect_eq(given("METE_SIM_LINK_RATE", "10G"), 0);
	expect_eq(settings.devices[0].link_rate, 10000000000);
	expect_eq(given("METE_SIM_LINK_RATE", "1GiB"), 0);
	expect_eq(settings.devices[0].link_rate, 1ULL << 30);
	expect_eq(given("METE_SIM_FAULT_COST", "1.5us"), 0);
	expect_eq(settings.fault_ns, 1500);
}

TEST(devices_are_listed_with_counts)
{
	expect_eq(given("METE_SIM_DEVICES", "2xH200,1xT4,l4"), 0);
	expect_eq(settings.device_count, 4);
	expect_str(settings.devices[0].name, "NVIDIA H200");
	expect_str(settings.devices[1].model, "H200");
	expect_eq(settings.devices[1].sms, 132);
	expect_eq(settings.devices[1].capability_major, 9);
	expect_str(settings.devices[2].name, "Tesla T4");
	expect_eq(settings.devices[2].capability_minor, 5);
	expect_str(settings.devices[3].model, "L4");
	expect_eq(given("METE_SIM_DEVICES", "1xB200"), 0);
	expect_eq(settings.devices[0].capability_major, 10);
	expect_eq(settings.devices[0].capability_minor, 0);
}

TEST(parts_lie_where_there_is_room)
{
	static const char devices[] = "1xH100,1xA100-40,1xT4";

	expect_eq(given("METE_SIM_DEVICES", devices), 0);
	expect_eq(settings.part_count, 0);
	expect_eq(divided(devices, "1:1g.5gb,3g.20gb;0:7x1g.10gb"), 0);
	expect_eq(settings.part_count, 9);
	expect(settings.parts[0].gpu == 1 && settings.parts[0].start == 0);
	expect(settings.parts[1].gpu == 1 && settings.parts[1].start == 4);
	expect(settings.parts[8].gpu == 0 && settings.parts[8].start == 6);
}

TEST(parts_that_cannot_be_are_refused)
{
	static const char *const bad[] = {"x",
					  "0",
					  "0:",
					  "0:8x1g.10gb",
					  "0:0x1g.10gb",
					  "0:1g.10gb,",
					  "0:1g.5gb",
					  "1:1g.5gb",
					  "2:1g.10gb",
					  "0:7g.80gb,1g.10gb",
					  "0:2x1g.10gb+me",
					  "0:1g.10gb;0:1g.10gb",
					  "0:3x3g.40gb"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		expect_eq(divided("1xH100,1xA100,1xT4", bad[i]), -EINVAL);
		expect(strstr(why.text, "METE_SIM_PARTS") != NULL);
	}
}

TEST(a_list_of_devices_that_cannot_be_is_refused)
{
	static const char *const bad[] = {
		"H20",	  "0xT4",  "17xT4", "2x",  "x",	   "T4,",	",T4",
		"2 x T4", "T4 T4", "-1xT4", "2T4", "T4x2", "9xT4,8xT4", "99999999999999999999xT4"};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		expect_eq(given("METE_SIM_DEVICES", bad[i]), -EINVAL);
		expect(strstr(why.text, "H200") != NULL);
	}
}

TEST(overrides_apply_to_all_devices_and_one_factor_scales_all_rates)
{
	forget();
	setenv("METE_SIM_DEVICES", "H200,T4", 1);
	setenv("METE_SIM_RATE", "0.5", 1);
	setenv("METE_SIM_SMS", "2", 1);
	setenv("METE_SIM_CAPABILITY", "8.6", 1);
	expect_eq(settings_load(&settings, &why), 0);
	for (int i = 0; i < 2; i++) {
		expect_eq(settings.devices[i].sms, 2);
		expect_eq(settings.devices[i].capability_major, 8);
		expect_eq(settings.devices[i].capability_minor, 6);
	}
	/* From 8.0 on no block has all of its multiprocessor's. */
	expect_eq(settings.devices[0].shared_per_block_bytes, 227 << 10);
	expect_eq(settings.devices[1].shared_per_sm_bytes, 64 << 10);
	expect_eq(settings.devices[1].shared_per_block_bytes, 63 << 10);
	expect_eq(settings.devices[0].link_rate, 27500000000);
	expect_eq(settings.devices[0].device_rate, 2400000000000);
	expect_eq(settings.devices[0].peer_rate, 225000000000);
	expect_eq(settings.devices[0].instruction_rate, 2ULL * 128 * 1980 * 1000000 / 2);
	expect_eq(settings.devices[1].peer_rate, 6150000000);
}

TEST(a_process_that_joins_takes_over_values_it_did_not_set)
{
	struct settings node;

	expect_eq(given("METE_SIM_MEMORY", "8GiB"), 0);
	node = settings;
	forget();
	setenv("METE_SIM_PATTERN", "on", 1);
	expect_eq(settings_load(&settings, &why), 0);
	expect_eq(settings_adopt(&settings, &node, &why), 0);
	expect_eq(settings.devices[0].memory_bytes, 8ULL << 30);
	expect_eq(settings.memory_bytes, 8ULL << 30);
	expect_eq(settings.pattern, 1); /* each process's own */
}

TEST(a_process_that_joins_with_another_value_is_told_which)
{
	struct settings node;

	expect_eq(given("METE_SIM_MEMORY", "8GiB"), 0);
	node = settings;
	expect_eq(given("METE_SIM_MEMORY", "8192MiB"), 0);
	expect_eq(settings_adopt(&settings, &node, &why), 0);
	expect_eq(given("METE_SIM_MEMORY", "4GiB"), 0);
	expect_eq(settings_adopt(&settings, &node, &why), -EEXIST);
	expect(strstr(why.text, "METE_SIM_MEMORY=4GiB") == why.text);
	expect_eq(given("METE_SIM_DEVICES", "T4"), 0);
	expect_eq(settings_adopt(&settings, &node, &why), -EEXIST);
	expect(strstr(why.text, "METE_SIM_DEVICES=T4") == why.text);
}

TEST(the_folder_is_absolute_and_short)
{
	char path[SETTINGS_PATH_MAX], text[200];

	forget();
	expect_eq(settings_folder(path, &why), 0);
	expect(strncmp(path, "/dev/shm/mete-sim-", 18) == 0);
	setenv("METE_SIM_DIR", "here", 1);
	expect_eq(settings_folder(path, &why), -EINVAL);
	memset(text, 'a', sizeof(text) - 1);
	text[0] = '/';
	text[sizeof(text) - 1] = 0;
	setenv("METE_SIM_DIR", text, 1);
	expect_eq(settings_folder(path, &why), -EINVAL);
	setenv("METE_SIM_DIR", "/tmp/x", 1);
	expect_eq(settings_folder(path, &why), 0);
	expect_str(path, "/tmp/x");
}

TEST(links_are_read_in_both_directions_and_refused_with_the_accepted_values)
{
	static const char *const nonsense[] = {
		"0",	    "0-1",     "0-1=",	  "0-1=NV",  "0-1=NV0", "0-1=NV19",
		"0-1=PIX+", "0-1=pix", "0-0=PIX", "0-4=PIX", "-1=PIX",	"0-1=PIX 2-3=PIX",
		"0-1=PIX,x"};
	struct links links;

	expect_eq(links_read(NULL, 4, &links, &why), 0);
	expect(!links.given && links.level[0][1] == LINKS_LEVEL_USUAL && !links.nvlinks[0][1]);
	expect_eq(links_read("0-1=NV4,3-2=SYS+NV12", 4, &links, &why), 0);
	expect(links.given && links.nvlinks[1][0] == 4 && links.level[1][0] == LINKS_LEVEL_USUAL);
	expect(links.nvlinks[2][3] == 12 && links.level[3][2] == 50);
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		expect_eq(links_read(nonsense[i], 4, &links, &why), -EINVAL);
		expect(strstr(why.text, "METE_SIM_LINKS: '") && strstr(why.text, "NV1 to NV18"));
	}
}
