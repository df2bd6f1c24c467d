/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/strangers_pod.h"
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

TEST(a_process_in_no_pod_is_nobodys_tenant)
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

/* /proc/PID/cgroup as the kernel wrote it on a machine that has both versions, by groups with the
 * names that the kubelet's drivers and the runtimes give; and as a node with version 2 alone has
 * it, where the last line is the only one. */
#define V1(path)                                                                                   \
	"9:name=systemd:" path "\n8:pids:" path "\n7:blkio:/\n6:freezer:" path "\n5:devices:" path \
	"\n4:memory:/process_api/9fe04b336d36335f5713b90343929b29\n3:cpuset:/\n2:cpuacct:/"        \
	"\n1:cpu:/\n"
#define V1_AND_2(path) V1("/") "0::" path "\n"
#define UNDERSCORES    "0f3c9a52_9d1b_4a0e_8f4e_1c2d3e4f5a6b"

TEST(a_pod_is_found_in_either_version_of_control_groups)
{
	static const char *const paths[] = {
		/* cgroupfs */
		"/kubepods/pod" UID "/4fd1",
		"/kubepods/burstable/pod" UID "/4fd1",
		"/mete-kubepods/besteffort/pod" UID "/4fd1",
		/* systemd: containerd, CRI-O, and a systemd within the container */
		"/kubepods.slice/kubepods-pod" UNDERSCORES ".slice/cri-containerd-4fd1.scope",
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UNDERSCORES
		".slice/crio-4fd1.scope",
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UNDERSCORES
		".slice/cri-containerd-4fd1.scope/system.slice/nvidia-persistenced.service",
		/* from within a control group namespace: version 2 gives each container its own */
		"/../../../besteffort/pod" UID "/4fd1",
		"/../../pod" UID "/4fd1",
		"/../../kubepods-besteffort-pod" UNDERSCORES ".slice/cri-containerd-4fd1.scope",
		/* a kubelet in a container: kind */
		"/docker/77aa/kubelet.slice/kubelet-kubepods.slice/"
		"kubelet-kubepods-besteffort.slice/"
		"kubelet-kubepods-besteffort-pod" UNDERSCORES ".slice/cri-containerd-4fd1.scope",
	};
	char text[1024];

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		snprintf(text, sizeof(text), "0::%s\n", paths[i]);
		expect_pod(text);
		snprintf(text, sizeof(text), V1_AND_2("%s"), paths[i]);
		expect_pod(text);
		snprintf(text, sizeof(text), V1("%s") "0::/\n", paths[i], paths[i], paths[i],
			 paths[i]);
		expect_pod(text);
	}
}

TEST(a_process_beside_the_pods_is_in_none_in_either_version)
{
	static const char *const texts[] = {
		V1_AND_2("/"),
		"0::/\n",
		"0::/init.scope\n",
		"0::/../../../..\n",
		"0::/kubepods.slice/kubepods-burstable.slice\n",
		"0::/system.slice/containerd.service/kubepods-burstable-pod.slice\n",
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/podman-77.scope\n",
	};
	char uid[STRANGERS_UID];

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		expect_eq(strangers_pod(texts[i], uid), -ENOENT);
}
