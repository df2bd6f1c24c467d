/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of the parts of GPUs, whatever the driver calls these. */
#include "plugin/nvidia/node_features.h"

#include "tests/test.h"

static const struct serving serving = {.resource = "nvidia.com/gpu", .replicas = 1};

/* ---- what node_features.c asks others for -------------------------------------------------- */

const struct serving *kinds_of(const struct plugin *p, uint32_t device)
{
	(void)p;
	(void)device;
	return &serving;
}

int kinds_check(const struct plugin *p, struct fault *why)
{
	(void)p;
	(void)why;
	return 0;
}

/* -------------------------------------------------------------------------------------------- */

static const struct gpu_part part = {.gpu_slices = 1};

static const char *count_of(const char *first, const char *second)
{
	struct host_device device[] = {
		{.uuid = "MIG-1", .model = first, .pci = "", .part = &part, .gpu_instance = 1},
		{.uuid = "MIG-2", .model = second, .pci = "", .part = &part, .gpu_instance = 2},
	};
	struct config config = {
		.features = true,
		.resource = "nvidia.com/gpu",
		.as_nvidia = {.mig = CONFIG_MIG_SINGLE, .machine_file = "/dev/null"}};
	struct host host = {
		.device = device, .devices = ARRAY_SIZE(device), .driver_version = "610.1"};
	struct plugin plugin = {.host = &host, .config = &config};
	owned(cJSON_Delete) cJSON *labels = node_features(&plugin);
	static char text[16];
	const char *count = json_text(labels, "nvidia.com/gpu.slices.gi");

	expect(labels);
	snprintf(text, sizeof(text), "%s", count ? count : "none");
	return text;
}

TEST(a_part_without_a_profile_in_its_name_has_no_label)
{
	expect(strcmp(count_of("A MIG 1g.10gb", "A MIG 1g.10gb"), "none") != 0);
	expect(strcmp(count_of("A MIG 1g.10gb", "A"), "none") != 0);
	expect_str(count_of("A", "B"), "none");
}

/* Of the GPUs themselves, beside parts that have labels of their own. */
static void expect_gpus(bool with_a_whole_one, const char *replicas, const char *product)
{
	struct host_device device[] = {
		{.uuid = "MIG-1", .model = "A MIG 1g.10gb", .pci = "", .gpu_instance = 1},
		{.uuid = "GPU-2", .model = "A", .pci = "", .gpu_index = 1, .gpu_instance = -1},
	};
	struct config config = {
		.features = true,
		.resource = "nvidia.com/gpu",
		.as_nvidia = {.mig = CONFIG_MIG_MIXED, .replicas = 4, .machine_file = "/dev/null"}};
	struct host host = {
		.device = device, .devices = 1 + with_a_whole_one, .driver_version = "610.1"};
	struct plugin plugin = {.host = &host, .config = &config};
	owned(cJSON_Delete) cJSON *labels = node_features(&plugin);

	expect_str(json_text(labels, "nvidia.com/gpu.replicas"), replicas);
	expect_str(json_text(labels, "nvidia.com/gpu.product"), product);
}

TEST(gpus_that_are_all_divided_have_no_replicas)
{
	expect_gpus(true, "4", "A-SHARED");
	expect_gpus(false, "0", "A");
}
