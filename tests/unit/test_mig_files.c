/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/nvidia/mig_files.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "tests/test.h"

static unsigned minor;

TEST(the_minor_is_read_whatever_stands_around_it)
{
	expect_eq(mig_files_minor("DeviceFileMinor: 12\nDeviceFileMode: 292\n", &minor), 0);
	expect_eq(minor, 12);
	expect_eq(mig_files_minor("DeviceFileMode: 292\nDeviceFileMinor:\t0", &minor), 0);
	expect_eq(minor, 0);
	expect_eq(mig_files_minor("OtherDeviceFileMinor: 3\nDeviceFileMinor: 7 \n", &minor), 0);
	expect_eq(minor, 7);
}

TEST(text_that_is_no_minor_is_refused)
{
	static const char *const texts[] = {
		"",
		"DeviceFileMinor",
		"DeviceFileMinor:",
		"DeviceFileMinor: x",
		"DeviceFileMinor: -1",
		"DeviceFileMinor: 12x",
		"DeviceFileMinor: 99999999999999999999",
		"XDeviceFileMinor: 3",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		expect_eq(mig_files_minor(texts[i], &minor), -EINVAL);
}

static void write_access(const char *root, const char *of, const char *text)
{
	char path[200], command[300];

	snprintf(command, sizeof(command), "mkdir -p %s/proc/driver/nvidia/capabilities/%s", root,
		 of);
	expect_eq(system(command), 0);
	snprintf(path, sizeof(path), "%s/proc/driver/nvidia/capabilities/%s/access", root, of);
	expect_eq(file_replace(path, text, strlen(text), 0644), 0);
}

TEST(both_files_are_found_or_none)
{
	char root[] = "/tmp/mete-mig-XXXXXX", command[64], files[2][MIG_FILE] = {"", ""};

	expect(mkdtemp(root) != NULL);
	expect_eq(mig_files_find(root, 0, 1, 0, files), -ENOENT);
	write_access(root, "gpu0/mig/gi1", "DeviceFileMinor: 12\n");
	expect_eq(mig_files_find(root, 0, 1, 0, files), -ENOENT);
	write_access(root, "gpu0/mig/gi1/ci0", "DeviceFileMinor: 13\n");
	expect_eq(mig_files_find(root, 0, 1, 0, files), 0);
	expect_str(files[0], "/dev/nvidia-caps/nvidia-cap12");
	expect_str(files[1], "/dev/nvidia-caps/nvidia-cap13");
	expect_eq(mig_files_find(root, 1, 1, 0, files), -ENOENT);
	write_access(root, "gpu0/mig/gi1/ci0", "nonsense\n");
	expect_eq(mig_files_find(root, 0, 1, 0, files), -EINVAL);
	snprintf(command, sizeof(command), "rm -r %s", root);
	expect_eq(system(command), 0);
}
