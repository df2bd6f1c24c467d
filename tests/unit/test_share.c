/* SPDX-License-Identifier: Apache-2.0 */
#include "core/share/share.h"

#include "tests/test.h"

#define KIB (1ull << 10)
#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct share_amount amount;

static uint64_t bytes_of(const char *text)
{
	expect_eq(share_parse_amount(text, &amount), 0);
	expect_eq(amount.milli, 0);
	return amount.bytes;
}

TEST(bytes_take_binary_units)
{
	expect_eq(bytes_of("20GiB"), 20 * GIB);
	expect_eq(bytes_of("4Gi"), 4 * GIB);
	expect_eq(bytes_of("512MiB"), 512 * MIB);
	expect_eq(bytes_of("1Ki"), KIB);
	expect_eq(bytes_of("2tib"), 2048 * GIB);
	expect_eq(bytes_of("123B"), 123);
}

TEST(a_unit_is_a_power_of_1024_however_it_is_written)
{
	static const char *const rows[] = {"4G",   "4g",       "4GB",	    "4gb",
					   "4Gi",  "4GiB",     "4096M",	    "4096MB",
					   "4.0G", "4194304K", "4294967296"};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_eq(bytes_of(rows[i]), 4 * GIB);
	expect_eq(bytes_of("1T"), 1024 * GIB);
	expect_eq(bytes_of("1048576"), MIB);
}

TEST(fractions_are_exact)
{
	expect_eq(bytes_of("1.5GiB"), GIB + GIB / 2);
	expect_eq(bytes_of("0.5KiB"), 512);
	expect_eq(bytes_of("0.1GiB"), GIB / 10);
	expect_eq(bytes_of("0.999999999TiB"), 1099511626676);
	expect_eq(bytes_of("3.25TiB"), 13 * (1ull << 38));
}

TEST(a_part_of_a_device_is_a_percentage_or_a_fraction)
{
	uint64_t bytes = 0;

	expect_eq(share_parse_amount("25%", &amount), 0);
	expect_eq(amount.milli, 250);
	expect_eq(share_bytes(&amount, 80 * GIB, &bytes), 0);
	expect_eq(bytes, 20 * GIB);
	expect_eq(share_parse_amount("12.5%", &amount), 0);
	expect_eq(amount.milli, 125);
	expect_eq(share_parse_amount("1000/1000", &amount), 0);
	expect_eq(share_bytes(&amount, UINT64_MAX, &bytes), 0);
	expect(bytes == UINT64_MAX);
	expect_eq(share_parse_amount("1/3", &amount), 0);
	expect_eq(amount.milli, 333);
	expect_eq(share_parse_amount("1/1000", &amount), 0);
	expect_eq(share_bytes(&amount, 999, &bytes), SHARE_ZERO);
}

