/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of annotations: a pod with annotations, on a node with bounds. */
#pragma once

#include "plugin/config/annotations.h"

#include "plugin/config/portion.h"
#include "tests/test.h"

#define GIB (1ull << 30)

static struct fault why;
static struct annotations_share share;
static struct config_share portion, most;
static struct annotation entries[8];
static struct annotations_input input;

/* A slot of an 80 GiB device, and the container "main" beside "side". */
static inline void begin(void)
{
	static const char *const containers[] = {"main", "side"};

	memset(&portion, 0, sizeof(portion));
	memset(&most, 0, sizeof(most));
	portion.texts[PORTION_memory] = "25%";
	portion.texts[PORTION_guarantee] = "10%";
	portion.texts[PORTION_cap] = "50%";
	input = (struct annotations_input){
		.entries = entries,
		.guarantee_room_milli = 1000,
		.memory_room = UINT64_MAX,
		.memory_room_alone = UINT64_MAX,
		.container = "main",
		.containers = containers,
		.container_count = 2,
		.domain = "mete.dev",
		.portion = &portion,
		.most = &most,
		.device_bytes = 80 * GIB,
	};
}

static inline void say(const char *key, const char *value)
{
	entries[input.count++] = (struct annotation){key, value};
}

static inline void expect_accepted(void)
{
	if (annotations_share(&input, &share, &why) < 0)
		test_fail(__FILE__, __LINE__, "refused: %s", why.text);
}

static inline void expect_refused_at(int line, const char *sentence)
{
	int r = annotations_share(&input, &share, &why);

	if (r != -EINVAL)
		test_fail(__FILE__, line, "gives %d, wanted %s", r, sentence);
	if (strcmp(why.text, sentence) != 0)
		test_fail(__FILE__, line, "says\n %s\nwanted\n %s", why.text, sentence);
}

#define expect_refused(sentence) expect_refused_at(__LINE__, sentence)

/* One annotation alone. */
static inline void try(const char *key, const char *value)
{
	input.count = 0;
	say(key, value);
}
