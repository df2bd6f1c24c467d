/* SPDX-License-Identifier: Apache-2.0 */
/* Events of pods about waits. The clock and the API server, which answers nothing until it is let,
 * are this file. */
#include <stdio.h>
#include <string.h>

#include "kube/json.h"
#include "plugin/plugin.h"
#include "tests/test.h"

enum { PODS = 20 };

static const uint64_t second_ns = 1000000000;

static struct {
	struct plugin plugin;
	struct pod pod[PODS];
	char name[PODS][8];
	uint64_t now_ns;
	uint32_t posted;
	void (*answered[64])(void *owner, int status, const char *problem, const cJSON *object);
	void *owner[64];
	uint32_t asked;
	char named[64][64]; /* the events' names, or "" */
} w;

uint64_t loop_now_ns(void)
{
	return w.now_ns;
}

int api_ask(struct api *api, const struct api_request *request,
	    void (*answered)(void *owner, int status, const char *problem, const cJSON *object),
	    void *owner, struct api_asked **ret_asked)
{
	owned(cJSON_Delete) cJSON *event = cJSON_Parse(request->body);
	const char *name = json_text(cJSON_GetObjectItemCaseSensitive(event, "metadata"), "name");

	(void)api;
	expect(w.asked < ARRAY_SIZE(w.owner));
	snprintf(w.named[w.posted % ARRAY_SIZE(w.named)], sizeof(w.named[0]), "%s",
		 name ? name : "");
	w.answered[w.asked] = answered;
	w.owner[w.asked++] = owner;
	w.posted++;
	*ret_asked = NULL;
	return 0;
}

void api_forget(struct api_asked *asked)
{
	(void)asked;
}

static void answer_all(void)
{
	for (uint32_t i = 0; i < w.asked; i++)
		w.answered[i](w.owner[i], 201, NULL, NULL);
	w.asked = 0;
}

static void begin(void)
{
	memset(&w, 0, sizeof(w));
	w.now_ns = 1000 * second_ns;
	w.plugin.api = (struct api *)&w;
	list_init(&w.plugin.events);
	for (uint32_t i = 0; i < PODS; i++) {
		snprintf(w.name[i], sizeof(w.name[i]), "p%u", i);
		w.pod[i].namespace = (char *)"ns";
		w.pod[i].name = w.pod[i].uid = w.name[i];
	}
}

/* All pods of the claim hear that a wait which began before this meted is over. */
static bool tell_all(uint64_t before_ns)
{
	bool told = true;

	for (uint32_t i = 0; i < PODS; i++)
		told &= events_over(&w.plugin, &w.pod[i], 7, before_ns, true, "GPUMemoryArrived",
				    "m");
	return told;
}

TEST(an_end_that_not_all_pods_of_a_claim_could_be_told_of_is_told_to_the_rest)
{
	begin();
	/* More than are told at a time. */
	expect(!tell_all(900 * second_ns));
	expect(w.posted > 0 && w.posted < PODS);
	answer_all();
	expect(tell_all(900 * second_ns));
	expect_eq(w.posted, PODS);
	answer_all();
	/* Another wait, of another device. */
	expect(!tell_all(901 * second_ns));
	expect(w.posted > PODS);
	answer_all();
}

TEST(ends_of_several_waits_that_not_all_pods_could_be_told_of_are_told_once_each)
{
	bool all = false;

	begin();
	for (int i = 0; i < 6 && !all; i++) {
		all = true;
		/* Of three devices, one behind the other. */
		for (uint64_t wait = 900; wait < 903; wait++) {
			all &= tell_all(wait * second_ns);
			answer_all();
		}
	}
	expect(all);
	expect_eq(w.posted, 3 * PODS);
}

TEST(the_end_that_two_meteds_tell_a_pod_of_is_one_event)
{
	char first[64];

	begin();
	best_effort(tell_all(900 * second_ns));
	snprintf(first, sizeof(first), "%s", w.named[0]);
	expect_eq(strncmp(first, "mete-", 5), 0);
	expect(strcmp(w.named[1], first) != 0);
	answer_all();
	begin(); /* the first was killed before it had told all pods */
	best_effort(tell_all(900 * second_ns));
	expect_str(w.named[0], first);
	answer_all();
	/* Of another wait, and of one that this meted has told of. */
	expect(events_over(&w.plugin, &w.pod[19], 7, 901 * second_ns, true, "GPUMemoryArrived",
			   "m"));
	expect(*w.named[w.posted - 1] && strcmp(w.named[w.posted - 1], first) != 0);
	expect(events_begin(&w.plugin, &w.pod[18], 7, "GPUMemoryAwaited", "m"));
	expect_str(w.named[w.posted - 1], "");
	answer_all();
}

TEST(the_beginning_that_a_meted_before_told_of_counts_for_ten_minutes)
{
	begin();
	events_begun(&w.plugin, &w.pod[0], 700 * second_ns);
	expect(!events_may_begin(&w.plugin, &w.pod[0]));
	expect(events_may_begin(&w.plugin, &w.pod[1]));
	/* It is told again and again when that was. */
	w.now_ns = 1299 * second_ns;
	events_begun(&w.plugin, &w.pod[0], 700 * second_ns);
	expect(!events_begin(&w.plugin, &w.pod[0], 7, "GPUMemoryAwaited", "m"));
	w.now_ns = 1300 * second_ns;
	expect(events_begin(&w.plugin, &w.pod[0], 7, "GPUMemoryAwaited", "m"));
	events_begun(&w.plugin, &w.pod[0], 700 * second_ns);
	w.now_ns = 1400 * second_ns;
	expect(!events_may_begin(&w.plugin, &w.pod[0]));
	expect_eq(w.posted, 1);
	answer_all();
}

TEST(a_wait_of_this_meted_ends_for_the_pods_that_heard_it_begin)
{
	begin();
	expect(events_begin(&w.plugin, &w.pod[0], 7, "GPUMemoryAwaited", "m"));
	expect(events_over(&w.plugin, &w.pod[0], 7, 0, true, "GPUMemoryArrived", "m"));
	expect(events_over(&w.plugin, &w.pod[0], 7, 0, true, "GPUMemoryArrived", "m"));
	expect(events_over(&w.plugin, &w.pod[1], 7, 0, true, "GPUMemoryArrived", "m"));
	expect_eq(w.posted, 2);
	answer_all();
}
