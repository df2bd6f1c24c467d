/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "kube/json.h"
#include "plugin/dra/claim.h"
#include "plugin/config/portion.h"
#include "tests/test.h"

#define A     "GPU-00000000-0000-0000-0000-00000000000a"
#define B     "GPU-00000000-0000-0000-0000-00000000000B"
#define GPU_A "gpu-00000000-0000-0000-0000-00000000000a"
#define GPU_B "gpu-00000000-0000-0000-0000-00000000000b"
#define GIB   (UINT64_C(1) << 30)
#define CLAIM "11111111-2222-3333-4444-555555555555"

static struct claim_device devices[2];
static struct config_share portion, most_;
static struct claim_place place;

/* Two devices of 16 GiB and a half mebibyte, and a configuration that says nothing. */
static void begin(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		devices[i] = (struct claim_device){.uuid = i ? B : A,
						   .total_bytes = 16 * GIB + (1 << 19)};
	portion = most_ = (struct config_share){.texts = {NULL}};
	place = (struct claim_place){"gpu.mete.dev", "n-mete", devices, 2, &portion, &most_};
}

/* ' stands for ". */
static cJSON *tree_of(const char *text)
{
	owned(free) char *copy = strdup(text);
	cJSON *tree;

	for (char *c = copy; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	tree = cJSON_Parse(copy);
	if (!tree)
		test_fail(__FILE__, __LINE__, "not JSON: %s", copy);
	return tree;
}

static int read_claim(const char *results, const char *config, struct claim **ret_claim,
		      struct fault *why)
{
	owned(free) char *text = NULL;
	owned(cJSON_Delete) cJSON *tree = NULL;

	expect(asprintf(&text,
			"{'metadata':{'namespace':'ns','name':'c','uid':'" CLAIM "'},"
			"'status':{'allocation':{'devices':{'results':[%s],'config':[%s]}}}}",
			results, config) > 0);
	tree = tree_of(text);
	expect_eq(claim_check(tree, CLAIM, why), 0);
	return claim_read(tree, &place, ret_claim, why);
}

#define RESULT(request, device, memory, compute)                                                   \
	"{'request':'" request "','driver':'gpu.mete.dev','pool':'n-mete','device':'" device       \
	"','shareID':'s-" request "','consumedCapacity':{'memory':'" memory                        \
	"','compute':'" compute "','slots':'1'}}"
#define CONFIG(source, requests, parameters)                                                       \
	"{'source':'" source "','requests':[" requests                                             \
	"],'opaque':{'driver':'gpu.mete.dev','parameters':{" parameters "}}}"

static const char quarter[] = RESULT("gpu", GPU_A, "4Gi", "25");

static struct claim *good(const char *results, const char *config)
{
	struct claim *claim;
	struct fault why;

	if (read_claim(results, config, &claim, &why) < 0)
		test_fail(__FILE__, __LINE__, "%s", why.text);
	return claim;
}

static void bad(const char *results, const char *config, const char *sentence)
{
	struct claim *claim;
	struct fault why;

	expect_eq(read_claim(results, config, &claim, &why) < 0, 1);
	if (!strstr(why.text, sentence))
		test_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", sentence, why.text);
}

/* Its share as meted would understand it. */
static struct share share_of(const struct claim *claim)
{
	struct config_share texts = {.texts = {NULL}};
	struct share share;
	uint32_t field;

	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		texts.texts[i] = claim->texts[i];
	expect_eq(portion_resolve(&texts, &share, &field), 0);
	return share;
}

TEST(counted_amounts_are_the_limit_and_the_guarantee)
{
	owned(claim_free) struct claim *claim = NULL;
	struct share share;

	begin();
	claim = good(quarter, "");
	share = share_of(claim);
	expect_eq(share.memory.bytes, 4 * GIB);
	expect_eq(share.guarantee_milli, 250);
	expect_eq(share.cap_milli, 1000);
	expect_eq(claim->devices, 1);
	expect_eq(claim->of[0], 0);
	expect_str(claim->namespace, "ns");
	expect_str(claim->name, "c");
	expect_str(claim->result[0].share_id, "s-gpu");
	expect_str(claim->result[0].device, GPU_A);
}

TEST(a_claim_without_amounts_has_the_whole_device)
{
	owned(claim_free) struct claim *claim = NULL;
	struct share share;

	begin();
	/* The default is whole mebibytes; the device has half a one more. */
	claim = good(RESULT("gpu", GPU_A, "16Gi", "100"), "");
	share = share_of(claim);
	expect_eq(share.memory.milli, 1000);
	expect_eq(share.guarantee_milli, 1000);
}

TEST(parameters_are_the_fields_of_a_share)
{
	owned(claim_free) struct claim *claim = NULL;
	struct share share;

	begin();
	most_.texts[PORTION_weight] = "1000";
	claim = good(quarter, CONFIG("FromClaim", "'gpu'",
				     "'apiVersion':'mete.dev/v1','kind':'Share','weight':300,"
				     "'class':'batch','on-daemon-loss':'block','strict':true"));
	share = share_of(claim);
	expect_eq(share.weight, 300);
	expect_eq(share.class, SHARE_BATCH);
	expect_eq(share.on_daemon_loss, SHARE_BLOCK);
	expect_eq(share.strict, 1);
}

/* A new row of share.def is a parameter at once: each field is accepted at its own default. */
TEST(every_field_of_a_share_that_is_not_counted_is_a_parameter)
{
	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		owned(free) char *config = NULL;
		owned(claim_free) struct claim *claim = NULL;

		begin();
		if (i == PORTION_memory || i == PORTION_mode || i == PORTION_guarantee)
			continue;
		expect(asprintf(&config, CONFIG("FromClaim", "", "'%s':'%s'"), share_key(i),
				share_default(share_key(i))) > 0);
		claim = good(quarter, config);
		expect_str(claim->texts[i], share_default(share_key(i)));
	}
}

