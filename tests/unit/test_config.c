/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/config/config.h"

#include "base/file.h"
#include "plugin/config/portion.h"
#include "tests/test.h"
#include "tests/unit/config_parse.h"

static struct fault why;

static const struct tm noon = {.tm_hour = 12, .tm_wday = 3};
static const struct tm midnight = {.tm_hour = 0, .tm_wday = 3};
static const struct config_device a100 = {
	.index = 0,
	.uuid = "GPU-5d3f9c1e-0000-1111-2222-333344445555",
	.model = "NVIDIA A100-SXM4-80GB",
	.total_bytes = 80ull << 30,
};
static const struct config_device t4 = {
	.index = 3,
	.uuid = "GPU-77777777-0000-1111-2222-333344445555",
	.model = "Tesla T4",
	.total_bytes = 15ull << 30,
};

static const char *text_of(const struct config_share *share, enum portion_field field)
{
	return share->texts[field];
}

TEST(without_the_key_everything_is_as_usual)
{
	static const char *const texts[] = {"", "# nothing\n", "---\n", "{}", "null\n"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		owned(config_free) struct config *config = parse(texts[i]);

		expect(!config->has_mete && !config->has_nvidia);
		expect_eq(config->warnings, 0);
		expect_eq(config->slots, 10);
		expect_str(config->resource, "mete.dev/gpu");
	}
}

TEST(a_merge_key_takes_over_what_the_map_does_not_have_itself)
{
	owned(config_free) struct config *config =
		parse("sharing: &all {slots: 3, share: {memory: 25%, weight: 200}}\n"
		      "mete:\n  slots: 4\n  <<: *all\n");

	expect_eq(config->slots, 4);
	expect_str(text_of(&config->share, PORTION_memory), "25%");
	expect_str(text_of(&config->share, PORTION_weight), "200");
}

TEST(the_key_alone_means_the_defaults_of_the_manual)
{
	static const char *const texts[] = {"mete:\n", "mete: {}\n", "{\"mete\": {\"share\": {}}}"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		owned(config_free) struct config *config = parse(texts[i]);
		struct config_share share;
		uint32_t slots = 0;

		expect(config->has_mete);
		expect_str(config->name, "f");
		expect_str(config->domain, "mete.dev");
		expect_eq(config->ids, CONFIG_IDS_UUID);
		expect_eq(config->overcommit_milli, 1000);
		expect_eq(config->strangers, CONFIG_STRANGERS_REPORT);
		expect_eq(config->cdi, CONFIG_CDI_AUTO);
		expect_str(config->cdi_folder, "/var/run/cdi");
		expect_str(config->kubelet_folder, "/var/lib/kubelet");
		expect_str(config->driver_root, "/");
		expect_str(config->host_prefix, "");
		expect(!config->metrics && !config->health && !config->kubeconfig &&
		       !config->node_name);
		expect(config_portion(config, &a100, &noon, &slots, &share));
		expect_eq(slots, 10);
		for (uint32_t field = 0; field < SHARE_FIELDS; field++)
			expect(!share.texts[field]);
		expect_eq(config_next_change(config, &noon), 0);
	}
}

