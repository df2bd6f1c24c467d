/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/json.h"
#include "plugin/dra/counters.h"
#include "tests/test.h"

#define GIB (UINT64_C(1) << 30)

static const struct slices_pool pool = {
	.driver = "gpu.mete.dev", .node = "node1", .node_uid = "u", .generation = 3};

static struct slices_device whole(uint32_t gpu)
{
	return (struct slices_device){
		.uuid = "GPU-1",
		.model = "NVIDIA H100",
		.pci = "",
		.pcie_root = "",
		.driver = "",
		.numa = -1,
		.total_bytes = 80 * GIB,
		.promised_bytes = 80 * GIB,
		.slots = 10,
		.gpu = gpu,
	};
}

/* Of an H100, which has eight slices of memory and seven of computing. */
static struct slices_device part(uint32_t gpu, uint32_t first, uint32_t memory, uint32_t compute)
{
	struct slices_device d = whole(gpu);

	d.is_part = true;
	d.uuid = "MIG-1";
	d.slices = (struct slices_of_gpu){.memory_first = first,
					  .memory = memory,
					  .compute = compute,
					  .gpu_memory = 8,
					  .gpu_compute = 7};
	return d;
}

static const cJSON *spec_of(const cJSON *list, int slice)
{
	return cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(list, slice), "spec");
}

static const cJSON *member(const cJSON *of, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(of, name);
}

static void expect_json(const cJSON *tree, const char *text)
{
	owned(free) char *found = cJSON_PrintUnformatted(tree);

	expect(found);
	expect_str(found, text);
}

static const cJSON *consumed(const cJSON *list, int device)
{
	return member(cJSON_GetArrayItem(member(spec_of(list, 0), "devices"), device),
		      "consumesCounters");
}

TEST(parts_consume_the_counters_of_their_gpu)
{
	const struct slices_device d[] = {whole(0), part(1, 0, 4, 3), part(1, 6, 1, 1)};
	owned(cJSON_Delete) cJSON *list = slices_describe(&pool, d, ARRAY_SIZE(d));

	expect_eq(cJSON_GetArraySize(list), 2);
	expect(!consumed(list, 0));
	expect_json(consumed(list, 1),
		    "[{\"counterSet\":\"gpu-1\",\"counters\":{\"compute-slices\":{\"value\":\"3\"},"
		    "\"memory-slice-0\":{\"value\":\"1\"},\"memory-slice-1\":{\"value\":\"1\"},"
		    "\"memory-slice-2\":{\"value\":\"1\"},\"memory-slice-3\":{\"value\":\"1\"}}}]");
	expect_json(consumed(list, 2),
		    "[{\"counterSet\":\"gpu-1\",\"counters\":{\"compute-slices\":{\"value\":\"1\"},"
		    "\"memory-slice-6\":{\"value\":\"1\"}}}]");
	/* Kubernetes takes no slice that has devices and counters. */
	expect(!member(spec_of(list, 0), "sharedCounters") && !member(spec_of(list, 1), "devices"));
	expect_json(member(spec_of(list, 1), "pool"),
		    "{\"name\":\"node1-mete\",\"generation\":3,\"resourceSliceCount\":2}");
	expect_json(member(spec_of(list, 1), "sharedCounters"),
		    "[{\"name\":\"gpu-1\",\"counters\":{\"compute-slices\":{\"value\":\"7\"},"
		    "\"memory-slice-0\":{\"value\":\"1\"},\"memory-slice-1\":{\"value\":\"1\"},"
		    "\"memory-slice-2\":{\"value\":\"1\"},\"memory-slice-3\":{\"value\":\"1\"},"
		    "\"memory-slice-4\":{\"value\":\"1\"},\"memory-slice-5\":{\"value\":\"1\"},"
		    "\"memory-slice-6\":{\"value\":\"1\"},\"memory-slice-7\":{\"value\":\"1\"}}}]");
}

