/* SPDX-License-Identifier: Apache-2.0 */
/* How much annotations may ask for. */
#include "tests/unit/annotations_fixture.h"

TEST(more_than_the_portion_is_refused_with_the_bound)
{
	static const struct {
		const char *key, *value, *sentence;
	} rows[] = {
		{"mete.dev/memory", "21Gi",
		 "mete.dev/memory: '21Gi' is more than this node allows; accepted: memory up to "
		 "20GiB"},
		{"mete.dev/memory", "100Gi",
		 "mete.dev/memory: '100Gi' is more than this node allows; accepted: memory up to "
		 "20GiB"},
		{"mete.dev/weight", "101",
		 "mete.dev/weight: '101' is more than this node allows; accepted: a weight up to "
		 "100"},
		{"mete.dev/guarantee", "10.1%",
		 "mete.dev/guarantee: '10.1%' is more than this node allows; accepted: a guarantee "
		 "up to "
		 "10.0%"},
		{"mete.dev/cap", "501/1000",
		 "mete.dev/cap: '501/1000' is more than this node allows; accepted: a cap up to "
		 "50.0%"},
		{"mete.dev/mode", "equal",
		 "mete.dev/mode: 'equal' is more than this node allows; accepted: a cap up to "
		 "50.0%"},
		{"mete.dev/mode", "fixed:1/4",
		 "mete.dev/mode: 'fixed:1/4' is more than this node allows; accepted: a guarantee "
		 "up to "
		 "10.0%"},
		{"mete.dev/swap", "auto",
		 "mete.dev/swap: 'auto' is more than this node allows; accepted: a swap up to off"},
	};

	begin();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		try(rows[i].key, rows[i].value);
		expect_refused(rows[i].sentence);
	}
	/* Less is free. */
	input.count = 0;
	say("mete.dev/memory", "1Gi");
	say("mete.dev/weight", "1");
	say("mete.dev/guarantee", "0%");
	say("mete.dev/cap", "1%");
	expect_accepted();
}

TEST(settings_that_keep_the_node_safe_cannot_be_made_laxer)
{
	begin();
	portion.texts[PORTION_escalate] = "suspend";
	portion.texts[PORTION_on_daemon_loss] = "block";
	portion.texts[PORTION_strict] = "yes";
	portion.texts[PORTION_mode] = "equal";
	try("mete.dev/escalate", "report");
	expect_refused(
		"mete.dev/escalate: 'report' is laxer than this node allows; accepted: escalate "
		"suspend or stricter");
	try("mete.dev/on-daemon-loss", "continue");
	expect_refused(
		"mete.dev/on-daemon-loss: 'continue' is laxer than this node allows; accepted: "
		"on-daemon-loss block or stricter");
	portion.texts[PORTION_unannounced] = "kill";
	try("mete.dev/unannounced", "report");
	expect_refused("mete.dev/unannounced: 'report' is laxer than this node allows; accepted: "
		       "unannounced kill or stricter");
	try("mete.dev/strict", "false");
	expect_refused(
		"mete.dev/strict: 'false' is laxer than this node allows; accepted: strict yes or "
		"stricter");
	try("mete.dev/mode", "fixed:1/10");
	expect_refused("mete.dev/mode: 'fixed:1/10' is laxer than this node allows; accepted: mode "
		       "equal or "
		       "stricter");
	input.count = 0;
	say("mete.dev/escalate", "kill");
	say("mete.dev/on-daemon-loss", "fail");
	say("mete.dev/unannounced", "kill");
	say("mete.dev/strict", "true");
	expect_accepted();
	expect_str(share.texts[PORTION_strict], "yes");
	most.texts[PORTION_escalate] = "report";
	most.texts[PORTION_mode] = "best-effort";
	input.count = 0;
	say("mete.dev/escalate", "report");
	say("mete.dev/mode", "fixed:1/10");
	expect_accepted();
}