TEST(every_key_reaches_its_field)
{
	owned(config_free) struct config *config = parse(
		"mete:\n"
		"  resource: nvidia.com/gpu\n  domain: gpu.example.org\n  ids: slot\n  slots: 4\n"
		"  overcommit: 112.5%\n  unannounced: kill\n  cdi: off\n  "
		"cdi-folder: /etc/cdi\n"
		"  kubelet_folder: /k\n  driver-root: /host\n  host-prefix: /x\n"
		"  metrics: '[::1]:9400'\n  health: ':9401'\n  kubeconfig: none\n"
		"  node-name: node-1.example\n"
		"  share: {memory: 25%, on-daemon-loss: block, swap: false, strict: true}\n"
		"  most: {memory: 40GiB}\n  park-after: 5m\n");

	expect_str(config->resource, "nvidia.com/gpu");
	expect_str(config->domain, "gpu.example.org");
	expect_eq(config->ids, CONFIG_IDS_SLOT);
	expect_eq(config->slots, 4);
	expect_eq(config->overcommit_milli, 1125);
	expect_eq(config->park_after_ns, 300 * 1000000000ull);
	expect_eq(config->park_delay_ns, UINT64_MAX);
	expect_eq(config->strangers, CONFIG_STRANGERS_KILL);
	expect_eq(config->cdi, CONFIG_CDI_OFF);
	expect_str(config->cdi_folder, "/etc/cdi");
	expect_str(config->kubelet_folder, "/k");
	expect_str(config->driver_root, "/host");
	expect_str(config->host_prefix, "/x");
	expect_str(config->metrics, "[::1]:9400");
	expect_str(config->health, ":9401");
	expect_str(config->kubeconfig, "none");
	expect_str(config->node_name, "node-1.example");
	expect_str(text_of(&config->share, PORTION_memory), "25%");
	expect_str(text_of(&config->share, PORTION_on_daemon_loss), "block");
	expect_str(text_of(&config->share, PORTION_swap), "off");
	expect_str(text_of(&config->share, PORTION_strict), "yes");
	expect_str(text_of(&config->most, PORTION_memory), "40GiB");
	expect_eq(config->share.lines[PORTION_memory], 17);
	expect_eq(config->warnings, 0);
}

TEST(counted_amounts_are_picked_by_meted_and_need_not_all_fit)
{
	owned(config_free) struct config *config =
		parse("mete: {counted: amounts, gpu-milli: fixed, slots: 40, share: {memory: 25%, "
		      "guarantee: 10%}}");

	expect_eq(config->counted, CONFIG_COUNTED_AMOUNTS);
	expect_eq(config->ids, CONFIG_IDS_SLOT);
	expect(config->milli_caps && !config_is_placed(config));
	expect_refused("mete: {counted: amounts, ids: uuid}",
		       "f:1: mete.ids: 'uuid' does not go with 'counted: amounts', where meted "
		       "picks the device; accepted: slot, or no such key");
	expect_refused(
		"mete: {counted: memory}",
		"f:1: mete.counted: 'memory' is not understood; accepted: slots (a slot of a "
		"GPU) or amounts (also memory and time, by sums in the node's status: meted "
		"picks the device)");
	expect_refused("mete: {gpu-milli: cap}",
		       "f:1: mete.gpu-milli: 'cap' is not understood; accepted: guarantee or fixed "
		       "(the cap is the guarantee)");
	expect_refused("mete: {counted: amounts, share: {memory: 110%}}",
		       "f:1: mete.share.memory: '110%' is too much; accepted: an amount "
		       "(20G, 512MiB: powers of 1024) or a part of the device (25%, 250/1000), at "
		       "most all of it");
}

TEST(the_drivers_own_limits_are_on_unless_they_are_switched_off)
{
	owned(config_free) struct config *usual = parse("mete: {}");
	owned(config_free) struct config *off = parse("mete: {native-limits: off}");

	expect(usual->native_limits && !off->native_limits);
	expect_refused("mete: {native-limits: soft}",
		       "f:1: mete.native-limits: 'soft' is not understood; accepted: on or off");
}

TEST(parts_are_made_for_claims)
{
	owned(config_free) struct config *config = parse("mete: {dra: on, mig: dynamic}");
	owned(config_free) struct config *found = parse("mete: {mig: found}");
	owned(config_free) struct config *other = parse("mete: {dra: on}");
	owned(config_free) struct config *flags =
		parse("flags: {migStrategy: dynamic}\nmete: {dra: on}");

	expect(config_makes_parts(config));
	expect(!config_makes_parts(found) && !config_makes_parts(other));
	/* Of NVIDIA's flags nothing counts beside `mete`. */
	expect(!config_makes_parts(flags));
	expect_refused("mete: {mig: dynamic}",
		       "f:1: mete.mig: 'dynamic' makes parts for claims, and the devices are given "
		       "out by slots; accepted: 'dra: on', or no such key");
	expect_refused(
		"mete: {mig: mixed}",
		"f:1: mete.mig: 'mixed' is not understood; accepted: found (parts that there "
		"are) or dynamic (parts that are made for claims)");
}

