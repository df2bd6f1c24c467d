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

static const struct native_limits none = {0, NATIVE_NONE};

static struct native_member *joined(const char *path, uint32_t tenant)
{
	struct native_member *member = NULL;

	expect_eq(native_book_join(&book, path, tenant, &member), 0);
	return member;
}

/* The next group of which something has changed is this one, of that tenant (0: of none, or of
 * several), and these limits are wanted of it. */
static void expect_stale(const char *path, uint32_t tenant, const struct native_want *want,
			 uint32_t count)
{
	struct native_group *group = native_book_stale(&book);
	uint32_t owner = 0;

	assert_true(group != NULL);
	if (!group)
		return;
	expect_str(group->path, path);
	expect_eq(native_group_owner(group, &owner), tenant != 0);
	expect_eq(owner, tenant);
	expect_eq(native_book_want(&book, group, want, count), 0);
}

static void expect_quiet(void)
{
	struct native_call call;

	expect(!native_book_stale(&book));
	expect(!native_book_next(&book, &call));
}

/* The next call is this one, and has that result. */
static void expect_call(const char *path, uint32_t device, struct native_limits limits, int result)
{
	struct native_call call;

	assert_true(native_book_next(&book, &call));
	expect_str(call.path, path);
	expect_eq(call.device, device);
	expect_eq(call.limits.soft_bytes, limits.soft_bytes);
	expect_eq(call.limits.hard_bytes, limits.hard_bytes);
	native_book_done(&book, &call, result);
}

/* Nothing is left of any group. */
static void expect_empty(void)
{
	expect_quiet();
	for (uint32_t i = 0; i < NATIVE_HEADS; i++)
		expect(list_empty(&book.paths[i]) && list_empty(&book.tenants[i]));
}

TEST(a_limit_is_set_once_changed_and_taken_back)
{
	struct native_want want[] = {{1, {4 * MIB, 5 * MIB}}, {0, {0, 6 * MIB}}};
	struct native_member *a;

	native_book_init(&book);
	a = joined("/a", 7);
	expect_stale("/a", 7, want, 2);
	expect_call("/a", 1, want[0].limits, 0);
	expect_call("/a", 0, want[1].limits, 0);
	native_book_changed(&book, 7);
	native_book_changed(&book, 7);
	expect_stale("/a", 7, want, 2);
	expect_quiet();
	want[0].limits.soft_bytes = 3 * MIB;
	native_book_changed(&book, 7);
	expect_stale("/a", 7, want, 2);
	expect_call("/a", 1, want[0].limits, 0);
	native_book_changed(&book, 7);
	expect_stale("/a", 7, want, 1);
	expect_call("/a", 0, none, 0);
	native_book_leave(&book, a);
	expect_stale("/a", 0, NULL, 0);
	expect_call("/a", 1, none, 0);
	expect_empty();
}

TEST(several_processes_of_a_tenant_are_one_limit_and_two_tenants_are_none)
{
	const struct native_want want = {0, {MIB, 5 * MIB}};
	struct native_member *a, *again, *other;

	native_book_init(&book);
	a = joined("/a", 7);
	again = joined("/a", 7);
	expect_stale("/a", 7, &want, 1);
	expect_call("/a", 0, want.limits, 0);
	native_book_leave(&book, again);
	expect_quiet();
	other = joined("/a", 8);
	expect_stale("/a", 0, NULL, 0);
	expect_call("/a", 0, none, 0);
	native_book_leave(&book, a);
	expect_stale("/a", 8, &want, 1);
	expect_call("/a", 0, want.limits, 0);
	native_book_leave(&book, other);
	expect_stale("/a", 0, NULL, 0);
	expect_call("/a", 0, none, 0);
	expect_empty();
}

TEST(an_event_concerns_the_groups_of_its_tenant_alone)
{
	const struct native_want want = {0, {MIB, 5 * MIB}};
	struct native_member *members[600];
	char path[32];

	native_book_init(&book);
	for (uint32_t i = 0; i < ARRAY_SIZE(members); i++) {
		snprintf(path, sizeof(path), "/%u", i);
		/* Tenant 1 has two groups. */
		members[i] = joined(path, i ? i : 1);
		expect_stale(path, i ? i : 1, &want, 1);
		if (i == 1)
			expect_stale("/0", 1, &want, 1);
		expect_call(path, 0, want.limits, 0);
	}
	expect_quiet();
	native_book_changed(&book, 300);
	expect_stale("/300", 300, &want, 1);
	expect_quiet();
	native_book_changed(&book, 1);
	expect_stale("/0", 1, &want, 1);
	expect_stale("/1", 1, &want, 1);
	expect_quiet();
	native_book_leave(&book, members[5]);
	expect_stale("/5", 0, NULL, 0);
	expect_call("/5", 0, none, 0);
	expect_quiet();
	native_book_free(&book);
}