TEST(the_claim_overrides_its_class_and_later_entries_earlier_ones)
{
	owned(claim_free) struct claim *claim = NULL;

	begin();
	claim = good(
		quarter,
		CONFIG("FromClass", "", "'class':'interactive','swap':'auto'") "," CONFIG(
			"FromClass", "'gpu'",
			"'idle':'park'") "," CONFIG("FromClaim", "",
						    "'class':'batch'") "," CONFIG("FromClaim", "",
										  "'class':'"
										  "standard'"));
	expect_str(claim->texts[PORTION_class], "standard");
	expect_str(claim->texts[PORTION_swap], "auto");
	expect_str(claim->texts[PORTION_idle], "park");
}

TEST(the_nodes_own_share_holds_where_nothing_else_is_said_but_no_amount_of_a_slot)
{
	owned(claim_free) struct claim *claim = NULL;
	struct share share;

	begin();
	portion.texts[PORTION_memory] = "10%";
	portion.texts[PORTION_cap] = "10%";
	portion.texts[PORTION_weight] = "7";
	portion.texts[PORTION_escalate] = "kill";
	claim = good(quarter, "");
	share = share_of(claim);
	expect_eq(share.memory.bytes, 4 * GIB);
	expect_eq(share.cap_milli, 1000);
	expect_eq(share.weight, 100);
	expect_eq(share.escalate, SHARE_KILL);
}

TEST(a_claim_may_not_raise_what_its_class_has_set)
{
	begin();
	bad(quarter,
	    CONFIG("FromClass", "", "'class':'batch'") "," CONFIG("FromClaim", "",
								  "'class':'standard'"),
	    "accepted: a class up to batch");
}

TEST(a_claim_keeps_to_the_nodes_bounds_and_a_class_need_not)
{
	owned(claim_free) struct claim *claim = NULL;

	begin();
	bad(quarter, CONFIG("FromClaim", "", "'swap':'auto'"),
	    "parameters/swap: 'auto' is more than");
	bad(quarter, CONFIG("FromClaim", "", "'weight':10000"), "accepted: a weight up to 100");
	most_.texts[PORTION_weight] = "10000";
	claim = good(quarter, CONFIG("FromClass", "", "'swap':'auto'") "," CONFIG(
				      "FromClaim", "", "'weight':10000"));
	expect_str(claim->texts[PORTION_weight], "10000");
}