TEST(the_first_rule_that_matches_counts)
{
	owned(config_free) struct config *config =
		parse("mete:\n  share: {memory: 5%, weight: 50}\n  devices:\n"
		      "  - {match: gpu-5D3F, slots: 2, share: {memory: 50%}}\n"
		      "  - {match: '*t4', share: none}\n"
		      "  - {match: 7, slots: 3}\n"
		      "  - {match: 'GPU-?8*', slots: 5}\n");
	struct config_device device = t4;
	struct config_share share;
	uint32_t slots = 0;

	expect(config_portion(config, &a100, &noon, &slots, &share));
	expect_eq(slots, 2);
	expect_str(text_of(&share, PORTION_memory), "50%");
	expect_str(text_of(&share, PORTION_weight), "50");
	expect(!config_portion(config, &t4, &noon, &slots, &share));
	device.model = "Tesla T40";
	expect(config_portion(config, &device, &noon, &slots, &share));
	expect_eq(slots, 10);
	device.index = 7;
	expect(config_portion(config, &device, &noon, &slots, &share));
	expect_eq(slots, 3);
	device.is_part = true; /* "7:0" */
	expect(config_portion(config, &device, &noon, &slots, &share));
	expect_eq(slots, 10);
	device.is_part = false;
	device.index = 77;
	device.uuid = "GPU-18";
	expect(config_portion(config, &device, &noon, &slots, &share));
	expect_eq(slots, 5);
}

TEST(the_beginning_of_all_uuids_matches_none)
{
	owned(config_free) struct config *config =
		parse("mete: {devices: [{match: GPU-, slots: 2}, {match: G, slots: 3}, "
		      "{match: '*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b', slots: 3}]}");
	struct config_device device = a100;
	struct config_share share;
	uint32_t slots = 0;

	device.model =
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	expect(config_portion(config, &device, &noon, &slots, &share));
	expect_eq(slots, 10);
}

TEST(a_profile_lies_over_the_rules_while_it_is_its_time)
{
	owned(config_free) struct config *config = parse(
		"mete:\n  slots: 2\n  share: {mode: 'fixed:1/4', weight: 50}\n"
		"  devices: [{match: '*', share: {memory: 40%}}]\n"
		"  profiles:\n"
		"  - {name: night, days: [Tuesday, WED], from: '20:00', to: '07:00', "
		"share: {mode: equal, class: batch}}\n"
		"  - {name: late, from: '06:00', to: '08:00', share: {class: interactive}}\n");
	struct config_share share;
	struct tm now = midnight;
	uint32_t slots = 0;

	/* Wednesday, 00:00: the night of Tuesday. A mode replaces a weight below it. */
	expect(config_portion(config, &a100, &now, &slots, &share));
	expect_str(text_of(&share, PORTION_mode), "equal");
	expect_str(text_of(&share, PORTION_memory), "40%");
	expect(!text_of(&share, PORTION_weight));
	/* Of two the first. */
	now.tm_hour = 6;
	expect(config_portion(config, &a100, &now, &slots, &share));
	expect_str(text_of(&share, PORTION_class), "batch");
	now.tm_hour = 7;
	expect(config_portion(config, &a100, &now, &slots, &share));
	expect_str(text_of(&share, PORTION_class), "interactive");
	now.tm_hour = 8;
	expect(config_portion(config, &a100, &now, &slots, &share));
	expect_str(text_of(&share, PORTION_mode), "fixed:1/4");
	expect_str(text_of(&share, PORTION_weight), "50");
	/* Tuesday, 00:00: Monday has no night. */
	now = (struct tm){.tm_wday = 2};
	expect(config_portion(config, &a100, &now, &slots, &share));
	expect(!text_of(&share, PORTION_class));
}

