/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any file: a refusal is a sentence with file and line number that can be shown; an accepted one
 * gives every device at every hour a valid share, and no more of them than fit.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plugin/config/config.h"
#include "plugin/config/portion.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void must_be_sentence(const char *text)
{
	char copy[sizeof(struct fault)];

	must(strncmp(text, "fuzz:", 5) == 0 && text[5] >= '1' && text[5] <= '9');
	must(strlen(text) < sizeof(copy));
	strcpy(copy, text);
	text_make_plain(copy);
	must(strcmp(copy, text) == 0);
}

static void check_portion(const struct config *config, const struct config_device *device,
			  const struct tm *now)
{
	struct config_share texts;
	struct share share;
	uint32_t slots = 0, field;

	if (!config_portion(config, device, now, &slots, &texts))
		return;
	must(slots >= 1 && slots <= CONFIG_SLOTS_MAX);
	must(portion_resolve(&texts, &share, &field) == 0);
	must(slots * share.guarantee_milli <= 1000);
	if (texts.texts[PORTION_memory] && share.memory.milli)
		must((uint64_t)slots * share.memory.milli <= config->overcommit_milli);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct config_label labels[] = {{"pool", "a100"}, {"zone", "x"}};
	static const struct config_device devices[] = {
		{.uuid = "GPU-5d3f9c1e-0000-1111-2222-333344445555",
		 .model = "NVIDIA A100",
		 .total_bytes = 80ull << 30},
		{.index = 0,
		 .is_part = true,
		 .part_index = 1,
		 .uuid = "MIG-5d3f9c1e-0000-1111-2222-333344445555",
		 .model = "NVIDIA A100 MIG 1g.10gb",
		 .total_bytes = 10ull << 30},
		{.index = 13,
		 .uuid = "GPU-77777777-0000-1111-2222-333344445555",
		 .model = "Tesla T4",
		 .total_bytes = 15ull << 30},
	};
	owned(config_free) struct config *config = NULL;
	struct fault why = {.text = ""};

	if (config_parse("fuzz", (const char *)data, size, labels, ARRAY_SIZE(labels), &config,
			 &why) < 0) {
		must_be_sentence(why.text);
		return 0;
	}
	must(config->slots >= 1 && config->slots <= CONFIG_SLOTS_MAX);
	must(config->rules <= CONFIG_RULES_MAX && config->profiles <= CONFIG_PROFILES_MAX);
	for (uint32_t i = 0; i < config->warnings; i++)
		must_be_sentence(config->warning[i]);
	for (int hour = 0; hour < 7 * 24; hour++) {
		struct tm now = {.tm_wday = hour / 24, .tm_hour = hour % 24, .tm_min = hour % 60};

		for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
			check_portion(config, &devices[i], &now);
	}
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		if (config_fits(config, &devices[i], &why) < 0)
			must_be_sentence(why.text);
	if (config->profiles) {
		struct tm now = {
			.tm_year = 126, .tm_mon = 2, .tm_mday = 28, .tm_hour = 12, .tm_wday = 6};

		must(config_next_change(config, &now) <= 17 * 24 * 3600);
	}
	return 0;
}