TEST(text_that_is_no_amount_is_refused_with_its_reason)
{
	static const struct {
		const char *text;
		int outcome;
	} rows[] = {
		{"", SHARE_EMPTY},
		{"-1GiB", SHARE_NEGATIVE},
		{"0", SHARE_ZERO},
		{"0GiB", SHARE_ZERO},
		{"0%", SHARE_ZERO},
		{"4", SHARE_BARE},
		{"1048575", SHARE_BARE},
		{"8000000.5", SHARE_BARE},
		{"256m", SHARE_MILLI},
		{"0.25", SHARE_BARE},
		{"0.0", SHARE_ZERO},
		{"1/0", SHARE_ZERO},
		{"2/1", SHARE_LARGE},
		{"1/1001", SHARE_LARGE},
		{"1/", SHARE_EMPTY},
		{"0/4", SHARE_ZERO},
		{"1/4x", SHARE_NONSENSE},
		{"4 GiB", SHARE_UNIT},
		{"4GiBs", SHARE_UNIT},
		{"4EiB", SHARE_UNIT},
		{" 4GiB", SHARE_NONSENSE},
		{"+4GiB", SHARE_NONSENSE},
		{"four", SHARE_NONSENSE},
		{"1.GiB", SHARE_NONSENSE},
		{".5GiB", SHARE_NONSENSE},
		{"1.0000000001GiB", SHARE_NONSENSE},
		{"0x10MiB", SHARE_UNIT},
		{"1e3MiB", SHARE_UNIT},
		{"1.5m", SHARE_MILLI},
		{"1.5/4", SHARE_NONSENSE},
		{"101%", SHARE_LARGE},
		{"100.1%", SHARE_LARGE},
		{"99999999999999999999B", SHARE_LARGE},
		{"16777216TiB", SHARE_LARGE},
		{"18446744073709551616B", SHARE_LARGE},
		/* Its thousandfold, without the bits that are too many, is 384. */
		{"18446744073709552/1", SHARE_LARGE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int r = share_parse_amount(rows[i].text, &amount);

		if (r != rows[i].outcome)
			test_fail(__FILE__, __LINE__, "'%s' gives %d, wanted %d", rows[i].text, r,
				  rows[i].outcome);
	}
}

TEST(a_limit_larger_than_the_device_is_refused)
{
	uint64_t bytes = 7;

	expect_eq(share_parse_amount("8GiB", &amount), 0);
	expect_eq(share_bytes(&amount, 4 * GIB, &bytes), SHARE_LARGE);
	expect_eq(bytes, 7);
	expect_eq(share_bytes(&amount, 8 * GIB, &bytes), 0);
}

TEST(durations_have_a_unit_and_an_upper_bound)
{
	uint64_t ns = 0;

	expect_eq(share_parse_duration("10s", &ns), 0);
	expect_eq(ns, 10000000000ull);
	expect_eq(share_parse_duration("1.5ms", &ns), 0);
	expect_eq(ns, 1500000);
	expect_eq(share_parse_duration("0", &ns), 0);
	expect_eq(ns, 0);
	expect_eq(share_parse_duration("10", &ns), SHARE_UNIT);
	expect_eq(share_parse_duration("1h", &ns), 0);
	expect_eq(ns, 3600000000000ull);
	expect_eq(share_parse_duration("2h", &ns), SHARE_LARGE);
	expect_eq(share_parse_duration("1.000000001h", &ns), SHARE_LARGE);
	/* 0.5 s beyond what 64 bits hold is not 0.4 s. */
	expect_eq(share_parse_duration("18446744073.8s", &ns), SHARE_LARGE);
	expect_eq(share_parse_duration("-1s", &ns), SHARE_NEGATIVE);
	expect_eq(share_parse_duration("5124095576030431h", &ns), SHARE_LARGE);
}

TEST(a_part_is_written_in_percent_as_a_fraction_or_with_a_point)
{
	static const struct {
		const char *text;
		uint32_t most;
		int outcome;
		uint32_t milli;
	} rows[] = {
		{"25%", 1000, 0, 250},
		{"12.5%", 1000, 0, 125},
		{"1/4", 1000, 0, 250},
		{"250/1000", 1000, 0, 250},
		{"0.25", 1000, 0, 250},
		{"0.9999", 1000, 0, 999},
		{"1.0", 1000, 0, 1000},
		{"0", 1000, 0, 0},
		{"0.0", 1000, 0, 0},
		{"0%", 1000, 0, 0},
		{"100%", 1000, 0, 1000},
		{"5/4", 4000, 0, 1250},
		{"125%", 4000, 0, 1250},
		{"1.25", 4000, 0, 1250},
		{"400%", 4000, 0, 4000},
		{"", 1000, SHARE_EMPTY, 0},
		{"1", 1000, SHARE_UNIT, 0},
		{"25", 1000, SHARE_UNIT, 0},
		{"250m", 1000, SHARE_THOUSANDTHS, 0},
		{"0.5G", 1000, SHARE_UNIT, 0},
		{"-0.5", 1000, SHARE_NEGATIVE, 0},
		{"1.001", 1000, SHARE_LARGE, 0},
		{"1.0000001", 1000, SHARE_LARGE, 0},
		{"100.01%", 1000, SHARE_LARGE, 0},
		{"5/4", 1000, SHARE_LARGE, 0},
		{"401%", 4000, SHARE_LARGE, 0},
		{"18446744073709551615.5", 4000, SHARE_LARGE, 0},
		{"18446744073709551615%", 4000, SHARE_LARGE, 0},
		{"18446744073709551615/1", 4000, SHARE_LARGE, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint32_t milli = 0;
		int r = share_parse_part(rows[i].text, rows[i].most, &milli);

		if (r != rows[i].outcome || milli != rows[i].milli)
			test_fail(__FILE__, __LINE__, "'%s' gives %d and %u, wanted %d and %u",
				  rows[i].text, r, milli, rows[i].outcome, rows[i].milli);
	}
}

TEST(a_time_has_a_unit_from_nanoseconds_to_days)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} rows[] = {
		{"7ns", 7},
		{"100us", 100000},
		{"5ms", 5000000},
		{"1.5s", 1500000000},
		{"15m", 900000000000},
		{"2h", 7200000000000},
		{"1.5d", 129600000000000},
		{"0", 0},
		{"0s", 0},
		{"99.999999999d", 8639999999913600},
	};
	uint64_t most = 100 * 86400 * 1000000000ull, ns;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ns = 1;
		expect_eq(share_parse_time(rows[i].text, most, &ns), 0);
		expect_eq(ns, rows[i].ns);
	}
	expect_eq(share_parse_time("101d", most, &ns), SHARE_LARGE);
	expect_eq(share_parse_time("600", most, &ns), SHARE_UNIT);
	expect_eq(share_parse_time("1 s", most, &ns), SHARE_UNIT);
	expect_eq(share_parse_time("5M", most, &ns), SHARE_UNIT);
	expect_eq(share_parse_time("", most, &ns), SHARE_EMPTY);
}