TEST(most_allows_more_than_the_portion_and_never_less)
{
	begin();
	most.texts[PORTION_memory] = "40GiB";
	most.texts[PORTION_cap] = "30%";
	most.texts[PORTION_guarantee] = "30%";
	most.texts[PORTION_swap] = "auto";
	say("mete.dev/memory", "50%");
	say("mete.dev/cap", "50%");
	say("mete.dev/guarantee", "30%");
	say("mete.dev/swap", "auto");
	expect_accepted();
	try("mete.dev/memory", "501/1000");
	expect_refused(
		"mete.dev/memory: '501/1000' is more than this node allows; accepted: memory up to "
		"40GiB");
	try("mete.dev/guarantee", "31%");
	expect_refused(
		"mete.dev/guarantee: '31%' is more than this node allows; accepted: a guarantee up "
		"to 30.0%");
	/* A mode says a weight, a guarantee and a cap. */
	most.texts[PORTION_cap] = most.texts[PORTION_guarantee] = NULL;
	most.texts[PORTION_mode] = "fixed:3/4";
	try("mete.dev/cap", "75%");
	expect_accepted();
	try("mete.dev/cap", "76%");
	expect_refused(
		"mete.dev/cap: '76%' is more than this node allows; accepted: a cap up to 75.0%");
	/* More than the device has is not allowed by anybody. */
	most.texts[PORTION_memory] = "1TiB";
	try("mete.dev/memory", "100Gi");
	expect_refused(
		"mete.dev/memory: '100Gi' is more than this node allows; accepted: memory up to "
		"80GiB");
}

TEST(a_class_and_a_wait_are_free_where_none_is_set)
{
	begin();
	say("mete.dev/class", "interactive");
	say("mete.dev/wait", "1h");
	expect_accepted();
	portion.texts[PORTION_class] = "batch";
	portion.texts[PORTION_wait] = "10s";
	try("mete.dev/class", "standard");
	expect_refused(
		"mete.dev/class: 'standard' is more than this node allows; accepted: a class up to "
		"batch");
	try("mete.dev/wait", "11s");
	expect_refused(
		"mete.dev/wait: '11s' is more than this node allows; accepted: a wait up to 10s");
	most.texts[PORTION_class] = "standard";
	try("mete.dev/class", "standard");
	expect_accepted();
	try("mete.dev/qos", "latency");
	expect_refused(
		"mete.dev/qos: 'latency' is more than this node allows; accepted: a class up to "
		"standard");
}

TEST(a_guarantee_is_the_part_that_others_leave_and_never_less_than_the_slots)
{
	begin();
	most.texts[PORTION_guarantee] = "60%";
	portion.texts[PORTION_cap] = NULL;
	input.guarantee_room_milli = 450;
	try("mete.dev/guarantee", "45%");
	expect_accepted();
	try("mete.dev/guarantee", "46%");
	expect_refused("mete.dev/guarantee: '46%' is more than others on the GPU leave to be "
		       "guaranteed; accepted: a guarantee up to 45.0%");
	try("mete.dev/mode", "fixed:1/2");
	most.texts[PORTION_weight] = "10000";
	expect_refused("mete.dev/mode: 'fixed:1/2' is more than others on the GPU leave to be "
		       "guaranteed; accepted: a guarantee up to 45.0%");
	try("mete.dev/guarantee", "61%");
	expect_refused("mete.dev/guarantee: '61%' is more than others on the GPU leave to be "
		       "guaranteed; accepted: a guarantee up to 45.0%");
	input.lower = true;
	expect_accepted();
	expect_str(share.texts[PORTION_guarantee], "450/1000");
	input.lower = false;
	input.guarantee_room_milli = 0;
	try("mete.dev/guarantee", "10%");
	expect_accepted();
	try("mete.dev/guarantee", "11%");
	expect_refused("mete.dev/guarantee: '11%' is more than others on the GPU leave to be "
		       "guaranteed; accepted: a guarantee up to 10.0%");
}

