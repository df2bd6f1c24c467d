/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/numa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tests/test.h"

TEST(nvmls_name_of_a_place_becomes_that_of_sysfs)
{
	static const char *const bad[] = {"",
					  "00000000",
					  "0:1:2",
					  "00000000:3B:00.0x",
					  "00000000:3B:00.00",
					  "zz:3B:00.0",
					  "-1:-2:+3.0",
					  "0x1: 2: 3.0",
					  "00000000000000000000:3B:00.0"};
	char name[24];

	expect_eq(numa_name("00000000:3B:00.0", name), 0);
	expect_str(name, "0000:3b:00.0");
	expect_eq(numa_name("0001:AF:1F.7", name), 0);
	expect_str(name, "0001:af:1f.7");
	expect_eq(numa_name("00010000:01:00.0", name), 0);
	expect_str(name, "10000:01:00.0");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		expect_eq(numa_name(bad[i], name), -EINVAL);
}

TEST(a_node_that_sysfs_does_not_name_is_unknown)
{
	static const struct {
		const char *text;
		int node;
	} rows[] = {{"1\n", 1}, {"0", 0},    {"-1\n", -1}, {"", -1},
		    {"x", -1},	{"1 2", -1}, {"99999", -1}};
	char root[] = "/tmp/mete-numa-XXXXXX", command[200], path[200];

	expect(mkdtemp(root) != NULL);
	expect_eq(numa_node(root, "00000000:3B:00.0"), -1);
	expect_eq(numa_node(root, "../../etc"), -1);
	snprintf(command, sizeof(command), "mkdir -p %s/sys/bus/pci/devices/0000:3b:00.0", root);
	expect_eq(system(command), 0);
	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/0000:3b:00.0/numa_node", root);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		expect_eq(file_replace(path, rows[i].text, strlen(rows[i].text), 0644), 0);
		expect_eq(numa_node(root, "00000000:3B:00.0"), rows[i].node);
	}
	snprintf(command, sizeof(command), "rm -r %s", root);
	expect_eq(system(command), 0);
}
