/* SPDX-License-Identifier: Apache-2.0 */
/* The amounts that containers ask for, and the sentences about a GPU without room. */
#include "kube/json.h"
#include "plugin/quantity.h"
#include "plugin/sums/amounts.h"
#include "plugin/sums/say.h"
#include "tests/test.h"

#define GIB (1ull << 30)

static struct amounts_names names;
static struct amounts_said said;
static struct seating_container it;
static struct fault why;

static void read_container(const char *resources)
{
	owned(cJSON_Delete) cJSON *tree = NULL;
	char text[512];

	snprintf(text, sizeof(text), "{\"name\": \"c\", \"resources\": %s}", resources);
	tree = cJSON_Parse(text);
	expect(tree);
	amounts_name(&names, "mete.dev/gpu", "mete.dev");
	amounts_take(tree, &names, &said);
}

static int split(const char *gpu, const char *memory, const char *milli)
{
	said = (struct amounts_said){.kind = PLACEMENT_APP};
	snprintf(said.gpu, sizeof(said.gpu), "%s", gpu);
	snprintf(said.memory, sizeof(said.memory), "%s", memory);
	snprintf(said.milli, sizeof(said.milli), "%s", milli);
	amounts_name(&names, "mete.dev/gpu", "mete.dev");
	return amounts_split(&said, &names, &it, &why);
}

static void expect_quantity(const char *text, uint64_t wanted)
{
	uint64_t value;

	expect_eq(quantity_read(text, &value), 0);
	expect_eq(value, wanted);
}

TEST(quantities_are_read_as_the_api_server_writes_them)
{
	uint64_t value;

	expect_quantity("0", 0);
	expect_quantity("250", 250);
	expect_quantity("4k", 4000);
	expect_quantity("20Gi", 20 * GIB);
	expect_quantity("512Mi", 512ull << 20);
	expect_quantity("1Ki", 1024);
	expect_quantity("3e9", 3000000000);
	expect_quantity("9E", 9000000000000000000ull);
	expect_quantity("1.5Gi", GIB + GIB / 2);
	expect_quantity("2000m", 2);
	expect_quantity("5000e-3", 5);
	expect_quantity("9223372036854775807", INT64_MAX);
	expect_eq(quantity_read("", &value), -EINVAL);
	expect_eq(quantity_read("-1", &value), -EINVAL);
	expect_eq(quantity_read("1.5", &value), -EINVAL);
	expect_eq(quantity_read("0.3Ki", &value), -EINVAL);
	expect_eq(quantity_read("250m", &value), -EINVAL);
	expect_eq(quantity_read("1ki", &value), -EINVAL);
	expect_eq(quantity_read("1Gib", &value), -EINVAL);
	expect_eq(quantity_read("8Ei", &value), -EINVAL);
	expect_eq(quantity_read("15E", &value), -EINVAL);
	expect_eq(quantity_read("9223372036854775808", &value), -EINVAL);
	expect_eq(quantity_read("1e", &value), -EINVAL);
	expect_eq(quantity_read("1e20", &value), -EINVAL);
}

TEST(amounts_are_those_of_the_requests)
{
	read_container("{\"requests\": {\"mete.dev/gpu\": \"1\", \"mete.dev/gpu-memory\": "
		       "\"20Gi\", \"mete.dev/gpu-milli\": \"250\", \"cpu\": \"2\"}}");
	expect_str(said.gpu, "1");
	expect_str(said.memory, "20Gi");
	expect_str(said.milli, "250");
	expect(amounts_any(&said));
	expect_eq(amounts_counted(&said).memory_bytes, 20 * GIB);
	read_container("{\"limits\": {\"mete.dev/gpu\": \"2\"}}");
	expect_str(said.gpu, "2");
	expect_str(said.memory, "");
	read_container("{\"requests\": {\"nvidia.com/gpu\": \"1\", \"mete.dev/gpu\": \"0\"}}");
	expect(!amounts_any(&said));
	read_container("[]");
	expect(!amounts_any(&said));
}

TEST(amounts_are_split_equally_over_the_gpus)
{
	expect_eq(split("2", "20Gi", "500"), 0);
	expect_eq(it.gpus, 2);
	expect_eq(it.memory_bytes, 10 * GIB);
	expect_eq(it.milli, 250);
	expect(!it.slot_memory && !it.slot_milli);
	expect_eq(split("3", "10Gi", ""), 0);
	expect_eq(it.memory_bytes, 10 * GIB / 3);
	expect(it.slot_milli);
	expect_eq(split("1", "", "0"), 0);
	expect(it.slot_memory && !it.slot_milli);
	expect_eq(it.milli, 0);
}