TEST(memory_is_the_part_that_others_leave_and_never_less_than_the_slots)
{
	begin();
	input.device_bytes = 16ull << 30;
	portion.texts[PORTION_memory] = "25%";
	most.texts[PORTION_memory] = "100%";
	input.memory_room = 6ull << 30;
	try("mete.dev/memory", "6Gi");
	expect_accepted();
	try("mete.dev/memory", "7Gi");
	expect_refused("mete.dev/memory: '7Gi' is more than the limits of others on the GPU leave; "
		       "accepted: memory up to 6GiB");
	input.lower = true;
	expect_accepted();
	expect_str(share.texts[PORTION_memory], "6442450944B");
	input.lower = false;
	input.memory_room = 1ull << 30;
	try("mete.dev/memory", "4Gi"); /* the caller says what becomes of its slot */
	expect_accepted();
	most.texts[PORTION_memory] = "50%";
	try("mete.dev/memory", "9Gi");
	expect_refused("mete.dev/memory: '9Gi' is more than the limits of others on the GPU leave; "
		       "accepted: memory up to 4GiB");
}

TEST(a_container_that_may_not_have_all_the_memory_may_not_be_alone)
{
	begin();
	try("mete.dev/exclusive", "true");
	expect_refused("mete.dev/exclusive: an exclusive container has all of the GPU, but this "
		       "node allows memory up to 20GiB; accepted: where 'most' has memory: 100%");
	input.lower = true;
	expect_accepted();
	expect(!share.exclusive);
	input.lower = false;
	most.texts[PORTION_memory] = "100%";
	expect_accepted();
	expect(share.exclusive);
}

TEST(requests_to_the_scheduler_are_refused_without_it)
{
	begin();
	try("mete.dev/gpu-uuid", "GPU-1");
	expect_refused("mete.dev/gpu-uuid: only mete's scheduler can honour this, and it did not "
		       "place the pod");
	input.placed = true;
	say("mete.dev/model", "A100");
	say("mete.dev/policy", "pack");
	say("mete.dev/idle", "keep");
	say("mete.dev/exclusive", "true");
	expect_accepted();
	expect(share.exclusive);
	try("mete.dev/exclusive", "yes");
	expect_refused("mete.dev/exclusive: 'yes' is not understood; accepted: true or false");
}

TEST(idle_memory_may_leave_earlier_than_the_node_wants_and_not_later)
{
	begin();
	try("mete.dev/idle", "park:10m");
	expect_accepted();
	expect_str(share.texts[PORTION_idle], "park:10m");
	portion.texts[PORTION_idle] = "park:10m";
	expect_accepted();
	try("mete.dev/idle", "keep");
	expect_refused("mete.dev/idle: 'keep' is laxer than this node allows; accepted: idle "
		       "park:10m or stricter");
	try("mete.dev/idle", "sometimes");
	expect_eq(annotations_share(&input, &share, &why), -EINVAL);
}

TEST(a_guarantee_above_the_cap_is_refused)
{
	begin();
	most.texts[PORTION_guarantee] = "80%";
	say("mete.dev/guarantee", "60%");
	expect_refused(
		"mete.dev/guarantee: '60%' does not go with the cap of '50%', which would leave "
		"the guarantee above the cap");
	/* A mode below both says nothing any more. */
	portion.texts[PORTION_guarantee] = portion.texts[PORTION_cap] = NULL;
	portion.texts[PORTION_mode] = "fixed:1/4";
	most.texts[PORTION_cap] = "80%";
	say("mete.dev/cap", "70%");
	expect_accepted();
	expect(!share.texts[PORTION_mode]);
	expect_str(share.texts[PORTION_cap], "70%");
}

