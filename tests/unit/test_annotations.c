/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of annotations. */
#include "tests/unit/annotations_fixture.h"

TEST(without_annotations_a_container_has_its_portion)
{
	begin();
	say("other.dev/memory", "1");
	say("kubectl.kubernetes.io/last-applied-configuration", "{}");
	say("mete.dev.example/memory", "x");
	say("mete.dev", "x");
	say("a.b.mete.dev/memory", "x");
	say("xmete.dev/memory", "x");
	expect_accepted();
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		expect(share.texts[i] == portion.texts[i]);
	expect(!share.exclusive);
}

TEST(nobody_but_the_scheduler_assigns)
{
	begin();
	say("mete.dev/assigned", "{\"version\": 1}");
	expect_refused("mete.dev/assigned: only mete's scheduler writes this, and it did not place "
		       "the pod");
	input.placed = true;
	expect_accepted();
}

TEST(an_init_container_has_no_share_of_its_own)
{
	static const char *const names[] = {"main", "side", "init"};
	static const bool inits[] = {false, false, true};

	begin();
	input.containers = names;
	input.container_count = 3;
	input.inits = inits;
	say("side.mete.dev/memory", "2Gi");
	expect_accepted();
	say("init.mete.dev/memory", "1Gi");
	expect_refused("init.mete.dev/memory: 'init' is an init container, which has the slots of "
		       "the containers that follow it, and no share of its own; accepted: "
		       "mete.dev/memory, for the whole pod");
	input.container = "init";
	expect_refused("init.mete.dev/memory: 'init' is an init container, which has the slots of "
		       "the containers that follow it, and no share of its own; accepted: "
		       "mete.dev/memory, for the whole pod");
}

TEST(a_container_goes_before_its_pod)
{
	begin();
	say("main.mete.dev/memory", "2Gi");
	say("mete.dev/memory", "4Gi");
	say("side.mete.dev/memory", "nonsense");
	say("mete.dev/on-daemon-loss", "block");
	expect_accepted();
	expect_str(share.texts[PORTION_memory], "2Gi");
	expect_str(share.texts[PORTION_on_daemon_loss], "block");
	expect_str(share.texts[PORTION_cap], "50%");
	input.container = "side";
	expect_refused("side.mete.dev/memory: 'nonsense' is not understood; accepted: an amount "
		       "(20G, 512MiB: "
		       "powers of 1024) or a part of the device (25%, 250/1000), "
		       "at most all of it");
	begin();
	try("mian.mete.dev/memory", "1Gi");
	expect_refused("mian.mete.dev/memory: the pod has no container 'mian'");
	input.container_count = 0;
	expect_accepted();
	expect_str(share.texts[PORTION_memory], "25%");
}

TEST(an_unknown_annotation_of_our_domain_is_refused_with_the_nearest_one)
{
	begin();
	try("mete.dev/memroy", "1Gi");
	expect_refused("mete.dev/memroy: there is no such annotation; the nearest is 'memory'");
	try("main.mete.dev/on-ful", "1Gi");
	expect_refused(
		"main.mete.dev/on-ful: there is no such annotation; the nearest is 'on-full'");
	try("mete.dev/zebra", "1Gi");
	expect_refused("mete.dev/zebra: there is no such annotation; accepted: memory, swap, mode, "
		       "weight, "
		       "guarantee, cap, class, escalate, wait, on-daemon-loss, unannounced, idle, "
		       "oversize, notices, "
		       "strict, qos, "
		       "on-full, "
		       "exclusive, model, gpu-uuid, policy, assigned");
	try("mete.dev/", "1Gi");
	expect_eq(annotations_share(&input, &share, &why), -EINVAL);
	input.domain = "other.dev";
	expect_accepted();
}

TEST(amounts_are_binary_in_annotations_too)
{
	static const struct {
		const char *value, *problem;
	} rows[] = {
		{"250m", "is mebibytes to some and thousandths to others: write M for mebibytes, "
			 "or a fraction such as 250/1000"},
		{"25",
		 "has no unit (a number alone is bytes, 1048576 or more): write 25%, or a unit of "
		 "bytes"},
		{"1e9", "has no unit, or one that is not known here"},
		{"1Pi", "has no unit, or one that is not known here"},
		{"-1Gi", "is negative"},
		{"0Gi", "is zero"},
		{"", "is empty"},
		{" 1Gi", "is not understood"},
	};
	static const char *const accepted[] = {"20Gi", "512Mi",	   "20GiB", "1.5Gi", "1Ki",
					       "25%",  "250/1000", "4G",    "4000M", "21474836480"};
	char sentence[400];

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		try("mete.dev/memory", rows[i].value);
		snprintf(sentence, sizeof(sentence), "mete.dev/memory: '%s' %s; accepted: %s",
			 rows[i].value, rows[i].problem, share_accepts("memory"));
		expect_refused(sentence);
	}
	for (size_t i = 0; i < ARRAY_SIZE(accepted); i++) {
		try("mete.dev/memory", accepted[i]);
		expect_accepted();
		expect_str(share.texts[PORTION_memory], accepted[i]);
	}
	try("mete.dev/guarantee", "10");
	expect_refused(
		"mete.dev/guarantee: '10' has no unit, or one that is not known here: write 10%; "
		"accepted: a part from 0% to 100% (25%, 250/1000 or 0.25)");
	try("mete.dev/memory",
	    "0000000000000000000000000000000000000000000000000000000000000000001Gi");
	expect_eq(annotations_share(&input, &share, &why), -EINVAL);
	expect(strstr(why.text, "...' is too long; accepted: "));
}