TEST(a_whole_gpu_leaves_nothing_of_its_counters_to_a_part)
{
	const struct slices_device d[] = {whole(0), part(0, 7, 1, 1)};
	owned(cJSON_Delete) cJSON *list = slices_describe(&pool, d, ARRAY_SIZE(d));
	const cJSON *set = cJSON_GetArrayItem(member(spec_of(list, 1), "sharedCounters"), 0);
	const cJSON *of_whole = cJSON_GetArrayItem(consumed(list, 0), 0);

	expect(cJSON_Compare(member(set, "counters"), member(of_whole, "counters"), true));
	expect(consumed(list, 1));
}

TEST(a_part_of_an_instances_processors_does_not_keep_others_from_its_memory)
{
	const struct slices_device d[] = {part(0, 0, 0, 1), part(0, 0, 0, 2)};
	owned(cJSON_Delete) cJSON *list = slices_describe(&pool, d, ARRAY_SIZE(d));

	expect_json(consumed(list, 0),
		    "[{\"counterSet\":\"gpu-0\",\"counters\":{\"compute-slices\":"
		    "{\"value\":\"1\"}}}]");
}

TEST(counters_that_the_driver_does_not_tell_are_left_out)
{
	struct slices_device d[] = {part(0, 0, 4, 3), part(1, 0, 4, 3), part(2, 0, 0, 0)};
	owned(cJSON_Delete) cJSON *list = NULL;

	d[0].slices.gpu_memory = 0;
	d[1].slices.gpu_memory = COUNTERS_MEMORY_MAX + 1;
	list = slices_describe(&pool, d, ARRAY_SIZE(d));
	for (int i = 0; i < 3; i++)
		expect(!consumed(list, i));
	expect_eq(cJSON_GetArraySize(member(spec_of(list, 1), "sharedCounters")), 1);
}

TEST(a_part_consumes_no_counter_that_its_set_does_not_have)
{
	const struct slices_device d[] = {part(0, 7, 4, 9)};
	owned(cJSON_Delete) cJSON *list = slices_describe(&pool, d, ARRAY_SIZE(d));

	expect_json(consumed(list, 0),
		    "[{\"counterSet\":\"gpu-0\",\"counters\":{\"compute-slices\":"
		    "{\"value\":\"7\"},\"memory-slice-7\":{\"value\":\"1\"}}}]");
}

TEST(a_place_consumes_engines_and_says_how_many_the_gpu_has)
{
	struct slices_device d[] = {part(0, 0, 1, 1), part(0, 1, 1, 1)};
	owned(cJSON_Delete) cJSON *list = NULL;
	const cJSON *counters;

	d[1].is_place = true;
	d[1].uuid = "GPU-1:1g.10gb+me:1";
	d[1].slices.engines[MIG_ENGINE_OFA] = d[1].slices.gpu_engines[MIG_ENGINE_OFA] = 1;
	d[1].slices.engines[MIG_ENGINE_COPY] = 1;
	d[1].slices.gpu_engines[MIG_ENGINE_COPY] = 8;
	list = slices_describe(&pool, d, ARRAY_SIZE(d));
	/* The counters that an existing part consumes are not known. */
	expect_json(consumed(list, 0),
		    "[{\"counterSet\":\"gpu-0\",\"counters\":{\"compute-slices\":{\"value\":\"1\"},"
		    "\"memory-slice-0\":{\"value\":\"1\"}}}]");
	expect_json(consumed(list, 1),
		    "[{\"counterSet\":\"gpu-0\",\"counters\":{\"compute-slices\":{\"value\":\"1\"},"
		    "\"memory-slice-1\":{\"value\":\"1\"},\"copy-engines\":{\"value\":\"1\"},"
		    "\"ofa-engines\":{\"value\":\"1\"}}}]");
	counters = member(cJSON_GetArrayItem(member(spec_of(list, 1), "sharedCounters"), 0),
			  "counters");
	expect_str(json_text(member(counters, "copy-engines"), "value"), "8");
	expect_str(json_text(member(counters, "ofa-engines"), "value"), "1");
}

