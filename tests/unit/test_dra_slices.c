/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/json.h"
#include "plugin/quantity.h"
#include "plugin/dra/slices.h"
#include "tests/test.h"

#define GPU "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"
#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static const struct slices_pool pool = {
	.driver = "gpu.mete.dev", .node = "node1", .node_uid = "u", .generation = 3};

static struct slices_device usual(void)
{
	return (struct slices_device){
		.uuid = GPU,
		.model = "NVIDIA H200",
		.pci = "00000000:1B:00.0",
		.pcie_root = "pci0000:16",
		.driver = "615.71.09",
		.cuda = 13040,
		.major = 9,
		.numa = 0,
		.total_bytes = 143771 * MIB + 5,
		.promised_bytes = 143771 * MIB + 5,
		.slots = 10,
	};
}

static cJSON *describe(const struct slices_device *devices, size_t count)
{
	cJSON *list = slices_describe(&pool, devices, count);

	expect(list);
	return list;
}

static const cJSON *at(const cJSON *tree, const char *path)
{
	char copy[200], *rest, *word;

	snprintf(copy, sizeof(copy), "%s", path);
	for (word = strtok_r(copy, " ", &rest); word && tree; word = strtok_r(NULL, " ", &rest))
		tree = *word >= '0' && *word <= '9' ? cJSON_GetArrayItem(tree, atoi(word))
						    : cJSON_GetObjectItemCaseSensitive(tree, word);
	return tree;
}

static const char *text_at(const cJSON *tree, const char *path)
{
	return cJSON_GetStringValue(at(tree, path));
}

static uint64_t amount_at(const cJSON *tree, const char *path)
{
	uint64_t value = 0;

	expect_eq(quantity_read_up(text_at(tree, path), &value), 0);
	return value;
}

TEST(a_device_has_nvidias_attributes)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = describe(&d, 1);
	const cJSON *device = at(list, "0 spec devices 0"), *all = at(device, "attributes");

	expect_str(text_at(device, "name"), "gpu-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c");
	expect(cJSON_IsTrue(at(device, "allowMultipleAllocations")));
	expect_str(text_at(all, "type string"), "gpu");
	expect_str(text_at(all, "uuid string"), GPU);
	expect_str(text_at(all, "productName string"), "NVIDIA H200");
	expect_str(text_at(all, "architecture string"), "Hopper");
	expect_str(text_at(all, "cudaComputeCapability version"), "9.0.0");
	expect_str(text_at(all, "driverVersion version"), "615.71.9");
	expect_str(text_at(all, "cudaDriverVersion version"), "13.4.0");
	expect_str(text_at(all, "resource.kubernetes.io/pciBusID string"), "0000:1b:00.0");
	expect_str(text_at(all, "resource.kubernetes.io/pcieRoot string"), "pci0000:16");
	expect_eq(cJSON_GetNumberValue(at(all, "resource.kubernetes.io/numaNode int")), 0);
}

TEST(unknown_properties_of_a_device_are_left_out)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = NULL;
	const cJSON *all;

	d.pci = d.pcie_root = d.driver = "";
	d.numa = -1;
	d.major = d.cuda = 0;
	d.is_part = true;
	list = describe(&d, 1);
	all = at(list, "0 spec devices 0 attributes");
	expect_str(text_at(all, "type string"), "mig");
	expect(!at(all, "architecture") && !at(all, "cudaComputeCapability"));
	expect(!at(all, "cudaDriverVersion") && !at(all, "parentUUID"));
	expect(!at(all, "driverVersion") && !at(all, "resource.kubernetes.io/pciBusID"));
	expect(!at(all, "resource.kubernetes.io/pcieRoot"));
	expect(!at(all, "resource.kubernetes.io/numaNode"));
}

