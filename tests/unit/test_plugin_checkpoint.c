/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/checkpoint.h"
#include "tests/test.h"

/* As Kubernetes 1.36's kubelet writes it. */
static const char record[] =
	"{\"Data\":{\"PodDeviceEntries\":["
	"{\"PodUID\":\"u1\",\"ContainerName\":\"main\",\"ResourceName\":\"mete.dev/gpu\","
	"\"DeviceIDs\":{\"-1\":[\"a::0\"]},\"AllocResp\":\"QgA=\"},"
	"{\"PodUID\":\"u2\",\"ContainerName\":\"init\",\"ResourceName\":\"mete.dev/gpu\","
	"\"DeviceIDs\":{\"0\":[\"a::1\"],\"1\":[\"b::1\"]},\"AllocResp\":\"\"},"
	"{\"PodUID\":\"u2\",\"ContainerName\":\"main\",\"ResourceName\":\"mete.dev/gpu\","
	"\"DeviceIDs\":{\"0\":[\"a::1\"],\"1\":[\"b::1\"]},\"AllocResp\":\"\"},"
	"{\"PodUID\":\"u3\",\"ContainerName\":\"main\",\"ResourceName\":\"other.dev/gpu\","
	"\"DeviceIDs\":{\"-1\":[\"a::0\"]},\"AllocResp\":\"\"}],"
	"\"RegisteredDevices\":{\"mete.dev/gpu\":[\"a::0\"]}},\"Checksum\":1}";

struct seen {
	unsigned count;
	char last[64];
};

static void on_found(void *owner, const char *uid, const char *container)
{
	struct seen *seen = owner;

	seen->count++;
	snprintf(seen->last, sizeof(seen->last), "%s %s", uid, container);
}

static int look(const char *text, const char *const *ids, size_t count, struct seen *ret_seen)
{
	*ret_seen = (struct seen){0};
	return checkpoint_look(text, strlen(text), "mete.dev/gpu", ids, count, on_found, ret_seen);
}

TEST(the_holder_of_ids_is_found_by_pod_uid_and_container)
{
	const char *const ids[] = {"a::0"};
	struct seen seen;

	expect_eq(look(record, ids, 1, &seen), 0);
	expect_eq(seen.count, 1);
	expect_str(seen.last, "u1 main");
}

TEST(ids_of_several_numa_nodes_are_one_set)
{
	const char *const ids[] = {"b::1", "a::1"};
	struct seen seen;

	expect_eq(look(record, ids, 2, &seen), 0);
	expect_eq(seen.count, 2);
	expect_eq(look(record, ids, 1, &seen), 0);
	expect_eq(seen.count, 0);
}

static void on_id(void *owner, const char *uid, const char *id)
{
	struct seen *seen = owner;

	seen->count++;
	snprintf(seen->last, sizeof(seen->last), "%s %s", uid, id);
}

TEST(all_ids_of_a_resource_are_told)
{
	struct seen seen = {0};

	expect_eq(checkpoint_given(record, strlen(record), "other.dev/gpu", on_id, &seen), 0);
	expect_eq(seen.count, 1);
	expect_str(seen.last, "u3 a::0");
	expect_eq(checkpoint_given(record, strlen(record), "mete.dev/gpu", on_id, &seen), 0);
	expect_eq(seen.count, 6);
	expect_eq(checkpoint_given(record, strlen(record), NULL, on_id, &seen), 0);
	expect_eq(seen.count, 12);
	expect_eq(checkpoint_given("[]", 2, "mete.dev/gpu", on_id, &seen), -EINVAL);
}

static void on_resource(void *owner, const char *resource)
{
	struct seen *seen = owner;

	seen->count++;
	snprintf(seen->last, sizeof(seen->last), "%s", resource);
}

TEST(registered_resources_are_known)
{
	static const char none[] = "{\"Data\":{\"RegisteredDevices\":null}}",
			  wrong[] = "{\"Data\":[]}";
	struct seen seen = {0};

	expect_eq(checkpoint_registered(record, strlen(record), on_resource, &seen), 0);
	expect_eq(seen.count, 1);
	expect_str(seen.last, "mete.dev/gpu");
	expect_eq(checkpoint_registered(none, strlen(none), on_resource, &seen), 0);
	expect_eq(checkpoint_registered(wrong, strlen(wrong), on_resource, &seen), -EINVAL);
	expect_eq(seen.count, 1);
}

TEST(text_that_is_no_checkpoint_is_refused)
{
	static const char *const wrong[] = {"",
					    "{}",
					    "[]",
					    "{\"Data\":{}}",
					    "{\"Data\":[]}",
					    "{\"Data\":{\"PodDeviceEntries\":{}}}"};
	const char *const ids[] = {"a::0"};
	struct seen seen;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		expect_eq(look(wrong[i], ids, 1, &seen), -EINVAL);
}

TEST(a_kubelet_that_has_given_out_nothing_has_an_empty_list)
{
	const char *const ids[] = {"a::0"};
	struct seen seen;

	expect_eq(look("{\"Data\":{\"PodDeviceEntries\":null}}", ids, 1, &seen), 0);
	expect_eq(seen.count, 0);
}

TEST(entries_of_other_kinds_are_passed_over)
{
	const char *const ids[] = {"a::0"};
	struct seen seen;

	expect_eq(
		look("{\"Data\":{\"PodDeviceEntries\":[1,null,\"x\",{\"PodUID\":3},"
		     "{\"PodUID\":\"u\",\"ContainerName\":\"c\",\"ResourceName\":\"mete.dev/gpu\","
		     "\"DeviceIDs\":{\"-1\":[7]}}]}}",
		     ids, 1, &seen),
		0);
	expect_eq(seen.count, 0);
}