TEST(the_first_entry_of_nodes_with_the_labels_lies_over_the_rest)
{
	static const char text[] =
		"mete:\n"
		"  nodes:\n"
		"  - labels: {pool: a100, zone: x}\n    slots: 20\n"
		"  - labels: {pool: a100}\n    slots: 4\n    share: {memory: 25%}\n"
		"    most: {cap: 50%}\n"
		"    devices: [{match: '*T4', slots: 1}]\n"
		"    profiles: [{name: night, from: '01:00', to: '02:00'},\n"
		"      {name: noon, from: '12:00', to: '13:00'}]\n"
		"  - labels: {pool: a100}\n    slots: 5\n"
		"  slots: 3\n  share: {memory: 10%, weight: 7}\n"
		"  devices: [{match: '*', slots: 2}]\n"
		"  profiles: [{name: night, from: '20:00', to: '07:00'},\n"
		"    {name: dusk, from: '19:00', to: '20:00'}]\n";
	static const struct config_label labels[] = {{"zone", "y"}, {"pool", "a100"}};
	owned(config_free) struct config *here = parse_for(text, labels, 2);
	owned(config_free) struct config *there = parse_for(text, labels, 1);

	expect_eq(there->slots, 3);
	expect_eq(there->rules, 1);
	expect_eq(there->profiles, 2);
	expect_eq(here->slots, 4);
	expect_str(text_of(&here->share, PORTION_memory), "25%");
	expect_str(text_of(&here->share, PORTION_weight), "7");
	expect_str(text_of(&here->most, PORTION_cap), "50%");
	expect_eq(here->rules, 2);
	expect_str(here->rule[0].match, "*T4");
	expect_str(here->rule[1].match, "*");
	expect_eq(here->profiles, 3);
	expect_str(here->profile[0].name, "night");
	expect_eq(here->profile[0].to_minute, 120);
	expect_str(here->profile[1].name, "noon");
	expect_str(here->profile[2].name, "dusk");
}

TEST(a_mistake_for_other_nodes_is_one_here)
{
	expect_refused(
		"mete:\n  nodes:\n  - labels: {pool: a100}\n    slots: 5\n"
		"    share: {guarantee: 30%}\n",
		"f:5: devices: 5 slots with a guarantee of 30.0% each are 150.0% of a device's "
		"time; accepted: at most 100% in sum");
	expect_refused("mete:\n  nodes:\n  - slots: 5\n",
		       "f:3: mete.nodes[0]: the key 'labels' is missing");
	expect_refused(
		"mete:\n  nodes:\n  - labels: {a: b}\n    nodes: []\n",
		"f:4: mete.nodes[0].nodes: this key is for all nodes; accepted: directly below "
		"mete");
	expect_refused("mete:\n  nodes:\n  - labels: {a: b, a: c}\n",
		       "f:3: mete.nodes[0].labels: the label 'a' appears twice; accepted: once");
	expect_refused(
		"mete:\n  nodes:\n  - labels: {a: }\n",
		"f:3: mete.nodes[0].labels: the label 'a' has no value; accepted: a map of labels "
		"that a node must have, at most 16");
	expect_refused(
		"mete:\n  nodes:\n  - labels: {}\n",
		"f:3: mete.nodes[0].labels: no label is given; accepted: a map of labels that a "
		"node must have, at most 16");
}

TEST(guarantees_and_memory_stay_within_a_device_in_every_profile_and_rule)
{
	expect_refused(
		"mete: {share: {guarantee: 10.1%}}",
		"f:1: devices: 10 slots with a guarantee of 10.1% each are 101.0% of a device's "
		"time; accepted: at most 100% in sum");
	expect_refused(
		"mete:\n  slots: 2\n  share:\n    memory: 50%\n    mode: fixed:1/2\n  devices:\n"
		"  - match: T4\n    slots: 3\n    share: {memory: 10%}\n",
		"f:5: devices that match 'T4': 3 slots with a guarantee of 50.0% each are 150.0% "
		"of a device's time; accepted: at most 100% in sum");
	expect_refused("mete:\n  slots: 2\n  overcommit: 150%\n  profiles:\n"
		       "  - {name: night, from: '20:00', to: '07:00', share: {memory: 760/1000}}\n",
		       "f:5: devices in profile night: 2 slots of 760/1000 are 152.0% of a "
		       "device's memory; "
		       "accepted: at most the overcommit of 150.0% in sum");
	expect_refused("mete:\n  slots: 2\n  share: {guarantee: 30%}\n  profiles:\n"
		       "  - {name: night, from: '20:00', to: '07:00', share: {cap: 20%}}\n",
		       "f:5: devices in profile night: cap: '20%' would leave the guarantee above "
		       "the cap; "
		       "accepted: a part above 0% and up to 100% (25%, 250/1000 or 0.25), "
		       "not below the guarantee");
	expect_refused(
		"mete:\n  most: {cap: 20%,\n    guarantee: 30%}\n",
		"f:2: mete.most: cap: '20%' would leave the guarantee above the cap; accepted: a "
		"part above 0% and up to 100% (25%, 250/1000 or 0.25), not below "
		"the guarantee");
	/* Nobody has these. */
	config_free(parse("mete: {share: {guarantee: 20%}, devices: [{match: '*', slots: 5}]}"));
	config_free(parse("mete: {slots: 2, share: {guarantee: 50%}, devices: [{match: 'x', share: "
			  "none}]}"));
	/* In thousandths, and whole. */
	config_free(parse("mete: {slots: 8, share: {memory: 12.5%, guarantee: 12.5%}}"));
}