static void expect_refused(int r, const char *sentence)
{
	expect_eq(r, -EINVAL);
	expect_str(why.text, sentence);
}

TEST(an_amount_that_makes_no_sense_is_refused_with_the_accepted_ones)
{
	expect_refused(split("", "20Gi", ""),
		       "mete.dev/gpu-memory: '20Gi' without mete.dev/gpu says nothing about a GPU; "
		       "accepted: together with mete.dev/gpu: 1, or more");
	expect_refused(split("0", "", "250"),
		       "mete.dev/gpu-milli: '250' without mete.dev/gpu says nothing about a GPU; "
		       "accepted: together with mete.dev/gpu: 1, or more");
	expect_refused(split("17", "", ""), "mete.dev/gpu: '17' GPUs; accepted: at most 16");
	expect_refused(split("1", "20", ""),
		       "mete.dev/gpu-memory: '20' is less than a mebibyte of each GPU; accepted: "
		       "an amount with its unit, such as 20Gi");
	expect_refused(split("1", "1E", ""),
		       "mete.dev/gpu-memory: '1E' is more than any GPU has; accepted: an amount "
		       "such as 20Gi");
	expect_refused(split("2", "20Gi", "2001"),
		       "mete.dev/gpu-milli: '2001' is no such part of 2 GPUs; accepted: "
		       "thousandths of a GPU's time, from 0 to 2000, of which each GPU gives the "
		       "same number");
	expect_eq(split("2", "20Gi", "1"), -EINVAL);
	expect_eq(split("2", "20Gi", "2000"), 0);
}

TEST(a_pod_is_added_up_as_the_scheduler_does_it)
{
	struct amounts_said pod[] = {
		{"1", "10Gi", "100", PLACEMENT_APP},   {"1", "20Gi", "", PLACEMENT_APP},
		{"1", "5Gi", "50", PLACEMENT_SIDECAR}, {"2", "28Gi", "400", PLACEMENT_INIT},
		{"1", "1Gi", "", PLACEMENT_INIT},
	};
	struct amounts all = amounts_of_pod(pod, ARRAY_SIZE(pod));

	expect_eq(all.gpus, 3);
	expect_eq(all.memory_bytes, 35 * GIB);
	expect_eq(all.milli, 450);
	all = amounts_of_pod(pod, 3);
	expect_eq(all.memory_bytes, 35 * GIB);
	expect_eq(all.milli, 150);
}

TEST(a_sidecar_runs_beside_the_init_containers_that_follow_it_alone)
{
	struct amounts_said pod[] = {
		{"1", "10Gi", "100", PLACEMENT_APP},
		{"1", "60Gi", "700", PLACEMENT_INIT},
		{"1", "30Gi", "200", PLACEMENT_SIDECAR},
		{"1", "35Gi", "100", PLACEMENT_INIT},
	};
	struct amounts all = amounts_of_pod(pod, ARRAY_SIZE(pod));

	expect_eq(all.gpus, 2);
	expect_eq(all.memory_bytes, 65 * GIB);
	expect_eq(all.milli, 700);
}

static struct seating_pod waiting(enum placement_reason reason, uint64_t needed, uint64_t available)
{
	struct seating_pod pod = {.containers = 1};

	pod.container[0].gpus = 1;
	pod.refusal = (struct seating_refusal){.reason = reason,
					       .needed = needed,
					       .available = available,
					       .together = 30 * GIB,
					       .whole = 80 * GIB};
	return pod;
}

static void expect_said(const struct seating_pod *pod, uint32_t gpus, const char *sentence)
{
	amounts_name(&names, "mete.dev/gpu", "mete.dev");
	expect_eq(say_refusal(pod, &names, gpus, &why), -EAGAIN);
	expect_str(why.text, sentence);
}

