/* SPDX-License-Identifier: Apache-2.0 */
/* Annotations that change a prepared claim's share. */
#include "plugin/config/portion.h"
#include "plugin/dra/claim.h"
#include "tests/test.h"

#define GIB (UINT64_C(1) << 30)

static struct claim_device device = {.uuid = "GPU-a", .total_bytes = 16 * GIB};
static struct config_share portion, most_;
static struct claim_place place = {"gpu.mete.dev", "n-mete", &device, 1, &portion, &most_};

/* A quarter of the GPU's time and 4 GiB; `swap`: NULL: off. */
static struct claim claim_of(const char *swap)
{
	struct claim claim = {.devices = 1};

	claim.texts[PORTION_memory] = (char *)"4294967296B";
	claim.texts[PORTION_guarantee] = (char *)"25%";
	claim.texts[PORTION_weight] = (char *)"300";
	claim.texts[PORTION_swap] = (char *)swap;
	return claim;
}

static void expect_text(const struct claim *claim, const char *key, const char *value,
			enum portion_field field, const char *expected)
{
	const struct annotation entry = {key, value};
	char *texts[SHARE_FIELDS];
	struct fault why;

	if (claim_adjust(claim, &place, &entry, 1, "mete.dev", texts, &why) < 0)
		test_fail(__FILE__, __LINE__, "%s", why.text);
	expect_eq(strcmp(texts[field] ? texts[field] : "", expected), 0);
	if (field != PORTION_guarantee)
		expect_eq(strcmp(texts[PORTION_guarantee], "25%"), 0);
	portion_texts_free(texts);
}

static void expect_refused(const struct claim *claim, const char *key, const char *value,
			   const char *sentence)
{
	const struct annotation entry = {key, value};
	char *texts[SHARE_FIELDS];
	struct fault why;

	if (claim_adjust(claim, &place, &entry, 1, "mete.dev", texts, &why) != -EINVAL ||
	    !strstr(why.text, sentence))
		test_fail(__FILE__, __LINE__, "%s=%s: %s", key, value, why.text);
}

TEST(amounts_that_were_not_counted_change_within_the_bounds)
{
	const struct claim claim = claim_of(NULL);

	most_ = (struct config_share){.texts = {NULL}};
	expect_text(&claim, "mete.dev/weight", "50", PORTION_weight, "50");
	expect_text(&claim, "mete.dev/class", "batch", PORTION_class, "batch");
	expect_text(&claim, "mete.dev/cap", "50%", PORTION_cap, "50%");
	expect_refused(&claim, "mete.dev/weight", "500", "more than this node allows");
	most_.texts[PORTION_weight] = (char *)"1000";
	expect_text(&claim, "mete.dev/weight", "500", PORTION_weight, "500");
	/* Below the guarantee. */
	expect_refused(&claim, "mete.dev/cap", "10%", "mete.dev/cap");
	/* Without annotations it is what was prepared. */
	expect_text(&claim, "other.dev/weight", "1", PORTION_weight, "300");
}

TEST(counted_amounts_stay)
{
	const struct claim claim = claim_of(NULL);

	most_ = (struct config_share){.texts = {NULL}};
	most_.texts[PORTION_memory] = (char *)"100%";
	most_.texts[PORTION_guarantee] = (char *)"100%";
	expect_refused(&claim, "mete.dev/guarantee", "50%",
		       "consumes of the capacity 'compute', 25%");
	expect_refused(&claim, "mete.dev/guarantee", "5%",
		       "consumes of the capacity 'compute', 25%");
	expect_refused(&claim, "mete.dev/qos", "best-effort", "consumes of the capacity 'compute'");
	expect_refused(&claim, "mete.dev/exclusive", "true", "has the whole device");
	expect_text(&claim, "mete.dev/memory", "1GiB", PORTION_memory, "1GiB");
	expect_text(&claim, "mete.dev/memory", "4GiB", PORTION_memory, "4GiB");
	expect_refused(&claim, "mete.dev/memory", "5GiB",
		       "5GiB is more than the claim consumes, 4GiB");
}

TEST(more_memory_than_consumed_is_for_tenants_that_can_give_it_back)
{
	const struct claim claim = claim_of("auto");

	most_ = (struct config_share){.texts = {NULL}};
	expect_refused(&claim, "mete.dev/memory", "5GiB", "more than this node allows");
	most_.texts[PORTION_memory] = (char *)"8GiB";
	expect_text(&claim, "mete.dev/memory", "8GiB", PORTION_memory, "8GiB");
	expect_refused(&claim, "mete.dev/memory", "9GiB", "more than this node allows");
}

TEST(a_part_of_several_devices_is_a_part_of_the_smallest)
{
	struct claim_device devices[] = {device, {.uuid = "GPU-b", .total_bytes = 8 * GIB}};
	struct claim claim = claim_of(NULL);

	most_ = (struct config_share){.texts = {NULL}};
	most_.texts[PORTION_memory] = (char *)"100%";
	claim.devices = 2;
	claim.of[1] = 1;
	place.device = devices;
	place.devices = 2;
	expect_text(&claim, "mete.dev/memory", "50%", PORTION_memory, "50%");
	expect_refused(&claim, "mete.dev/memory", "51%", "is more than the claim consumes, 4GiB");
	claim.of[0] = 1;
	claim.of[1] = 0;
	expect_text(&claim, "mete.dev/memory", "50%", PORTION_memory, "50%");
	expect_refused(&claim, "mete.dev/memory", "51%", "is more than the claim consumes, 4GiB");
	place.device = &device;
	place.devices = 1;
}