TEST(bytes_are_compared_with_the_device_that_is_there)
{
	owned(config_free) struct config *config =
		parse("mete:\n  slots: 4\n  share: {memory: 20GiB}\n"
		      "  devices: [{match: '*hidden', share: none}]\n"
		      "  profiles: [{name: night, from: '20:00', to: '07:00', share: {memory: "
		      "21GiB}}]\n");
	owned(config_free) struct config *more =
		parse("mete: {slots: 4, overcommit: 105%, share: {memory: 21GiB}}");
	struct config_device hidden = {.uuid = "GPU-1", .model = "hidden", .total_bytes = 1};

	expect_eq(config_fits(config, &a100, &why), -EINVAL);
	expect_str(why.text,
		   "f:5: devices in profile night: 4 slots of 21GiB are more than the 80GiB that "
		   "may be promised of a device with 80GiB (overcommit: 100.0%)");
	expect_eq(config_fits(config, &t4, &why), -EINVAL);
	expect_str(why.text,
		   "f:3: devices: a slot of 20GiB does not fit in a device that has 15GiB");
	expect_eq(config_fits(config, &hidden, &why), 0);
	expect_eq(config_fits(more, &a100, &why), 0);
}

TEST(the_example_is_accepted_without_a_warning)
{
	static const struct config_label labels[] = {{"pool", "large"}};
	owned(free) char *text = NULL;
	owned(config_free) struct config *config = NULL, *large = NULL;
	struct config_share share;
	uint32_t slots = 0;
	size_t size = 0;

	expect_eq(file_slurp(SOURCE_ROOT "/deploy/config.yaml", CONFIG_BYTES_MAX, &text, &size), 0);
	config = parse(text);
	large = parse_for(text, labels, 1);
	expect_eq(config->warnings, 0);
	expect(!config_portion(config, &a100, &noon, &slots, &share));
	expect(config_portion(config, &t4, &noon, &slots, &share));
	expect_eq(slots, 2);
	expect_str(text_of(&share, PORTION_cap), "50%");
	expect(config_portion(config, &t4, &midnight, &slots, &share));
	expect_str(text_of(&share, PORTION_cap), "100%");
	expect_eq(large->slots, 10);
	expect_eq(config_fits(large, &t4, &why), 0);
}

/* A key that nobody can read about does not exist for people. */
TEST(the_manual_has_every_key)
{
	static const char *const keys[] = {
#define METE(name, kind, field, accepted)    #name,
#define RULE(name, kind, field, accepted)    #name,
#define PROFILE(name, kind, field, accepted) #name,
#define NODE(name, kind, field, accepted)    #name,
#include "plugin/config/config_keys.def"
#define SHARE(key, kind, normally, accepted) #key,
#include "core/share/share.def"
#undef SHARE
#define WORD(name, accepted) #name,
#include "plugin/config/annotations.def"
#undef WORD
	};
	owned(free) char *text = NULL;
	size_t size = 0;

	expect_eq(file_slurp(SOURCE_ROOT "/docs/man/mete-config.5", 1 << 20, &text, &size), 0);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		char line[64] = ".B", *to = line + 2;

		*to++ = ' ';
		for (const char *from = keys[i]; *from; from++) {
			if (*from == '_')
				*to++ = '\\';
			*to++ = *from == '_' ? '-' : *from;
		}
		strcpy(to, "\n");
		if (!strstr(text, line))
			test_fail(__FILE__, __LINE__, "mete-config.5 has no '%s'", keys[i]);
	}
}