TEST(a_tenant_is_told_whether_its_group_is_its_only_one)
{
	const struct native_want want = {0, {MIB, 5 * MIB}};
	struct native_member *a, *b, *c;

	native_book_init(&book);
	a = joined("/a", 7);
	expect_stale("/a", 7, &want, 1);
	expect(native_book_has_one(&book, 7));
	b = joined("/b", 7);
	expect(!native_book_has_one(&book, 7));
	expect_stale("/b", 7, &want, 1);
	expect_stale("/a", 7, &want, 1);
	c = joined("/a", 8);
	expect_stale("/a", 0, NULL, 0);
	expect(!native_book_has_one(&book, 7) && native_book_has_one(&book, 8));
	native_book_leave(&book, b);
	expect(native_book_has_one(&book, 7));
	expect_stale("/b", 0, NULL, 0);
	expect_stale("/a", 0, NULL, 0);
	native_book_leave(&book, a);
	native_book_leave(&book, c);
	native_book_free(&book);
}

TEST(a_guarantee_grows_after_all_others_have_shrunk)
{
	const struct native_limits four = {4 * MIB, 5 * MIB}, eight = {8 * MIB, 9 * MIB};
	const struct native_want before[] = {{0, four}, {1, eight}, {2, four}};
	const struct native_want after[] = {{0, eight}, {1, four}, {2, eight}};
	const struct native_want other[] = {{0, eight}, {1, four}},
				 others[] = {{0, four}, {1, eight}};
	struct native_member *a, *b, *c;

	native_book_init(&book);
	a = joined("/a", 7);
	b = joined("/b", 8);
	c = joined("/c", 9);
	expect_stale("/a", 7, before, 3);
	expect_stale("/b", 8, other, 2);
	expect_stale("/c", 9, &before[2], 1);
	expect_call("/a", 0, four, 0);
	expect_call("/b", 0, eight, 0);
	expect_call("/c", 2, four, 0);
	expect_call("/a", 1, eight, 0);
	expect_call("/b", 1, four, 0);
	expect_call("/a", 2, four, 0);
	/* In the order in which they are told; of a group that shrinks and grows, too. */
	native_book_changed(&book, 7);
	expect_stale("/a", 7, after, 3);
	native_book_changed(&book, 8);
	expect_stale("/b", 8, others, 2);
	native_book_leave(&book, c);
	expect_stale("/c", 0, NULL, 0);
	expect_call("/a", 1, four, 0);
	expect_call("/b", 0, four, 0);
	expect_call("/c", 2, none, 0);
	expect_call("/a", 0, eight, 0);
	expect_call("/b", 1, eight, 0);
	expect_call("/a", 2, eight, 0);
	expect_quiet();
	native_book_leave(&book, a);
	native_book_leave(&book, b);
	native_book_free(&book);
}

TEST(a_refused_call_is_repeated_only_for_another_limit)
{
	struct native_want want = {0, {MIB, 5 * MIB}};
	struct native_member *a;

	native_book_init(&book);
	a = joined("/a", 7);
	expect_stale("/a", 7, &want, 1);
	expect_call("/a", 0, want.limits, -EPERM);
	native_book_changed(&book, 7);
	expect_stale("/a", 7, &want, 1);
	expect_quiet();
	want.limits.hard_bytes = 6 * MIB;
	native_book_changed(&book, 7);
	expect_stale("/a", 7, &want, 1);
	expect_call("/a", 0, want.limits, 0);
	want.limits.hard_bytes = 7 * MIB;
	native_book_changed(&book, 7);
	expect_stale("/a", 7, &want, 1);
	expect_call("/a", 0, want.limits, -EIO); /* the former one holds */
	native_book_leave(&book, a);
	expect_stale("/a", 0, NULL, 0);
	expect_call("/a", 0, none, -ENOENT); /* its group has gone */
	expect_empty();
	/* What was never set is not taken back. */
	a = joined("/a", 7);
	expect_stale("/a", 7, &want, 1);
	expect_call("/a", 0, want.limits, -EPERM);
	native_book_leave(&book, a);
	expect_stale("/a", 0, NULL, 0);
	expect_empty();
}

TEST(what_changes_while_a_call_is_made_is_the_next_call)
{
	const struct native_want want = {0, {MIB, 5 * MIB}};
	struct native_member *a;
	struct native_call call, again;

	native_book_init(&book);
	for (int result = 0; result >= -EPERM; result -= EPERM) {
		a = joined("/a", 7);
		expect_stale("/a", 7, &want, 1);
		assert_true(native_book_next(&book, &call));
		native_book_leave(&book, a);
		expect_stale("/a", 0, NULL, 0);
		native_book_done(&book, &call, result);
		if (result == 0)
			expect_call("/a", 0, none, 0);
		expect_empty();
	}
	/* One that was not made is made later. */
	a = joined("/a", 7);
	expect_stale("/a", 7, &want, 1);
	assert_true(native_book_next(&book, &call));
	native_book_undone(&book, &call);
	assert_true(native_book_next(&book, &again));
	expect_eq(again.limits.hard_bytes, 5 * MIB);
	native_book_done(&book, &again, 0);
	expect_quiet();
	native_book_leave(&book, a);
	native_book_free(&book);
}
