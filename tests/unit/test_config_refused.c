/* SPDX-License-Identifier: Apache-2.0 */
/* Configurations that are refused, and with which sentence; texts that are no YAML, or made to take
 * long. */
#include "plugin/config/config.h"

#include "plugin/config/portion.h"
#include "tests/test.h"
#include "tests/unit/config_parse.h"

static struct fault why;

TEST(a_key_that_is_not_known_is_refused_with_the_nearest_one)
{
	static const struct {
		const char *text, *sentence;
	} rows[] = {
		{"mete: {slot: 4}", "f:1: mete: there is no key 'slot'; the nearest is 'slots'"},
		{"mete:\n  share:\n    gaurantee: 4",
		 "f:3: mete.share: there is no key 'gaurantee'; the nearest is 'guarantee'"},
		{"mete:\n  share:\n    mem: 4",
		 "f:3: mete.share: there is no key 'mem'; the nearest is 'memory'"},
		{"mete: {cdi-folders: /a}",
		 "f:1: mete: there is no key 'cdi-folders'; the nearest is 'cdi-folder'"},
		{"mete: {devices: [{match: a}, {macth: a}]}",
		 "f:1: mete.devices[1]: there is no key 'macth'; the nearest is 'match'"},
		{"mete: {devices: [{zebra: a}]}",
		 "f:1: mete.devices[0]: there is no key 'zebra'; accepted: match, slots, share"},
		{"mete: {profiles: [{until: a}]}",
		 "f:1: mete.profiles[0]: there is no key 'until'; accepted: name, days, from, to, "
		 "share"},
		{"mete: {nodes: [{label: a}]}",
		 "f:1: mete.nodes[0]: there is no key 'label'; the nearest is 'labels'"},
		{"mete: {'<<': {slots: 3}}",
		 "f:1: mete: there is no key '<<'; accepted: resource, domain, ids, counted, "
		 "gpu-milli, slots, share, most, "
		 "overcommit, park-after, park-delay, dra, mig, feature-labels, devices, "
		 "profiles, "
		 "nodes, native-limits, unannounced, cdi, driver-files, "
		 "cdi-folder, "
		 "kubelet-folder, driver-root, host-driver-root, libraries, host-prefix, metrics, "
		 "health, kubeconfig, node-name"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_refused(rows[i].text, rows[i].sentence);
}

TEST(a_key_that_comes_twice_is_refused)
{
	expect_refused("mete: {park-after: 10}",
		       "f:1: mete.park-after: '10' is not such a time; accepted: a time with its "
		       "unit, as in 10s");
	expect_refused("mete: {slots: 3, slots: 3}",
		       "f:1: mete.slots: this key appears twice; accepted: once");
	expect_refused("mete: {cdi-folder: /a, cdi_folder: /b}",
		       "f:1: mete.cdi-folder: this key appears twice; accepted: once");
	expect_refused("mete: {}\nmete: {}\n", "f:2: the key 'mete' appears twice; accepted: once");
	expect_refused("mete:\n  profiles:\n  - {name: a, from: '00:00', to: '01:00'}\n"
		       "  - {name: a, from: '02:00', to: '03:00'}\n",
		       "f:4: mete.profiles[1]: there is already a profile 'a'");
}

TEST(a_value_that_is_not_accepted_is_refused_with_the_accepted_ones)
{
	static const struct {
		const char *text, *sentence;
	} rows[] = {
		{"mete: {share: {memory: 25}}",
		 "f:1: mete.share.memory: '25' has no unit (a number alone is bytes, 1048576 or "
		 "more): write 25%, or a unit of bytes; accepted: an amount (20G, 512MiB: powers "
		 "of 1024) "
		 "or a part of the device (25%, 250/1000), at most all of it"},
		{"mete: {share: {guarantee: 25}}",
		 "f:1: mete.share.guarantee: '25' has no unit, or one that is not known here: "
		 "write 25%; "
		 "accepted: a part from 0% to 100% (25%, 250/1000 or 0.25)"},
		{"mete: {share: {class: ''}}",
		 "f:1: mete.share.class: no value is given; accepted: "
		 "interactive, standard or batch"},
		{"mete: {share: {class: [a]}}", "f:1: mete.share.class: this is a list; accepted: "
						"interactive, standard or batch"},
		{"mete: {share: none}",
		 "f:1: mete.share: this is a single value; accepted: a map of a share's fields"},
		{"mete: [a]", "f:1: mete: this is a list; accepted: a map (KEY: VALUE)"},
		{"- a", "f:1: this is a list; accepted: a map with the keys version and mete, and "
			"those of "
			"NVIDIA's device plugin"},
		{"version: v2", "f:1: version: 'v2' is not known; accepted: v1"},
		{"mete: {slots: 0}", "f:1: mete.slots: '0' is not such a number; accepted: a whole "
				     "number from 1 to 1000"},
		{"mete: {overcommit: 1.5}", "f:1: mete.overcommit: '1.5' is not such a percentage; "
					    "accepted: a percentage from 1% to 100000%"},
		{"mete: {cdi: maybe}",
		 "f:1: mete.cdi: 'maybe' is not understood; accepted: auto, on "
		 "or off"},
		{"mete: {metrics: localhost:9400}",
		 "f:1: mete.metrics: 'localhost:9400' is not understood; accepted: an IP address "
		 "and a "
		 "port as in 127.0.0.1:9400 or \"[::1]:9400\", :9400 for all addresses, or none"},
		{"mete: {cdi-folder: cdi}",
		 "f:1: mete.cdi-folder: 'cdi' is not understood; accepted: "
		 "an absolute path of at most 255 bytes"},
		{"mete: {devices: {match: a}}",
		 "f:1: mete.devices: this is a map; accepted: a list of maps with match, slots and "
		 "share, at most 64"},
		{"mete: {devices: [{slots: 2}]}",
		 "f:1: mete.devices[0]: the key 'match' is missing"},
		{"mete: {devices: [{match: a, slots: 2, share: none}]}",
		 "f:1: mete.devices[0]: 'share: none' has slots; accepted: one of both"},
		{"mete: {profiles: [{name: a, from: '10:00'}]}",
		 "f:1: mete.profiles[0]: the key 'to' is missing"},
		{"mete: {profiles: [{name: a, from: 1200, to: '10:00'}]}",
		 "f:1: mete.profiles[0].from: '1200' is not a time of day; accepted: a time of day "
		 "in "
		 "quotes, from \"00:00\" to \"23:59\""},
		{"mete: {profiles: [{name: a, days: [noday]}]}",
		 "f:1: mete.profiles[0].days: 'noday' is not a day; accepted: sun, mon, tue, wed, "
		 "thu, fri "
		 "or sat, or a list of them"},
		{"mete:\r\n  slots: \"\x1b[31m\\e[0m\"\r\n",
		 "f:2: not YAML: control characters are not allowed; accepted: text in UTF-8"},
		{"mete:\r\n  slots: \"\\e[0m\"\r\n",
		 "f:2: mete.slots: '?[0m' is not such a number; accepted: a whole number from 1 to "
		 "1000"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_refused(rows[i].text, rows[i].sentence);
}

/* Of 73 bytes. */
#define LONG_FOLDER                                                                                \
	"kubelet-folder: /23456789012345678901234567890123456789012345678901234567890123456789012" \
	"3"

TEST(without_mete_a_value_that_is_not_accepted_is_refused_with_the_accepted_ones)
{
	expect_refused("flags: {mpsRoot: /run/mps}\nsharing:\n  mps:\n    daemonPer: pod\n"
		       "    resources: [{name: nvidia.com/gpu, replicas: 4}]\n",
		       "f:4: sharing.mps.daemonPer: 'pod' is not supported by mete; accepted: gpu "
		       "or container");
	expect_refused("flags: {mpsRoot: /run/mps}\nsharing:\n  mps:\n    daemonPer: [gpu]\n"
		       "    resources: [{name: nvidia.com/gpu, replicas: 4}]\n",
		       "f:4: sharing.mps.daemonPer: this is not a single value; accepted: gpu or "
		       "container");
}

TEST(single_values_have_bounds)
{
	static const char *const refused[] = {
		"slots: 1001",
		"slots: -1",
		"slots: 010",
		"slots: 4294967298",
		"slots: 1.0",
		"overcommit: 0%",
		"overcommit: 0.9%",
		"overcommit: 100001%",
		"overcommit: 100%%",
		"overcommit: 99999999999999%",
		"resource: gpu",
		"resource: mete.dev/",
		"resource: /gpu",
		"resource: a/b/c",
		"resource: x.kubernetes.io/gpu",
		"resource: requests.mete.dev/gpu",
		"resource: Mete.dev/gpu",
		"resource: mete.dev/a234567890123456789012345678901234567890123456789012345",
		"domain: k8s.io",
		"domain: node.k8s.io",
		"domain: a..b",
		"domain: -a.b",
		"domain: mete.dev/",
		"ids: uuids",
		"metrics: ':0'",
		"metrics: ':65536'",
		"metrics: 9400",
		"metrics: '::1:9400'",
		"metrics: '[]:1'",
		"metrics: '1.2.3.4.5:1'",
		"kubeconfig: x",
		"node-name: A",
		"unannounced: Kill",
		"kubelet-folder: relative",
		(LONG_FOLDER),
	};
	static const char *const accepted[] = {
		"slots: 1000",
		"slots: \"1\"",
		"overcommit: 100000%",
		"overcommit: 1.0%",
		"resource: a/B_c.d",
		"domain: a",
		"metrics: :1",
		"metrics: none",
		"metrics: 127.0.0.1:65535",
		"kubeconfig: /a",
		"resource: xkubernetes.io/gpu",
	};
	char text[256];

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct config *config = NULL;

		snprintf(text, sizeof(text), "mete:\n  %s\n", refused[i]);
		if (config_parse("f", text, strlen(text), NULL, 0, &config, &why) != -EINVAL)
			test_fail(__FILE__, __LINE__, "%s is accepted", text);
		expect(strncmp(why.text, "f:2: mete.", 10) == 0 &&
		       strstr(why.text, "; accepted: "));
	}
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		snprintf(text, sizeof(text), "mete:\n  %s\n", accepted[i]);
		config_free(parse(text));
	}
}

TEST(warnings_are_bounded_and_the_last_says_so)
{
	char text[1024] = "mete:\n";
	owned(config_free) struct config *config = NULL;

	for (int i = 0; i < 40; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "zebra-%d: 1\n", i);
	config = parse(text);
	expect_eq(config->warnings, CONFIG_WARNINGS_MAX);
	expect_str(config->warning[14], "f:16: the key 'zebra-14' is not known, and is ignored");
	expect_str(config->warning[15], "f:17: there are more warnings from here on");
}

TEST(text_that_is_no_yaml_is_refused_with_its_line_number)
{
	expect_refused("mete:\n\tslots: 3\n",
		       "f:2: the line begins with a tab; accepted: spaces only");
	expect_refused("mete: {}\n---\nmete: {}\n", "f:2: a second document begins; accepted: one");
	expect_refused("mete: {}\n...\nmete: {}\n",
		       "f:3: not YAML: did not find expected <document start>, column 1");
	expect_refused(
		"mete:\n  slots: [3\n",
		"f:3: not YAML: did not find expected ',' or ']', column 1 (while parsing a flow "
		"sequence from line 2)");
	expect_refused("mete:\n  ? [a]\n  : b\n",
		       "f:2: a key is a list or a map; accepted: a word");
	expect_refused("mete:\n  slots: !!binary 3\n",
		       "f:2: the tag 'tag:yaml.org,2002:binary' is not "
		       "known; accepted: values without tags");
	expect_refused("mete:\n  slots: !x 3\n",
		       "f:2: the tag '!x' is not known; accepted: values without tags");
	expect_refused("mete:\n  slots: \"3\\0\"\n", "f:2: a string contains a zero byte");
	expect_refused("# a\nmete: \xff\n",
		       "f:2: not YAML: invalid leading UTF-8 octet; accepted: text in "
		       "UTF-8");
	expect_refused("\xff\xfem\n",
		       "f:1: not YAML: invalid leading UTF-8 octet; accepted: text in UTF-8");
	expect_refused_at(__FILE__, __LINE__, "a: b\nm\0ete: 1\n", 13,
			  "f:2: a zero byte; accepted: text in UTF-8");
	config_free(parse("\xef\xbb\xbfmete:\r\n  slots: !!int 3\r\n"));
	config_free(parse("\xef\xbb\xbfversion: v1\nmete:\n  slots: 3\n"));
	expect_refused("\xef\xbb\xbfversion: v1\nmete:\n\tslots: 3\n",
		       "f:3: the line begins with a tab; accepted: spaces only");
	config_free(parse("mete:\r  slots: !!str 3\r"));
}

TEST(aliases_share_a_value_and_never_contain_themselves)
{
	owned(config_free) struct config *config =
		parse("mete:\n  share: &a {memory: 10%}\n  most: *a\n"
		      "  devices: [{match: x, share: *a}]\n");

	expect_str(config->most.texts[PORTION_memory], "10%");
	expect_str(config->rule[0].share.texts[PORTION_memory], "10%");
	expect_refused("mete: &a\n  share: *a\n", "f:2: the alias '*a' is inside its own anchor");
	expect_refused("mete:\n  share: *b\n", "f:2: no anchor '&b' comes before this");
}

TEST(nesting_as_deep_as_is_allowed_is_read)
{
	config_free(parse("x: [[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]\n"));
	expect_refused("x: [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]\n",
		       "f:1: lists and maps are nested more than 16 deep");
}

/* Each of these is as large as a file may be. */
TEST(a_file_that_is_made_to_take_long_is_given_up_early)
{
	static const struct {
		const char *pattern, *said;
	} rows[] = {
		{"[", "nested more than 16 deep"},
		{"[\n", "nested more than 16 deep"},
		{"- ", "nested more than 16 deep"},
		{"{a: ", "nested more than 16 deep"},
		{"- a\n", "more than 16384 keys and values"},
		{"? a\n", "more than 16384 keys and values"},
		{"{", "a key is a list or a map"},
	};
	owned(free) char *text = malloc(CONFIG_BYTES_MAX + 1);
	struct config *config = NULL;

	expect(text);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t j = 0; j < CONFIG_BYTES_MAX; j++)
			text[j] = rows[i].pattern[j % strlen(rows[i].pattern)];
		expect_eq(config_parse("f", text, CONFIG_BYTES_MAX, NULL, 0, &config, &why),
			  -EINVAL);
		if (!strstr(why.text, rows[i].said))
			test_fail(__FILE__, __LINE__, "%s: %s", rows[i].pattern, why.text);
	}
	expect_eq(config_parse("f", text, CONFIG_BYTES_MAX + 1, NULL, 0, &config, &why), -EINVAL);
	expect_str(why.text, "f:1: the file has 65537 bytes; accepted: at most 65536");
}

static void make_bomb(char *text, size_t size, int rules)
{
	size_t length = (size_t)snprintf(text, size,
					 "mete:\n  devices: "
					 "[&r {match: '?', share: &s {weight: 3}}");

	for (int i = 1; i < rules; i++)
		length += (size_t)snprintf(text + length, size - length, ", *r");
	length += (size_t)snprintf(text + length, size - length,
				   "]\n  nodes: [&n {labels: {a: b}, share: *s}");
	for (int i = 1; i < CONFIG_NODES_MAX; i++)
		length += (size_t)snprintf(text + length, size - length, ", *n");
	snprintf(text + length, size - length, "]\n");
}

TEST(a_bomb_of_aliases_is_bounded_by_the_lists)
{
	owned(config_free) struct config *config = NULL;
	char text[4096];

	make_bomb(text, sizeof(text), CONFIG_RULES_MAX);
	config = parse(text);
	expect_eq(config->rules, CONFIG_RULES_MAX);
	make_bomb(text, sizeof(text), CONFIG_RULES_MAX + 1);
	expect_refused(text, "f:2: mete.devices[64]: too many; accepted: at most 64");
}