TEST(a_running_container_is_lowered_to_the_bounds_in_force)
{
	begin();
	input.lower = true;
	portion.texts[PORTION_cap] = "20%";
	portion.texts[PORTION_class] = "batch";
	most.texts[PORTION_guarantee] = "60%";
	say("mete.dev/memory", "40Gi");
	say("mete.dev/guarantee", "50%");
	say("mete.dev/class", "interactive");
	say("mete.dev/weight", "300");
	expect_accepted();
	expect_str(share.texts[PORTION_memory], "21474836480B");
	expect_str(share.texts[PORTION_guarantee], "200/1000");
	expect_str(share.texts[PORTION_cap], "20%");
	expect_str(share.texts[PORTION_class], "batch");
	expect_str(share.texts[PORTION_weight], "100");
	/* But no sense is made of nonsense. */
	say("mete.dev/wait", "long");
	expect_eq(annotations_share(&input, &share, &why), -EINVAL);
}

TEST(managed_memory_is_for_containers_that_have_a_whole_gpu)
{
	begin();
	most.texts[PORTION_oversize] = "managed";
	most.texts[PORTION_memory] = "100%";
	try("mete.dev/oversize", "managed");
	say("mete.dev/memory", "50%");
	expect_refused("mete.dev/oversize: 'managed' needs all of the GPU's memory; accepted: "
		       "refuse, or managed with memory 100%");
	input.count = 0;
	say("mete.dev/memory", "100%");
	say("mete.dev/oversize", "managed");
	expect_accepted();
	expect_str(share.texts[PORTION_oversize], "managed");
	/* A slot's own is for those of its containers that can have it. */
	input.count = 0;
	portion.texts[PORTION_oversize] = "managed";
	expect_accepted();
	expect_str(share.texts[PORTION_oversize], "refuse");
}

/* Random texts of the fields, one of them NULL. */
static const char *const choices[SHARE_FIELDS][8] = {
	[PORTION_memory] = {NULL, "10%", "25%", "20Gi", "1GiB", "100%", "1/1000", "80GiB"},
	[PORTION_swap] = {NULL, NULL, NULL, "off", "auto", "false", "off", "auto"},
	[PORTION_mode] = {NULL, NULL, NULL, NULL, "equal", "best-effort", "fixed:1/4", "fixed:3/4"},
	[PORTION_weight] = {NULL, NULL, "1", "50", "100", "200", "300", "10000"},
	[PORTION_guarantee] = {NULL, NULL, "0%", "10%", "25%", "50%", "75%", "100%"},
	[PORTION_cap] = {NULL, NULL, "10%", "25%", "50%", "75%", "100%", "333/1000"},
	[PORTION_class] = {NULL, NULL, NULL, "interactive", "standard", "batch", "batch", "batch"},
	[PORTION_escalate] = {NULL, NULL, NULL, NULL, "report", "suspend", "kill", "kill"},
	[PORTION_wait] = {NULL, NULL, NULL, "0s", "10s", "1m", "2m", "1h"},
	[PORTION_on_daemon_loss] = {NULL, NULL, NULL, NULL, "continue", "block", "fail", "fail"},
	[PORTION_unannounced] = {NULL, NULL, NULL, NULL, "report", "kill", "report", "kill"},
	[PORTION_idle] = {NULL, NULL, NULL, "keep", "park", "park:10m", "park:1h", "keep"},
	[PORTION_oversize] = {NULL, NULL, NULL, NULL, NULL, "refuse", "managed", "managed"},
	[PORTION_notices] = {NULL, NULL, NULL, NULL, "on", "on", "off", "off"},
	[PORTION_strict] = {NULL, NULL, NULL, NULL, "yes", "no", "true", "false"},
};

static void draw(struct config_share *made)
{
	struct share whole;
	uint32_t field;

	do {
		memset(made, 0, sizeof(*made));
		for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
			const char *text = choices[i][test_random_below(8)];

			made->texts[i] = text ? portion_word((enum portion_field)i, text) : NULL;
		}
	} while (portion_resolve(made, &whole, &field) != 0);
}