TEST(each_mistake_in_the_parameters_is_one_sentence)
{
	static const char *const from[] = {"FromClass", "FromClaim"};
	static const struct {
		const char *parameters, *sentence;
	} rows[] = {
		{"'wieght':3", "wieght: there is no such parameter; the nearest is 'weight'"},
		{"'xyzzy':3", "xyzzy: there is no such parameter"},
		{"'memory':'3Gi'", "memory: this is counted"},
		{"'guarantee':'30%%'", "guarantee: this is counted"},
		{"'mode':'equal'", "mode: this is counted"},
		{"'weight':{}", "weight: the value is not understood"},
		{"'weight':null", "weight: the value is not understood"},
		{"'weight':300,'class':'batch','weight':100", "weight: it is said more than once"},
		{"'on_daemon_loss':'block','on-daemon-loss':'fail'",
		 "on-daemon-loss: it is said more than once"},
		{"'weight':0", "'0' is zero"},
		{"'weight':-1", "'-1' is negative"},
		{"'weight':1.5", "weight: '1.5'"},
		{"'cap':'20%%'", "guarantee"},
		{"'class':'fast'", "'fast' is not"},
		{"'apiVersion':'mete.dev/v9'", "apiVersion: 'mete.dev/v9' is not known"},
		{"'kind':'GpuConfig'", "accepted: Share"},
	};

	begin();
	for (size_t i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		owned(free) char *parameters = NULL, *config = NULL;

		expect(asprintf(&parameters, rows[i / 2].parameters, "") > 0);
		expect(asprintf(&config,
				"{'source':'%s','requests':[],'opaque':{'driver':'gpu.mete.dev',"
				"'parameters':{%s}}}",
				from[i % 2], parameters) > 0);
		bad(quarter, config, rows[i / 2].sentence);
	}
}

TEST(a_sentence_begins_with_the_author_of_the_mistake)
{
	begin();
	bad(quarter, CONFIG("FromClass", "", "'weight':0"),
	    "the parameters of the claim's DeviceClass: ");
	bad(quarter, CONFIG("FromClaim", "", "'weight':0"), "the claim's parameters: ");
}

TEST(other_drivers_devices_and_parameters_are_theirs)
{
	static const char theirs[] = "{'request':'nic','driver':'nic.example','pool':'p',"
				     "'device':'d'}";
	owned(free) char *both = NULL;
	owned(claim_free) struct claim *claim = NULL;

	begin();
	expect(asprintf(&both, "%s,%s", theirs, quarter) > 0);
	claim = good(both, "{'source':'FromClaim','requests':[],'opaque':{'driver':'nic.example',"
			   "'parameters':{'weight':0}}}");
	expect_eq(claim->results, 1);
	bad(theirs, "", "the claim has no device of driver gpu.mete.dev");
	/* For a request that is not ours. */
	claim_free(take(claim));
	claim = good(both, CONFIG("FromClaim", "'nic'", "'weight':0"));
}

TEST(an_alternative_is_named_by_its_request_or_by_itself)
{
	static const char result[] = RESULT("main/small", GPU_A, "4Gi", "25");
	static const char *const requests[] = {
		CONFIG("FromClaim", "'main'", "'class':'batch'"),
		CONFIG("FromClaim", "'main/small'", "'class':'batch'")};

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		owned(claim_free) struct claim *claim = good(result, requests[i]);

		expect_str(claim->texts[PORTION_class], "batch");
	}
	{
		owned(claim_free) struct claim *claim =
			good(result, CONFIG("FromClaim", "'main/large'", "'class':'batch'"));

		expect(!claim->texts[PORTION_class]);
	}
}

TEST(two_shares_of_a_device_are_one_of_their_sum)
{
	owned(claim_free) struct claim *claim = NULL;
	struct share share;

	begin();
	claim = good(RESULT("a", GPU_A, "4Gi", "25") "," RESULT("b", GPU_A, "2Gi", "10"), "");
	share = share_of(claim);
	expect_eq(claim->results, 2);
	expect_eq(claim->devices, 1);
	expect_eq(share.memory.bytes, 6 * GIB);
	expect_eq(share.guarantee_milli, 350);
	claim_free(take(claim));
	claim = good(RESULT("a", GPU_A, "7Ei", "100") "," RESULT(
			     "b", GPU_A, "7Ei", "100") "," RESULT("c", GPU_A, "7Ei", "100"),
		     "");
	expect_eq(share_of(claim).memory.milli, 1000);
	expect_eq(share_of(claim).guarantee_milli, 1000);
}

