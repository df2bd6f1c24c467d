/* SPDX-License-Identifier: Apache-2.0 */
/* PCI configuration spaces of virtual GPUs and of others. */
#include "plugin/nvidia/vgpu.h"

#include "tests/test.h"

/* A list of two capabilities: power management, and the vendor's own of that length. */
static void make(uint8_t config[VGPU_CONFIG], uint8_t length)
{
	static const uint8_t power[] = {0x01, 0x80, 0x03}, own[] = {0x09, 0x00};

	memset(config, 0, VGPU_CONFIG);
	config[0x06] = 0x10;
	config[0x34] = 0x60;
	memcpy(config + 0x60, power, sizeof(power));
	memcpy(config + 0x80, own, sizeof(own));
	config[0x82] = length;
}

/* In ten bytes each, without a NUL where they are as long. */
static void say(uint8_t config[VGPU_CONFIG], const char *driver, const char *branch)
{
	memset(config + 0x8b, 0, 20);
	for (size_t i = 0; driver[i]; i++)
		config[0x8b + i] = (uint8_t)driver[i];
	for (size_t i = 0; branch[i]; i++)
		config[0x95 + i] = (uint8_t)branch[i];
}

/* A record of another kind first, then that of the driver. */
static void make_virtual(uint8_t config[VGPU_CONFIG])
{
	static const uint8_t records[] = {'V', 'F', 0x05, 0x04, '.', '.', 0x00, 0x16};

	make(config, 31);
	memcpy(config + 0x83, records, sizeof(records));
	say(config, "550.90.05", "r550_90");
}

TEST(a_virtual_gpu_names_the_driver_of_its_host)
{
	uint8_t config[VGPU_CONFIG];
	struct vgpu vgpu;

	make_virtual(config);
	expect_eq(vgpu_read(config, &vgpu), VGPU_FOUND);
	expect_str(vgpu.driver, "550.90.05");
	expect_str(vgpu.branch, "r550_90");
	say(config, "550.127.05", "r550_127x");
	expect_eq(vgpu_read(config, &vgpu), VGPU_FOUND);
	expect_str(vgpu.driver, "550.127.05");
	expect_str(vgpu.branch, "r550_127x");
}

TEST(a_whole_gpu_is_no_virtual_one)
{
	uint8_t config[VGPU_CONFIG];
	struct vgpu vgpu;

	make(config, 20);
	expect_eq(vgpu_read(config, &vgpu), 0);
	make_virtual(config);
	config[0x06] = 0; /* there is no list */
	expect_eq(vgpu_read(config, &vgpu), 0);
}

TEST(a_virtual_gpu_that_does_not_name_its_host_is_one)
{
	uint8_t config[VGPU_CONFIG];
	struct vgpu vgpu;

	for (uint8_t length = 5; length < 31; length++) {
		make_virtual(config);
		config[0x82] = length;
		expect_eq(vgpu_read(config, &vgpu), VGPU_FOUND);
		expect_str(vgpu.driver, "");
	}
}

/* A sanitizer sees what is read beyond the end. */
TEST(a_list_of_capabilities_that_is_nonsense_is_read_to_an_end)
{
	uint8_t config[VGPU_CONFIG];
	struct vgpu vgpu;

	make_virtual(config);
	config[0x86] = 0; /* a record without a length */
	expect_eq(vgpu_read(config, &vgpu), VGPU_FOUND);
	expect_str(vgpu.driver, "");
	make(config, 20);
	config[0x61] = 0x60; /* a list that leads to itself */
	expect_eq(vgpu_read(config, &vgpu), 0);
	for (unsigned at = 0xe0; at < VGPU_CONFIG; at++) {
		make_virtual(config);
		config[0x34] = (uint8_t)at;
		config[at] = 0x09;
		if (at + 2 < VGPU_CONFIG)
			config[at + 2] = 0xff;
		expect_eq(vgpu_read(config, &vgpu), 0);
	}
}