/* Seven parts of each GPU. */
static void expect_slices(uint32_t gpus, int of_devices, int of_counters)
{
	struct slices_device d[7 * 64];
	owned(cJSON_Delete) cJSON *list = NULL;

	for (uint32_t i = 0; i < 7 * gpus; i++)
		d[i] = part(i / 7, i % 7, 1, 1);
	list = slices_describe(&pool, d, 7 * gpus);
	expect_eq(cJSON_GetArraySize(list), of_devices + of_counters);
	for (int i = 0; i < of_devices + of_counters; i++) {
		const cJSON *spec = spec_of(list, i), *of = member(spec, "pool");

		expect_eq(cJSON_GetNumberValue(member(of, "resourceSliceCount")),
			  of_devices + of_counters);
		expect(cJSON_GetArraySize(member(spec, "devices")) <= 64);
		expect(cJSON_GetArraySize(member(spec, "sharedCounters")) <= 8);
		expect_eq(member(spec, "sharedCounters") != NULL, i >= of_devices);
	}
}

TEST(a_slice_has_so_many_sets_at_most)
{
	expect_slices(1, 1, 1);
	expect_slices(8, 1, 1);
	expect_slices(9, 1, 2);
	expect_slices(10, 2, 2);
	expect_slices(64, 7, 8);
}

TEST(a_slice_without_counters_has_lost_them)
{
	const struct slices_device divided = part(0, 0, 4, 3), not_divided = whole(0);
	owned(cJSON_Delete) cJSON *with = slices_describe(&pool, &divided, 1);
	owned(cJSON_Delete) cJSON *without = slices_describe(&pool, &not_divided, 1);

	expect_eq(cJSON_GetArraySize(without), 1);
	expect(counters_are_in(cJSON_GetArrayItem(with, 0)));
	expect(counters_are_in(cJSON_GetArrayItem(with, 1)));
	expect(!counters_are_in(cJSON_GetArrayItem(without, 0)));
	expect(!slices_same(cJSON_GetArrayItem(with, 0), cJSON_GetArrayItem(without, 0)));
}

TEST(a_scheduler_that_counts_wrong_is_told_nothing)
{
	static const char *const right[] = {"v1.37.0", "v1.38.1-gke.1", "v1.37.0-rc.1", "v2.0.0"};
	static const char *const wrong[] = {"",	       "v1.36.3", "v1.36.0+k3s1",
					    "v1.35.9", "v0.40.0", "1.37.0"};

	for (size_t i = 0; i < ARRAY_SIZE(right); i++)
		expect(counters_are_right(right[i]));
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		expect(!counters_are_right(wrong[i]));
}

/* An update of the cluster goes both ways, and meted goes on meanwhile. */
TEST(the_servers_version_is_asked_for_again_and_then_it_may_keep_counters)
{
	struct counters_server server = {.due_ns = 0};
	const uint64_t old_ns = COUNTERS_OLD_S * UINT64_C(1000000000);

	expect(!counters_told(&server, NULL, 5));
	expect(server.answered && !*server.version);
	expect_eq(server.due_ns, 0);
	expect(counters_told(&server, "v1.37.0", 5));
	expect_eq(server.due_ns, 5 + old_ns);
	server.drops = true;
	/* It cannot be reached just now. */
	expect(!counters_told(&server, "", 6 + old_ns));
	expect_str(server.version, "v1.37.0");
	expect_eq(server.due_ns, 5 + old_ns);
	expect(server.drops);
	expect(!counters_told(&server, "v1.37.0", 7 + old_ns));
	expect(!server.drops);
	expect_eq(server.due_ns, 7 + 2 * old_ns);
	expect(counters_told(&server, "v1.36.3", 8 + 2 * old_ns));
	expect_str(server.version, "v1.36.3");
}