TEST(the_words_of_qos_lie_within_the_portion)
{
	begin();
	try("mete.dev/qos", "fixed");
	expect_accepted();
	expect_str(share.texts[PORTION_cap], "10%");
	expect_str(share.texts[PORTION_guarantee], "10%");
	say("mete.dev/guarantee", "5%");
	expect_accepted();
	expect_str(share.texts[PORTION_cap], "5%");
	try("mete.dev/qos", "equal");
	expect_accepted();
	expect_str(share.texts[PORTION_mode], "equal");
	expect_str(share.texts[PORTION_cap], "50%");
	expect_str(share.texts[PORTION_guarantee], "10%");
	try("mete.dev/qos", "best-effort");
	expect_accepted();
	expect_str(share.texts[PORTION_guarantee], "0%");
	expect_str(share.texts[PORTION_cap], "50%");
	try("mete.dev/qos", "latency");
	expect_accepted();
	expect_str(share.texts[PORTION_class], "interactive");
	try("mete.dev/qos", "gold");
	expect_refused("mete.dev/qos: 'gold' is not understood; accepted: fixed (the cap is the "
		       "guarantee), "
		       "equal, best-effort (no guarantee) or latency (class interactive)");
	portion.texts[PORTION_guarantee] = NULL;
	try("mete.dev/qos", "fixed");
	expect_refused(
		"mete.dev/qos: 'fixed' makes the guarantee the cap, but no guarantee is given; "
		"accepted: together with mete.dev/guarantee, or another qos");
	portion.texts[PORTION_cap] = NULL;
	portion.texts[PORTION_mode] = "fixed:1/4";
	expect_accepted();
	expect_str(share.texts[PORTION_mode], "fixed:1/4");
}

TEST(two_words_for_one_thing_are_refused_unless_one_is_for_the_container)
{
	begin();
	say("mete.dev/qos", "equal");
	say("mete.dev/mode", "best-effort");
	expect_refused(
		"mete.dev/qos: 'equal' and mete.dev/mode are both given; accepted: one of them");
	input.count = 0;
	say("mete.dev/on-full", "fail");
	say("mete.dev/wait", "10s");
	expect_refused(
		"mete.dev/on-full: 'fail' and mete.dev/wait are both given; accepted: one of them");
	input.count = 0;
	say("main.mete.dev/on-full", "fail");
	say("mete.dev/wait", "10s");
	expect_accepted();
	expect_str(share.texts[PORTION_wait], "0s");
	input.count = 0;
	say("mete.dev/on-full", "fail");
	say("main.mete.dev/wait", "10s");
	expect_accepted();
	expect_str(share.texts[PORTION_wait], "10s");
	input.count = 0;
	say("mete.dev/on-daemon-loss", "fail");
	say("mete.dev/on_daemon_loss", "block");
	expect_refused("mete.dev/on_daemon_loss: this appears twice; accepted: once");
}

TEST(a_wait_lasts_as_long_as_the_slots_or_a_minute)
{
	begin();
	try("mete.dev/on-full", "wait");
	expect_accepted();
	expect_str(share.texts[PORTION_wait], "1m");
	most.texts[PORTION_wait] = "30s";
	expect_accepted();
	expect_str(share.texts[PORTION_wait], "30s");
	portion.texts[PORTION_wait] = "10s";
	expect_accepted();
	expect_str(share.texts[PORTION_wait], "10s");
	most.texts[PORTION_wait] = NULL;
	portion.texts[PORTION_wait] = "0s";
	expect_refused("mete.dev/on-full: 'wait' is more than this node allows; accepted: a wait "
		       "up to 0s");
	try("mete.dev/on-full", "block");
	expect_refused("mete.dev/on-full: 'block' is not understood; accepted: fail or wait");
}