TEST(a_share_starts_with_the_defaults_of_the_table)
{
	struct share share;

	share_init(&share);
	expect_eq(share.memory.milli, 1000);
	expect_eq(share.weight, 100);
	expect_eq(share.cap_milli, 1000);
	expect_eq(share.guarantee_milli, 0);
	expect_eq(share.class, SHARE_STANDARD);
	expect_eq(share.swap, 0);
	expect_eq(share.wait_ns, 0);
	expect_eq(share.on_daemon_loss, SHARE_CONTINUE);
	expect_eq(share.strict, 0);
	expect_eq(share.oversize, 0);
	expect_eq(share.quiet, 0);
	expect_eq(share.kill_unannounced, 0);
}

TEST(each_field_is_set_by_its_name_and_nothing_changes_on_bad_input)
{
	struct share share, before;

	share_init(&share);
	expect_eq(share_set(&share, "memory", "20GiB"), 0);
	expect_eq(share_set(&share, "class", "batch"), 0);
	expect_eq(share_set(&share, "swap", "auto"), 0);
	expect_eq(share_set(&share, "weight", "300"), 0);
	expect_eq(share_set(&share, "guarantee", "30%"), 0);
	expect_eq(share_set(&share, "cap", "50%"), 0);
	expect_eq(share_set(&share, "wait", "10s"), 0);
	expect_eq(share_set(&share, "on_daemon_loss", "block"), 0);
	expect_eq(share_set(&share, "strict", "yes"), 0);
	expect_eq(share_set(&share, "oversize", "managed"), 0);
	expect_eq(share.oversize, 1);
	expect_eq(share_set(&share, "notices", "off"), 0);
	expect_eq(share.quiet, 1);
	expect_eq(share_set(&share, "notices", "no"), SHARE_NONSENSE);
	expect_eq(share_set(&share, "unannounced", "kill"), 0);
	expect_eq(share.kill_unannounced, 1);
	expect_eq(share_set(&share, "unannounced", "hide"), SHARE_NONSENSE);
	expect_eq(share.memory.bytes, 20 * GIB);
	expect_eq(share.on_daemon_loss, SHARE_BLOCK);
	before = share;
	expect_eq(share_set(&share, "cap", "20%"), SHARE_ORDER);
	expect_eq(share_set(&share, "guarantee", "60%"), SHARE_ORDER);
	expect_eq(share_set(&share, "cap", "0%"), SHARE_ZERO);
	expect_eq(share_set(&share, "weight", "0"), SHARE_ZERO);
	expect_eq(share_set(&share, "weight", "10001"), SHARE_LARGE);
	expect_eq(share_set(&share, "weight", "1.5"), SHARE_NONSENSE);
	expect_eq(share_set(&share, "class", "best"), SHARE_NONSENSE);
	expect_eq(share_set(&share, "swap", "yes"), SHARE_NONSENSE);
	expect_eq(share_set(&share, "oversize", "yes"), SHARE_NONSENSE);
	expect_eq(share_set(&share, "strict", "1"), SHARE_NONSENSE);
	expect_eq(share.strict, 1);
	expect_eq(share_set(&share, "memori", "1GiB"), SHARE_KEY);
	expect(memcmp(&before, &share, sizeof(share)) == 0);
	expect_eq(share_set(&share, "class", ""), 0);
	expect_eq(share.class, SHARE_STANDARD);
}

