/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of the parts of GPUs, whatever the driver calls these. */
#include "plugin/nvidia/node_features.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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

static enum health_cause cause; /* why the second part is not healthy */

static const char *value_of(const char *key, const char *first, const char *second)
{
	struct host_device device[] = {
		{.uuid = "MIG-1", .model = first, .pci = "", .part = &part, .gpu_instance = 1},
		{.uuid = "MIG-2", .model = second, .pci = "", .part = &part, .gpu_instance = 2},
	};
	struct config config = {
		.features = true,
		.resource = "nvidia.com/gpu",
		.driver_root = "/",
		.as_nvidia = {.mig = CONFIG_MIG_SINGLE, .machine_file = "/dev/null"}};
	struct host host = {
		.device = device, .devices = ARRAY_SIZE(device), .driver_version = "610.1"};
	struct plugin plugin = {
		.host = &host, .config = &config, .health = {[1] = {.cause = cause}}};
	owned(cJSON_Delete) cJSON *labels = node_features(&plugin);
	static char text[16];
	const char *value = json_text(labels, key);

	expect(labels);
	snprintf(text, sizeof(text), "%s", value ? value : "none");
	return text;
}

static const char *count_of(const char *first, const char *second)
{
	return value_of("nvidia.com/gpu.slices.gi", first, second);
}

TEST(a_part_without_a_profile_in_its_name_has_no_label)
{
	expect(strcmp(count_of("A MIG 1g.10gb", "A MIG 1g.10gb"), "none") != 0);
	expect(strcmp(count_of("A MIG 1g.10gb", "A"), "none") != 0);
	expect_str(count_of("A", "B"), "none");
}

/* That it was destroyed is no news of a division: it is not there all the same. */
TEST(a_part_that_is_gone_is_not_counted)
{
	static const char key[] = "nvidia.com/gpu.count", kind[] = "A MIG 1g.10gb";

	expect_str(value_of(key, kind, kind), "2");
	cause = HEALTH_XID;
	expect_str(value_of(key, kind, kind), "2");
	cause = HEALTH_LOST;
	expect_str(value_of(key, kind, kind), "1");
	cause = HEALTH_NONE;
}

static void expect_counted(uint32_t devices, uint32_t unparted, bool mete, const char *count,
			   const char *replicas)
{
	struct host_device device[] = {
		{.uuid = "MIG-1", .model = "A MIG 1g.10gb", .pci = "", .gpu_instance = 1},
		{.uuid = "MIG-2", .model = "A MIG 1g.10gb", .pci = "", .gpu_instance = 2},
		{.uuid = "GPU-3", .model = "A", .pci = "", .gpu_index = 3, .gpu_instance = -1},
	};
	struct host_device bare[] = {
		{.uuid = "GPU-1",
		 .model = "A",
		 .pci = "",
		 .gpu_index = 1,
		 .gpu_instance = -1,
		 .gpu_bytes = 80ull << 20,
		 .is_divisible = true},
		{.uuid = "GPU-2",
		 .model = "A",
		 .pci = "",
		 .gpu_index = 2,
		 .gpu_instance = -1,
		 .gpu_bytes = 80ull << 20,
		 .is_divisible = true},
		{.uuid = "", .model = "", .pci = "", .gpu_index = 4, .gpu_instance = -1},
	};
	struct config config = {
		.features = true,
		.has_mete = mete,
		.resource = "nvidia.com/gpu",
		.driver_root = "/",
		.as_nvidia = {.mig = CONFIG_MIG_MIXED, .replicas = 4, .machine_file = "/dev/null"}};
	struct host host = {.device = device,
			    .devices = devices,
			    .unparted = unparted,
			    .unparted_gpu = bare,
			    .driver_version = "610.1"};
	struct plugin plugin = {.host = &host, .config = &config};
	owned(cJSON_Delete) cJSON *labels = NULL;

	plugin.offer[0].slots = 3;
	labels = node_features(&plugin);
	if (!count) {
		expect(!labels);
		return;
	}
	expect_str(json_text(labels, "nvidia.com/gpu.count"), count);
	expect_str(json_text(labels, "nvidia.com/gpu.replicas"), replicas);
	if (unparted)
		expect_str(json_text(labels, "nvidia.com/mig.capable"), "true");
	if (!devices)
		expect_str(json_text(labels, "nvidia.com/gpu.memory"), "80");
}