TEST(a_claim_has_the_same_of_each_of_its_devices)
{
	owned(claim_free) struct claim *claim = NULL;

	begin();
	claim = good(RESULT("a", GPU_A, "4Gi", "25") "," RESULT("b", GPU_B, "4Gi", "25"), "");
	expect_eq(claim->devices, 2);
	expect_eq(claim->of[1], 1);
	bad(RESULT("a", GPU_A, "4Gi", "25") "," RESULT("b", GPU_B, "5Gi", "25"), "",
	    "the claim has 4096MiB and 25% of one device, and 5120MiB and 25% of another");
	/* Which differ, however little. */
	bad(RESULT("a", GPU_A, "4Gi", "25") "," RESULT("b", GPU_B, "4100Mi", "25"), "",
	    "the claim has 4096MiB and 25% of one device, and 4100MiB and 25% of another");
	bad(RESULT("a", GPU_A, "4Gi", "25") "," RESULT("b", GPU_B, "4Gi", "30"), "",
	    "the same of each device");
	bad(RESULT("a", GPU_A, "4Gi", "25") "," RESULT("b", GPU_B, "4Gi", "25"),
	    CONFIG("FromClaim", "'a'", "'class':'batch'"), "for some of the claim's requests");
	/* All of each, whatever their sizes. */
	devices[1].total_bytes = 8 * GIB;
	claim_free(take(claim));
	claim = good(RESULT("a", GPU_A, "16Gi", "100") "," RESULT("b", GPU_B, "8Gi", "100"), "");
	expect_eq(share_of(claim).memory.milli, 1000);
}

TEST(swap_is_required_where_more_is_given_out_than_there_is)
{
	owned(claim_free) struct claim *claim = NULL;

	begin();
	devices[0].inflated = true;
	bad(quarter, "", "accepted: 'swap: auto'");
	claim = good(quarter, CONFIG("FromClass", "", "'swap':'auto'"));
	claim_free(take(claim));
	most_.texts[PORTION_swap] = "auto";
	claim = good(quarter, CONFIG("FromClaim", "", "'swap':'auto'"));
	claim_free(take(claim));
	/* Nobody is beside one that has all of the time. */
	claim = good(RESULT("gpu", GPU_A, "16Gi", "100"), "");
	claim_free(take(claim));
	claim = good(RESULT("gpu", GPU_B, "4Gi", "25"), "");
}

#define LOOK(request, device)                                                                      \
	"{'request':'" request "','driver':'gpu.mete.dev','pool':'n-mete','device':'" device       \
	"','adminAccess':true}"

TEST(a_claim_with_admin_access_has_next_to_no_share)
{
	owned(claim_free) struct claim *claim = NULL;
	struct share share;

	begin();
	claim = good(LOOK("a", GPU_A) "," LOOK("b", GPU_B), "");
	expect_eq(claim->is_admin, 1);
	expect_eq(claim->devices, 2);
	share = share_of(claim);
	expect_eq(share.weight, 1);
	expect_eq(share.cap_milli, 10);
	expect_eq(share.guarantee_milli, 0);
	expect_eq(share.class, SHARE_BATCH);
	bad(LOOK("a", GPU_A) "," RESULT("b", GPU_B, "4Gi", "25"), "", "accepted: a claim for each");
	bad(LOOK("a", GPU_A), CONFIG("FromClaim", "", "'weight':'50'"),
	    "weight: a claim with adminAccess looks at devices");
}