TEST(a_share_is_never_an_accident)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = describe(&d, 1);
	const cJSON *all = at(list, "0 spec devices 0 capacity");

	/* The bytes beyond a whole mebibyte cannot be asked for. */
	expect_eq(amount_at(all, "memory value"), 143771 * MIB);
	expect_eq(amount_at(all, "memory requestPolicy default"), 143771 * MIB);
	expect_eq(amount_at(all, "compute value"), 100);
	expect_eq(amount_at(all, "compute requestPolicy default"), 100);
	expect_eq(amount_at(all, "slots value"), 10);
	expect_eq(amount_at(all, "slots requestPolicy default"), 1);
	expect_str(text_at(all, "slots requestPolicy validValues 0"), "1");
	expect(!at(all, "slots requestPolicy validValues 1"));
}

/* Kubernetes rounds to multiples of the step, and checks distances from the minimum. */
TEST(every_bound_of_a_request_is_a_multiple_of_its_step)
{
	static const char *const names[] = {"memory", "compute"};
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = NULL;

	d.promised_bytes = d.total_bytes / 7 * 16;
	list = describe(&d, 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const cJSON *one = at(at(list, "0 spec devices 0 capacity"), names[i]);
		uint64_t step = amount_at(one, "requestPolicy validRange step");

		expect_eq(amount_at(one, "requestPolicy validRange min") % step, 0);
		expect_eq(amount_at(one, "requestPolicy validRange max") % step, 0);
		expect_eq(amount_at(one, "requestPolicy default") % step, 0);
		expect(amount_at(one, "requestPolicy validRange min") > 0);
		expect(amount_at(one, "requestPolicy validRange max") <= amount_at(one, "value"));
	}
}

TEST(one_claim_can_have_no_more_than_the_device_however_much_is_promised)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = NULL;
	const cJSON *memory;

	d.promised_bytes = 2 * d.total_bytes;
	list = describe(&d, 1);
	memory = at(list, "0 spec devices 0 capacity memory");
	expect_eq(amount_at(memory, "value"), 2 * 143771 * MIB);
	expect_eq(amount_at(memory, "requestPolicy default"), 143771 * MIB);
	expect_eq(amount_at(memory, "requestPolicy validRange max"), 143771 * MIB);
	expect_eq(cJSON_GetNumberValue(at(list, "0 spec devices 0 attributes physicalMemory int")),
		  143771 * MIB + 5);
}

static void expect_slices(size_t devices, bool tainted, int slices, int of_last)
{
	struct slices_device d[300];
	owned(cJSON_Delete) cJSON *list = NULL;

	for (size_t i = 0; i < devices; i++)
		d[i] = usual();
	if (tainted)
		d[devices - 1].taint[0] = (struct slices_taint){"xid", "79", "NoSchedule"};
	list = describe(d, devices);
	expect_eq(cJSON_GetArraySize(list), slices);
	for (int i = 0; i < slices; i++) {
		const cJSON *slice = cJSON_GetArrayItem(list, i);

		expect_eq(cJSON_GetNumberValue(at(slice, "spec pool resourceSliceCount")), slices);
		expect_eq(cJSON_GetNumberValue(at(slice, "spec pool generation")), 3);
		expect_str(text_at(slice, "spec pool name"), "node1-mete");
		expect_eq(cJSON_GetArraySize(at(slice, "spec devices")),
			  i == slices - 1
				  ? of_last
				  : (tainted ? SLICES_DEVICES_TAINTED_MAX : SLICES_DEVICES_MAX));
	}
}

TEST(a_slice_has_so_many_devices_at_most)
{
	expect_slices(0, false, 1, 0);
	expect_slices(128, false, 1, 128);
	expect_slices(129, false, 2, 1);
	expect_slices(256, false, 2, 128);
	expect_slices(64, true, 1, 64);
	expect_slices(65, true, 2, 1);
	expect_slices(129, true, 3, 1);
}

TEST(a_slice_belongs_to_its_node)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = describe(&d, 1);

	expect_str(text_at(list, "0 spec nodeName"), "node1");
	expect_str(text_at(list, "0 spec driver"), "gpu.mete.dev");
	expect_str(text_at(list, "0 metadata name"), "node1-mete-0");
	expect_str(text_at(list, "0 metadata ownerReferences 0 kind"), "Node");
	expect_str(text_at(list, "0 metadata ownerReferences 0 uid"), "u");
}

