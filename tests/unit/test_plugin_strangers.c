/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/strangers.h"
#include "tests/test.h"

#define UID "0f3c9a52-9d1b-4a0e-8f4e-1c2d3e4f5a6b"

static void expect_pod(const char *cgroup)
{
	char uid[STRANGERS_UID];

	expect_eq(strangers_pod(cgroup, uid), 0);
	expect_str(uid, UID);
}

TEST(a_pod_is_found_in_the_path_of_either_driver)
{
	expect_pod("0::/kubepods/burstable/pod" UID "/4fd1\n");
	expect_pod("12:memory:/a\n4:cpu:/testcluster-1/kubepods/besteffort/pod" UID "/x\n");
	expect_pod("0::/kubepods.slice/kubepods-besteffort.slice/"
		   "kubepods-besteffort-pod0f3c9a52_9d1b_4a0e_8f4e_1c2d3e4f5a6b.slice/"
		   "cri-containerd-77.scope\n");
}

TEST(a_static_pod_has_a_uid_without_dashes)
{
	static const char *const paths[] = {
		"0::/kubepods/burstable/pod0f3c9a529d1b4a0e8f4e1c2d3e4f5a6b/4fd1\n",
		"0::/kubepods.slice/kubepods-burstable.slice/"
		"kubepods-burstable-pod0f3c9a529d1b4a0e8f4e1c2d3e4f5a6b.slice/"
		"cri-containerd-77.scope\n",
	};
	char uid[STRANGERS_UID];

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		expect_eq(strangers_pod(paths[i], uid), 0);
		expect_str(uid, "0f3c9a529d1b4a0e8f4e1c2d3e4f5a6b");
	}
}

TEST(who_is_in_no_pod_is_nobodys_tenant)
{
	static const char *const others[] = {
		"",
		"pod",
		"0::/system.slice/kubelet.service\n",
		"0::/kubepods/burstable/pod0f3c9a52\n",
		"0::/kubepods/xpod" UID "/a\n",
		"0::/kubepods/pod" UID "7/a\n",
		"0::/kubepods/pod0f3c9a529d1b4a0e8f4e1c2d3e4f5a6b7/a\n",
		"0::/kubepods/pod0f3c9a529d1b4a0e8f4e1c2d3e4f5a6\n",
		"0::/kubepods/pod0f3c9a52-9d1b4a0e8f4e1c2d3e4f5a6b/a\n",
		"0::/kubepods/pod0F3C9A52-9D1B-4A0E-8F4E-1C2D3E4F5A6B/a\n",
	};
	char uid[STRANGERS_UID];

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		expect_eq(strangers_pod(others[i], uid), -ENOENT);
}
