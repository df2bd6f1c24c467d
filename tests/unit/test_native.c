/* SPDX-License-Identifier: Apache-2.0 */
/* Which limits of control groups the driver is told, and when. */
#include <errno.h>
#include <string.h>

#include "node/memory/native_book.h"
#include "node/memory/native_leaf.h"
#include "tests/test.h"

#define UID	   "0f5c2a4e-1b7d-4a8e-9c11-6f2b8d3e4a50"
#define UNDERSCORE "0f5c2a4e_1b7d_4a8e_9c11_6f2b8d3e4a50"
#define MIB	   1048576ull

/* As machines of the three kinds have them. */
static const char v2[] =
	"24 1 253:1 / / rw,relatime - ext4 /dev/vda1 rw\n"
	"31 24 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 "
	"rw,nsdelegate,memory_recursiveprot\n";
static const char hybrid[] =
	"30 24 0:25 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n"
	"31 30 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate\n"
	"32 30 0:27 / /sys/fs/cgroup/systemd rw,nosuid shared:11 - cgroup cgroup rw,name=systemd\n";
static const char v1[] =
	"30 24 0:25 / /sys/fs/cgroup ro,nosuid shared:9 - tmpfs tmpfs ro,mode=755\n"
	"32 30 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:11 - cgroup cgroup rw,memory\n";
/* A container's own part of it. */
static const char within[] = "31 24 0:26 /kubepods/x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";

TEST(version_2_is_found_where_it_is_mounted_from_its_root_on)
{
	char mount[NATIVE_PATH];

	expect_eq(native_mount(v2, mount), 0);
	expect_str(mount, "/sys/fs/cgroup");
	expect_eq(native_mount(hybrid, mount), 0);
	expect_str(mount, "/sys/fs/cgroup/unified");
	expect_eq(native_mount(v1, mount), -ENOENT);
	expect_eq(native_mount(within, mount), -ENOENT);
	expect_eq(native_mount("", mount), -ENOENT);
}

static void expect_leaf(const char *cgroup, const char *path)
{
	char leaf[NATIVE_PATH];

	expect_eq(native_leaf("/sys/fs/cgroup", cgroup, leaf), path ? 0 : -ENOENT);
	if (path)
		expect_str(leaf, path);
}

TEST(a_containers_group_is_the_one_below_its_pods)
{
	expect_leaf("0::/kubepods/burstable/pod" UID "/4f2a\n",
		    "/sys/fs/cgroup/kubepods/burstable/pod" UID "/4f2a");
	expect_leaf("0::/kubepods.slice/kubepods-pod" UNDERSCORE ".slice/cri-containerd-4f2a.scope",
		    "/sys/fs/cgroup/kubepods.slice/kubepods-pod" UNDERSCORE
		    ".slice/cri-containerd-4f2a.scope");
	/* Hybrid: version 2 comes last. */
	expect_leaf("5:memory:/kubepods/pod" UID "/a\n1:name=systemd:/x\n0::/kubepods/pod" UID
		    "/b\n",
		    "/sys/fs/cgroup/kubepods/pod" UID "/b");
}

TEST(what_is_no_containers_of_version_2_has_no_group)
{
	expect_leaf("0::/\n", NULL);
	expect_leaf("0::/user.slice/user-1000.slice/session-3.scope\n", NULL);
	expect_leaf("0::/system.slice/meted.service\n", NULL);
	expect_leaf("0::/kubepods/pod" UID "\n", NULL);	 /* the pod's own */
	expect_leaf("0::/kubepods/pod" UID "/\n", NULL); /* likewise */
	expect_leaf("0::/kubepods/pod12/4f2a\n", NULL);
	expect_leaf("0::/tripod" UID "/4f2a\n", NULL);
	expect_leaf("0::/../../kubepods/pod" UID "/4f2a\n", NULL);
	expect_leaf("0::/kubepods/pod" UID "/4f2a (deleted)\n", NULL);
	expect_leaf("5:memory:/kubepods/pod" UID "/a\n0::/\n", NULL);
	expect_leaf("5:memory:/kubepods/pod" UID "/a\n", NULL);
	expect_leaf("", NULL);
}

static struct native_book book;

static void wants(uint32_t count, struct native_want a, struct native_want b)
{
	struct native_want want[] = {a, b};

	expect_eq(native_book_want(&book, want, count), 0);
}

/* The next call is this one, and has that result. */
static void expect_call(const char *group, uint32_t device, uint64_t bytes, int result)
{
	uint32_t row = native_book_next(&book, 0);

	assert_true(row < book.count);
	expect_str(book.row[row].group, group);
	expect_eq(book.row[row].device, device);
	expect_eq(book.row[row].wanted, bytes);
	native_book_done(&book, row, result);
}

static void expect_no_call(void)
{
	expect_eq(native_book_next(&book, 0), book.count);
}

static const struct native_want none;

TEST(a_limit_is_set_once_changed_and_taken_back)
{
	struct native_want a = {"/a", 1, 7, 5 * MIB}, b = {"/a", 0, 7, 6 * MIB - 1};

	wants(2, a, b);
	expect_call("/a", 0, 6 * MIB, 0); /* whole MiB, and no less than the guest grants */
	expect_call("/a", 1, 5 * MIB, 0);
	wants(2, a, b);
	expect_no_call();
	a.bytes = 9 * MIB;
	wants(2, b, a);
	expect_call("/a", 1, 9 * MIB, 0);
	expect_no_call();
	wants(1, a, none);
	expect_call("/a", 0, NATIVE_NONE, 0);
	expect_no_call();
	wants(0, none, none);
	expect_call("/a", 1, NATIVE_NONE, 0);
	wants(0, none, none);
	expect_eq(book.count, 0);
	native_book_free(&book);
}

TEST(several_processes_of_a_tenant_are_one_limit_and_two_tenants_are_none)
{
	struct native_want a = {"/a", 0, 7, 5 * MIB}, other = {"/a", 0, 8, 5 * MIB};

	wants(2, a, a);
	expect_eq(book.count, 1);
	expect_call("/a", 0, 5 * MIB, 0);
	wants(2, a, other);
	expect_call("/a", 0, NATIVE_NONE, 0);
	wants(2, a, other);
	expect_eq(book.count, 0);
	wants(1, other, none);
	expect_call("/a", 0, 5 * MIB, 0);
	native_book_free(&book);
}

TEST(a_refused_call_is_repeated_only_for_another_limit)
{
	struct native_want a = {"/a", 0, 7, 5 * MIB};

	wants(1, a, none);
	expect_call("/a", 0, 5 * MIB, -EPERM);
	wants(1, a, none);
	expect_no_call();
	a.bytes = 6 * MIB;
	wants(1, a, none);
	expect_call("/a", 0, 6 * MIB, 0);
	a.bytes = 7 * MIB;
	wants(1, a, none);
	expect_call("/a", 0, 7 * MIB, -EIO); /* the former one holds */
	wants(0, none, none);
	expect_call("/a", 0, NATIVE_NONE, -ENOENT); /* its group has gone */
	wants(0, none, none);
	expect_eq(book.count, 0);
	/* What was never set is not taken back. */
	wants(1, a, none);
	expect_call("/a", 0, 7 * MIB, -EPERM);
	wants(0, none, none);
	expect_eq(book.count, 0);
	native_book_free(&book);
}