/* The pool's and its first slice's name, on a node whose long name has one letter of its own. */
struct long_names {
	char pool[SLICES_POOL], slice[300];
};

static struct long_names names_of(size_t place)
{
	owned(cJSON_Delete) cJSON *list = NULL;
	struct long_names names;
	char node[254];
	const struct slices_pool of = {"gpu.mete.dev", node, "u", 1};

	memset(node, 'a', sizeof(node) - 1);
	node[sizeof(node) - 1] = '\0';
	memset(node + 200, '.', 30);
	node[place] = 'b';
	slices_pool_name(node, names.pool);
	list = slices_describe(&of, NULL, 0);
	snprintf(names.slice, sizeof(names.slice), "%s", text_at(list, "0 metadata name"));
	return names;
}

/* Slices of one name would overwrite each other, and pools of one name are one pool. */
TEST(nodes_with_the_longest_names_have_pools_and_slices_of_their_own)
{
	const struct long_names first = names_of(0), last = names_of(252);

	expect(strcmp(first.pool, last.pool) != 0);
	expect(strcmp(first.slice, last.slice) != 0);
	expect(strlen(first.slice) <= 253 && strlen(first.pool) <= 253);
	expect_str(first.pool + strlen(first.pool) - 5, "-mete");
	expect(!strstr(first.pool, ".-"));
}

TEST(a_tainted_device_says_why)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = NULL;

	d.taint[0] = (struct slices_taint){"xid", "79", "NoSchedule"};
	list = describe(&d, 1);
	expect_str(text_at(list, "0 spec devices 0 taints 0 key"), "gpu.mete.dev/xid");
	expect_str(text_at(list, "0 spec devices 0 taints 0 value"), "79");
	expect_str(text_at(list, "0 spec devices 0 taints 0 effect"), "NoSchedule");
}

TEST(a_cordoned_device_says_so_beside_its_other_taints)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = NULL;

	d.taint[0] = (struct slices_taint){"xid", "48", "NoSchedule"};
	d.taint[1] = (struct slices_taint){"cordoned", NULL, "NoSchedule"};
	list = describe(&d, 1);
	expect_str(text_at(list, "0 spec devices 0 taints 0 key"), "gpu.mete.dev/xid");
	expect_str(text_at(list, "0 spec devices 0 taints 1 key"), "gpu.mete.dev/cordoned");
	expect(!at(list, "0 spec devices 0 taints 1 value"));
	expect_str(text_at(list, "0 spec devices 0 taints 1 effect"), "NoSchedule");
}

/* The server's own form of what we wrote, as Kubernetes 1.36.3 returned it. */
TEST(the_servers_own_form_of_a_slice_is_the_same_slice)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = NULL, *found = NULL;
	cJSON *device, *taint;

	d.total_bytes = d.promised_bytes = 4 * GIB;
	d.taint[0] = (struct slices_taint){"xid", "79", "NoSchedule"};
	list = describe(&d, 1);
	found = cJSON_Duplicate(cJSON_GetArrayItem(list, 0), true);
	device = (cJSON *)at(found, "spec devices 0");
	expect(cJSON_SetValuestring((cJSON *)at(device, "capacity memory value"), "4Gi"));
	cJSON_SetNumberValue((cJSON *)at(found, "spec pool generation"), 17);
	taint = (cJSON *)at(device, "taints 0");
	cJSON_AddStringToObject(taint, "timeAdded", "2026-11-26T12:00:00Z");
	expect(slices_same(cJSON_GetArrayItem(list, 0), found));
}