TEST(a_pod_that_waits_is_told_for_how_much)
{
	struct seating_pod pod = waiting(PLACEMENT_NO_MEMORY, 20 * GIB, 18 * GIB);

	expect_said(&pod, 1,
		    "mete.dev/gpu-memory: 20GiB of one GPU, and 18GiB of 80GiB are left on this "
		    "node's GPU: the container starts when there is room");
	expect_said(&pod, 2,
		    "mete.dev/gpu-memory: 20GiB of one GPU, and at most 18GiB are left on any one "
		    "of this node's 2 GPUs (30GiB on all together): the container starts when "
		    "there is room");
	pod.container[0].slot_memory = true;
	pod.container[0].gpus = 2;
	expect_said(&pod, 4,
		    "mete.dev/gpu-memory: 20GiB of each of 2 GPUs (a slot, no amount was said), "
		    "and at most 18GiB are left on each of so many of this node's 4 GPUs: the "
		    "container starts when there is room");
	pod = waiting(PLACEMENT_NO_COMPUTE, 500, 300);
	pod.refusal.whole = 1000;
	pod.refusal.together = 400;
	expect_said(&pod, 2,
		    "mete.dev/gpu-milli: 500 of one GPU, and at most 300 are left on any one of "
		    "this node's 2 GPUs (400 on all together): the container starts when there is "
		    "room");
	pod = waiting(PLACEMENT_NO_MEMORY_SIZE, 100 * GIB, 80 * GIB);
	expect_said(&pod, 2,
		    "mete.dev/gpu-memory: 100GiB of one GPU, and no GPU of this node has more than "
		    "80GiB: delete the pod, and ask for less, or for the same of more GPUs");
	pod = waiting(PLACEMENT_NO_DEVICE_COUNT, 3, 2);
	pod.container[0].gpus = 3;
	expect_said(&pod, 2,
		    "mete.dev/gpu: 3 GPUs for one container, and this node shares out 2: delete "
		    "the pod, and ask for fewer");
	pod = waiting(PLACEMENT_NO_EXCLUSIVE, 1, 0);
	pod.container[0].exclusive = true;
	expect_said(&pod, 2,
		    "mete.dev/gpu: 1 GPU that no other container uses, and this node has 0 of 2: "
		    "the container starts when there is room");
	pod = waiting(PLACEMENT_NO_LOST, 1, 0);
	expect_said(&pod, 0,
		    "mete.dev/gpu: no GPU of this node is in service: the container starts when "
		    "one is again");
}

TEST(a_pod_that_waits_is_told_what_else_is_in_the_way)
{
	struct seating_pod pod = waiting(PLACEMENT_NO_MEMORY, 20 * GIB, 18 * GIB);

	pod.refusal.elsewhere = true;
	expect_said(&pod, 2,
		    "mete.dev/gpu-memory: 20GiB of one GPU, and at most 18GiB are left on any one "
		    "of this node's 2 GPUs that has the rest of what it needs (30GiB on all "
		    "together): the container starts when there is room");
	pod.container[0].gpus = 2;
	expect_said(&pod, 4,
		    "mete.dev/gpu-memory: 20GiB of each of 2 GPUs, and at most 18GiB are left on "
		    "each of so many of this node's 4 GPUs that have the rest of what it needs: "
		    "the container starts when there is room");
	pod = waiting(PLACEMENT_NO_MEMORY_SIZE, 100 * GIB, 80 * GIB);
	pod.container[0].gpus = 2;
	expect_said(&pod, 2,
		    "mete.dev/gpu-memory: 100GiB of each of 2 GPUs, and no 2 GPUs of this node "
		    "have more than 80GiB: delete the pod, and ask for less, or for the same of "
		    "more GPUs");
	pod = waiting(PLACEMENT_NO_LOST, 2, 1);
	pod.container[0].gpus = 2;
	pod.container[0].memory_bytes = 40 * GIB;
	expect_said(&pod, 3,
		    "mete.dev/gpu: 2 GPUs with 40GiB or more of memory, and 1 such GPU of this "
		    "node is in service: the container starts when more are");
	pod = waiting(PLACEMENT_NO_DEVICE_COUNT, 3, 2);
	pod.container[0].gpus = 3;
	expect_said(&pod, 1,
		    "mete.dev/gpu: 3 GPUs for one container, and this node shares out 2: delete "
		    "the pod, and ask for fewer");
	pod = waiting(PLACEMENT_NO_SHARED, 1, 0);
	pod.refusal.elsewhere = true;
	expect_said(&pod, 3,
		    "mete.dev/gpu: 1 GPU that no other container has alone, and this node has 0 "
		    "of 3 that has the rest of what it needs: the container starts when there is "
		    "room");
}
