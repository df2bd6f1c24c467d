/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annotations as lines KEY=VALUE. A refusal is a sentence that can be shown; what is accepted is a
 * share, and no more than the portion and `most` have.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plugin/config/annotations.h"
#include "plugin/config/portion.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void try(const struct annotations_input *input)
{
	struct annotations_share made;
	struct config_share texts = {0};
	struct fault why = {.text = ""};
	struct share share;
	uint32_t field;

	if (annotations_share(input, &made, &why) < 0) {
		char copy[sizeof(why.text)];

		must(why.text[0] && strlen(why.text) < sizeof(why.text));
		strcpy(copy, why.text);
		text_make_plain(copy);
		must(strcmp(copy, why.text) == 0);
		return;
	}
	memcpy(texts.texts, made.texts, sizeof(texts.texts));
	must(portion_resolve(&texts, &share, &field) == 0);
	must(share.cap_milli <= 500 && share.guarantee_milli <= 250);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct config_share portion = {.texts = {[PORTION_memory] = "25%", [PORTION_cap] = "50%"}};
	struct config_share most = {.texts = {[PORTION_guarantee] = "25%"}};
	struct annotation entries[32];
	struct annotations_input input = {.entries = entries,
					  .domain = "mete.dev",
					  .container = "main",
					  .portion = &portion,
					  .most = &most,
					  .guarantee_room_milli = 1000,
					  .memory_room = UINT64_MAX,
					  .memory_room_alone = UINT64_MAX,
					  .device_bytes = 80ull << 30};
	owned(free) char *text = malloc(size + 1);
	char *rest = text, *line;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = 0;
	while ((line = strsep(&rest, "\n")) && input.count < ARRAY_SIZE(entries)) {
		char *value = strchr(line, '=');

		if (!value)
			continue;
		*value++ = '\0';
		entries[input.count++] = (struct annotation){line, value};
	}
	try(&input);
	input.lower = true;
	try(&input);
	return 0;
}