/* They count as in GPU feature discovery, whether a part of them is there just now or not. */
TEST(gpus_in_mig_mode_without_parts_are_counted)
{
	expect_counted(2, 0, false, "1", "0");
	expect_counted(2, 2, false, "3", "0");
	expect_counted(3, 2, false, "4", "4");
	expect_counted(0, 2, false, "2", "0");
	expect_counted(2, 2, true, "3", "3");
	expect_counted(0, 1, true, "1", "1");
	/* One of which the driver tells nothing. */
	expect_counted(2, 3, false, "3", "0");
	expect_counted(0, 0, false, NULL, NULL);
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
		.driver_root = "/",
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

/* ---- a fabric of NVLinks ----------------------------------------------------------------------
 */

static const char *machine_file = "/dev/null";

static const char *label_of(struct host_device *device, uint32_t count, const char *root,
			    const char *key)
{
	struct config config = {.features = true,
				.resource = "nvidia.com/gpu",
				.driver_root = root,
				.as_nvidia = {.machine_file = machine_file}};
	struct host host = {.device = device, .devices = count, .driver_version = "610.1"};
	struct plugin plugin = {.host = &host, .config = &config};
	owned(cJSON_Delete) cJSON *labels = node_features(&plugin);
	static char text[64];
	const char *value = json_text(labels, key);

	snprintf(text, sizeof(text), "%s", value ? value : "none");
	return text;
}

static const char *machine_of(const char *said)
{
	struct host_device device = {.uuid = "GPU-1", .model = "A", .pci = "", .gpu_instance = -1};
	const char *label;
	FILE *file;

	machine_file = "node_features_machine.txt";
	file = said ? fopen(machine_file, "we") : NULL;
	expect(!said || (file && fputs(said, file) >= 0 && fclose(file) == 0));
	label = label_of(&device, 1, "/", "nvidia.com/gpu.machine");
	unlink(machine_file);
	machine_file = "/dev/null";
	return label;
}

TEST(a_machines_name_is_all_of_its_file)
{
	expect_str(machine_of("DGX H100\n"), "DGX-H100");
	expect_str(machine_of("HGX\n H100 8\n-GPU\n\n"), "HGX-H100-8-GPU");
	expect_str(machine_of("\n"), "");
	expect_str(machine_of(""), "");
	expect_str(machine_of(NULL), "unknown");
}

static const char *clique_of(const char *first, const char *second)
{
	struct host_device device[] = {
		{.uuid = "GPU-1", .model = "A", .pci = "", .gpu_instance = -1, .clique = first},
		{.uuid = "GPU-2",
		 .model = "A",
		 .pci = "",
		 .gpu_index = 1,
		 .gpu_instance = -1,
		 .clique = second},
	};

	return label_of(device, 2, "/", "nvidia.com/gpu.clique");
}

TEST(gpus_of_one_clique_name_it_and_those_of_several_none)
{
	expect_str(clique_of("U.1", "U.1"), "U.1");
	expect_str(clique_of("U.1", ""), "U.1");
	expect_str(clique_of("", "U.1"), "U.1");
	expect_str(clique_of("", ""), "none");
	expect_str(clique_of("U.1", "U.2"), "none");
	expect_str(clique_of("U.1", "V.1"), "none");
}

/* ---- virtual GPUs -------------------------------------------------------------------------------
 */

#define DEVICES "/sys/bus/pci/devices/0000:3b:00.0"

static void put(const char *root, const char *name, const void *text, size_t size)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", root, DEVICES);
	for (char *at = strchr(path + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		expect(mkdir(path, 0700) == 0 || errno == EEXIST);
		*at = '/';
	}
	expect(mkdir(path, 0700) == 0 || errno == EEXIST);
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/%s", name);
	file = fopen(path, "we");
	expect(file && fwrite(text, 1, size, file) == size && fclose(file) == 0);
}

TEST(virtual_gpus_name_the_driver_of_their_host)
{
	struct host_device device = {
		.uuid = "GPU-1", .model = "A", .pci = "00000000:3B:00.0", .gpu_instance = -1};
	static const char own[27] = "\x09\0\x1bVF\0\x16"
				    "550.90.05\0r550_90";
	uint8_t space[256] = {[0x06] = 0x10, [0x34] = 0x80};
	char root[] = "/tmp/mete-vgpu-XXXXXX", remove[64];

	expect(mkdtemp(root));
	memcpy(space + 0x80, own, sizeof(own));
	expect_str(label_of(&device, 1, root, "nvidia.com/vgpu.present"), "false");
	put(root, "config", space, sizeof(space));
	put(root, "class", "0x030000\n", 9);
	expect_str(label_of(&device, 1, root, "nvidia.com/vgpu.present"), "true");
	expect_str(label_of(&device, 1, root, "nvidia.com/vgpu.host-driver-version"), "550.90.05");
	expect_str(label_of(&device, 1, root, "nvidia.com/vgpu.host-driver-branch"), "r550_90");
	expect_str(label_of(&device, 1, root, "nvidia.com/gpu.mode"), "graphics");
	put(root, "config", space, 64); /* as another user than root reads it */
	expect_str(label_of(&device, 1, root, "nvidia.com/vgpu.present"), "none");
	snprintf(remove, sizeof(remove), "rm -r %s", root);
	expect_eq(system(remove), 0);
}