TEST(an_edited_slice_is_another_one)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = describe(&d, 1);
	const cJSON *wanted = cJSON_GetArrayItem(list, 0);

	for (int i = 0; i < 6; i++) {
		owned(cJSON_Delete) cJSON *found = cJSON_Duplicate(wanted, true);
		cJSON *device = (cJSON *)at(found, "spec devices 0");

		if (i == 0)
			cJSON_SetValuestring((cJSON *)at(device, "capacity slots value"), "9");
		if (i == 1)
			cJSON_DeleteItemFromObject((cJSON *)at(device, "attributes"), "uuid");
		if (i == 2)
			cJSON_AddItemToArray((cJSON *)at(found, "spec devices"),
					     cJSON_Duplicate(device, true));
		if (i == 3)
			cJSON_AddStringToObject(device, "nodeName", "other");
		if (i == 4)
			cJSON_SetNumberValue((cJSON *)at(found, "spec pool resourceSliceCount"), 2);
		if (i == 5)
			cJSON_ReplaceItemInObject(device, "allowMultipleAllocations",
						  cJSON_CreateFalse());
		expect(!slices_same(wanted, found));
	}
}

TEST(an_architecture_has_the_name_that_nvidia_gives_it)
{
	expect_str(slices_architecture(12, 1), "Blackwell");
	expect_str(slices_architecture(10, 3), "Blackwell");
	expect_str(slices_architecture(9, 0), "Hopper");
	expect_str(slices_architecture(8, 9), "Ada Lovelace");
	expect_str(slices_architecture(8, 6), "Ampere");
	expect_str(slices_architecture(7, 5), "Turing");
	expect_str(slices_architecture(7, 2), "Volta");
	expect_str(slices_architecture(13, 0), "");
	expect_str(slices_architecture(0, 0), "");
}

TEST(an_amount_is_written_as_the_api_server_writes_it)
{
	static const struct {
		const char *text;
		uint64_t value;
	} rows[] = {
		{"0", 0},
		{"20Gi", 20 * GIB},
		{"1024Mi", GIB},
		{"4k", 4000},
		{"1M", 1000000},
		{"25", 25},
		{"+25", 25},
		{"0.5", 1},
		{"1.0000000001", 2},
		{"1500m", 2},
		{"1n", 1},
		{"1e3", 1000},
		{"12E2", 1200},
		{"2E", UINT64_C(2000000000000000000)},
		{"1.5Gi", GIB + GIB / 2},
		{"0.1Ki", 103},
		{"7Ei", UINT64_C(7) << 60},
		{"0e400", 0},
		{"9223372036854775807", INT64_MAX},
		{"9223372036854775807m", UINT64_C(9223372036854776)},
	};
	uint64_t value;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		expect_eq(quantity_read_up(rows[i].text, &value), 0);
		expect_eq(value, rows[i].value);
	}
}

TEST(text_that_is_no_amount_is_refused)
{
	static const char *const texts[] = {
		"",	"-1",	  "Gi",	 "1 Gi", "1gi",
		"1Gib", "8Ei",	  "1e",	 "1ex",	 "1.2.3",
		".",	"1e1000", "10E", " 1",	 "12345678901234567890"};
	uint64_t value;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		expect_eq(quantity_read_up(texts[i], &value), -EINVAL);
}

TEST(a_place_is_called_by_its_gpu_profile_and_start)
{
	char name[SLICES_NAME];

	slices_device_name(GPU ":1g.10gb:4", name);
	expect_str(name, "gpu-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c-1g-10gb-4");
	/* Profiles that differ by a sign have different names, and the longest fits. */
	slices_device_name(GPU ":1g.24gb-me:0", name);
	expect_str(name, "gpu-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c-1g-24gb-me-0");
	slices_device_name(GPU ":1g.24gb+me.all:11", name);
	expect_str(name, "gpu-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c-1g-24gb-plus-me-all-11");
}

TEST(a_place_has_no_uuid_and_says_its_profile_and_gpu)
{
	struct slices_device d = usual();
	owned(cJSON_Delete) cJSON *list = NULL;
	const cJSON *attributes;

	d.uuid = GPU ":1g.18gb:4";
	d.is_part = d.is_place = true;
	d.profile = "1g.18gb";
	d.parent = GPU;
	list = describe(&d, 1);
	attributes = at(list, "0 spec devices 0 attributes");
	expect(!cJSON_GetObjectItemCaseSensitive(attributes, "uuid"));
	expect_str(text_at(attributes, "profile string"), "1g.18gb");
	expect_str(text_at(attributes, "parentUUID string"), GPU);
	expect_str(text_at(attributes, "type string"), "mig");
}