TEST(a_field_takes_its_largest_value_and_a_guarantee_that_is_the_cap)
{
	struct share share;

	share_init(&share);
	expect_eq(share_set(&share, "weight", "10000"), 0);
	expect_eq(share.weight, 10000);
	expect_eq(share_set(&share, "cap", "50%"), 0);
	expect_eq(share_set(&share, "guarantee", "50%"), 0);
	expect_eq(share_set(&share, "cap", "50%"), 0);
	expect_eq(share_set(&share, "mode", "fixed:1000/1000"), 0);
	expect_eq(share_set(&share, "mode", "fixed:1/1001"), SHARE_LARGE);
}

TEST(an_idle_tenant_is_parked_after_a_while_that_is_not_zero)
{
	struct share share;

	share_init(&share);
	expect_eq(share.park_ns, 0);
	expect_eq(share_set(&share, "idle", "park"), 0);
	expect_eq(share.park_ns, 300 * 1000000000ull);
	expect_eq(share_set(&share, "idle", "park:10m"), 0);
	expect_eq(share_set(&share, "idle", "park:0s"), SHARE_ZERO);
	expect_eq(share_set(&share, "idle", "parked"), SHARE_NONSENSE);
	expect_eq(share.park_ns, 600 * 1000000000ull);
	expect_eq(share_set(&share, "idle", "keep"), 0);
	expect_eq(share.park_ns, 0);
}

TEST(modes_are_spellings_of_weight_guarantee_and_cap)
{
	struct share share;

	share_init(&share);
	expect_eq(share_set(&share, "weight", "300"), 0);
	expect_eq(share_set(&share, "mode", "fixed:2/8"), 0);
	expect_eq(share.cap_milli, 250);
	expect_eq(share.guarantee_milli, 250);
	expect_eq(share_set(&share, "mode", "equal"), 0);
	expect_eq(share.equal, 1);
	expect_eq(share.cap_milli, 1000);
	expect_eq(share_set(&share, "mode", "best-effort"), 0);
	expect_eq(share.equal, 0);
	expect_eq(share.guarantee_milli, 0);
	expect_eq(share.weight, 100);
	expect_eq(share_set(&share, "mode", "fixed:9/8"), SHARE_LARGE);
	expect_eq(share_set(&share, "mode", "fixed:0/8"), SHARE_ZERO);
	expect_eq(share_set(&share, "mode", "fixed:2"), SHARE_NONSENSE);
	expect_eq(share_set(&share, "mode", "fair"), SHARE_NONSENSE);
	expect_eq(share_set(&share, "escalate", "kill"), 0);
	expect_eq(share.escalate, SHARE_KILL);
}

TEST(a_weight_that_was_stated_is_told_from_the_default)
{
	struct share share;

	share_init(&share);
	expect_eq(share.weighted, 0);
	expect_eq(share_set(&share, "weight", "none"), SHARE_NONSENSE);
	expect_eq(share.weighted, 0);
	expect_eq(share_set(&share, "weight", "100"), 0);
	expect_eq(share.weighted, 1);
	expect_eq(share_set(&share, "weight", ""), 0);
	expect_eq(share.weighted, 0);
	expect_eq(share_set(&share, "weight", "200"), 0);
	expect_eq(share_set(&share, "mode", "best-effort"), 0);
	expect_eq(share.weighted, 0);
}

TEST(a_mode_includes_the_settings_that_it_spells)
{
	expect(share_includes("mode", "weight") && share_includes("mode", "guarantee") &&
	       share_includes("mode", "cap"));
	expect(!share_includes("mode", "class") && !share_includes("weight", "mode") &&
	       !share_includes("cap", "guarantee"));
}

TEST(every_field_names_its_accepted_values_and_every_outcome_has_words)
{
	uint32_t i;

	for (i = 0; share_key(i); i++)
		expect(strlen(share_accepts(share_key(i))) > 10);
	expect_eq(i, SHARE_FIELDS);
	expect(share_accepts("nothing") == NULL);
	for (int outcome = SHARE_EMPTY; outcome <= SHARE_MILLI; outcome++)
		expect(strcmp(share_problem(outcome), share_problem(999)) != 0);
}

TEST(the_list_of_all_fields_ends_where_its_room_does)
{
	char whole[200], small[8] = "1234567";

	share_keys(whole, sizeof(whole));
	expect(strncmp(whole, "memory, ", 8) == 0 && whole[strlen(whole) - 1] != ' ');
	share_keys(small, 5);
	expect_str(small, "memo");
	expect_str(small + 5, "67");
}