static int within(const struct share *asked, const struct share *has, const struct share *more)
{
	uint64_t wants = 0, own = 0, top = 0;
	bool mode = most.texts[PORTION_mode];

	best_effort(share_bytes(&asked->memory, input.device_bytes, &wants));
	best_effort(share_bytes(&has->memory, input.device_bytes, &own));
	if (most.texts[PORTION_memory])
		best_effort(share_bytes(&more->memory, input.device_bytes, &top));
	if (wants > own && wants > top)
		return 0;
	if (asked->weight > has->weight &&
	    (!(mode || most.texts[PORTION_weight]) || asked->weight > more->weight))
		return 0;
	if (asked->guarantee_milli > has->guarantee_milli &&
	    (!(mode || most.texts[PORTION_guarantee]) ||
	     asked->guarantee_milli > more->guarantee_milli))
		return 0;
	if (asked->cap_milli > has->cap_milli &&
	    (!(mode || most.texts[PORTION_cap]) || asked->cap_milli > more->cap_milli))
		return 0;
	if (has->equal && !asked->equal && (!mode || more->equal))
		return 0;
	if (has->strict && !asked->strict && (!most.texts[PORTION_strict] || more->strict))
		return 0;
	if (has->kill_unannounced && !asked->kill_unannounced &&
	    (!most.texts[PORTION_unannounced] || more->kill_unannounced))
		return 0;
	if (has->park_ns && (!asked->park_ns || asked->park_ns > has->park_ns) &&
	    !(most.texts[PORTION_idle] &&
	      (!more->park_ns || (asked->park_ns && asked->park_ns <= more->park_ns))))
		return 0;
	if (asked->swap > has->swap && !(most.texts[PORTION_swap] && more->swap))
		return 0;
	if (asked->oversize > has->oversize && !(most.texts[PORTION_oversize] && more->oversize))
		return 0;
	return asked->escalate >= has->escalate ||
	       (most.texts[PORTION_escalate] && asked->escalate >= more->escalate);
}

TEST(nobody_ever_has_more_than_is_allowed)
{
	static const char *const qos[] = {"fixed", "equal", "best-effort", "latency"};

	begin();
	for (unsigned round = test_rounds(20000); round-- > 0;) {
		const char *accepted[SHARE_FIELDS] = {0};
		struct share has, more, got, lowered;
		struct config_share texts = {0};
		uint32_t field;
		int r;

		draw(&portion);
		draw(&most);
		input.count = 0;
		for (int i = 0; i < 3; i++) {
			size_t which = test_random_below(SHARE_FIELDS);
			const char *text = choices[which][test_random_below(8)];
			static char keys[3][64];

			snprintf(keys[i], sizeof(keys[i]), "%smete.dev/%s",
				 test_random_below(2) ? "main." : "", share_key((uint32_t)which));
			if (text)
				say(keys[i], text);
		}
		if (test_random_below(3) == 0)
			say("mete.dev/qos", qos[test_random_below(4)]);
		expect_eq(portion_resolve(&portion, &has, &field), 0);
		expect_eq(portion_resolve(&most, &more, &field), 0);
		input.lower = false;
		r = annotations_share(&input, &share, &why);
		if (r == 0) {
			memcpy(texts.texts, share.texts, sizeof(share.texts));
			expect_eq(portion_resolve(&texts, &got, &field), 0);
			expect(within(&got, &has, &more));
			memcpy(accepted, share.texts, sizeof(accepted));
		} else {
			expect(strstr(why.text, "mete.dev/") != NULL);
		}
		input.lower = true;
		if (annotations_share(&input, &share, &why) < 0) {
			/* Of the limits nobody hears. */
			expect(r < 0 && !strstr(why.text, "this node allows"));
			expect(!strstr(why.text, "below the guarantee"));
			continue;
		}
		memcpy(texts.texts, share.texts, sizeof(share.texts));
		expect_eq(portion_resolve(&texts, &lowered, &field), 0);
		expect(within(&lowered, &has, &more));
		for (uint32_t i = 0; i < SHARE_FIELDS && r == 0; i++)
			expect(!strcmp(accepted[i] ? accepted[i] : "",
				       share.texts[i] ? share.texts[i] : ""));
	}
}