TEST(parameters_that_make_no_share_are_refused)
{
	begin();
	bad("{'request':'g','driver':'gpu.mete.dev','pool':'n-mete','device':'" GPU_A "'}", "",
	    "allocated without counting");
	bad("{'request':'g','driver':'gpu.mete.dev','pool':'n','device':'" GPU_A "'}", "",
	    "pool 'n'; accepted: n-mete");
	bad(RESULT("g", "gpu-7", "4Gi", "25"), "", "device gpu-7 is not on this node");
	bad(RESULT("g", GPU_A, "lots", "25"), "", "the consumed memory");
	bad(quarter, CONFIG("FromClaim", "", "'exclusive':'true'"), "exclusive");
	bad(quarter,
	    "{'source':'FromClaim','opaque':{'driver':'gpu.mete.dev','parameters':['weight']}}",
	    "they are no object");
	bad(quarter,
	    "{'source':'FromClaim','opaque':{'driver':'gpu.mete.dev','parameters':'weight'}}",
	    "they are no object");
}

TEST(a_claim_has_the_right_uid_and_is_allocated)
{
	owned(cJSON_Delete) cJSON *tree = NULL;
	struct fault why;

	tree = tree_of("{'metadata':{'uid':'other'},'status':{'allocation':{}}}");
	expect_eq(claim_check(tree, CLAIM, &why), -ENOENT);
	cJSON_Delete(tree);
	tree = tree_of("{'metadata':{'uid':'" CLAIM "'},'status':{}}");
	expect_eq(claim_check(tree, CLAIM, &why), -ENOENT);
	expect(strstr(why.text, "not"));
	expect_eq(claim_check(NULL, CLAIM, &why), -ENOENT);
}

static void result_list(char *text, size_t size, int count)
{
	size_t used = 0;

	*text = '\0';
	for (int i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, size - used,
					 "%s" RESULT("r", GPU_A, "1Mi", "1"), i ? "," : "");
}

TEST(a_claim_has_32_results_at_most)
{
	owned(claim_free) struct claim *claim = NULL;
	char text[16384];

	begin();
	result_list(text, sizeof(text), 32);
	claim = good(text, "");
	expect_eq(claim->results, 32);
	result_list(text, sizeof(text), 33);
	bad(text, "", "more than 32 devices");
}

/* What no scheduler of ours allocates, and somebody may write into a claim. */
TEST(consumed_amounts_at_the_limits_of_kubernetes_are_shares_or_refused)
{
	static const struct {
		const char *memory, *compute;
		uint64_t bytes; /* UINT64_MAX: all of it */
		uint32_t guarantee_milli;
	} good_ones[] = {
		{"1e9", "1e1", 1000000000, 100},
		{"0.5Gi", "1500m", GIB / 2, 20},
		{"1073741824k", "25", UINT64_MAX, 250},
		{"1E", "1k", UINT64_MAX, 1000},
		{"9223372036854775807", "9223372036854775807", UINT64_MAX, 1000},
		{"1Ei", "100", UINT64_MAX, 1000},
		{"4294967296000m", "0", 4 * GIB, 10},
	};

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(good_ones); i++) {
		owned(claim_free) struct claim *claim = NULL;
		owned(free) char *text = NULL;
		struct share share;

		expect(asprintf(&text,
				"{'request':'gpu','driver':'gpu.mete.dev','pool':'n-mete','device':"
				"'" GPU_A "','consumedCapacity':{'memory':'%s','compute':'%s'}}",
				good_ones[i].memory, good_ones[i].compute) > 0);
		claim = good(text, "");
		share = share_of(claim);
		if (good_ones[i].bytes == UINT64_MAX)
			expect_eq(share.memory.milli, 1000);
		else
			expect_eq(share.memory.bytes, good_ones[i].bytes);
		expect_eq(share.guarantee_milli, good_ones[i].guarantee_milli);
	}
	bad(RESULT("gpu", GPU_A, "0", "25"), "", "memory");
	bad(RESULT("gpu", GPU_A, "-1", "25"), "", "which is no amount");
	bad(RESULT("gpu", GPU_A, "1e-", "25"), "", "which is no amount");
	bad(RESULT("gpu", GPU_A, "4Gi", "1KI"), "", "which is no amount");
	bad("{'request':'gpu','driver':'gpu.mete.dev','pool':'n-mete','device':'" GPU_A
	    "','consumedCapacity':{}}",
	    "", "which is no amount");
}
