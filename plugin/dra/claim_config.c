/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim's parameters. Those of its DeviceClass are an administrator's: they are laid over the
 * node's own share, and may say anything. Those of the claim are a user's: they are judged as a
 * pod's annotations are, by `most`.
 */
#include <string.h>

#include "base/words.h"
#include "plugin/config/annotations.h"
#include "plugin/dra/claim_parameters.h"

#define DOMAIN "parameters"

enum { KEY = sizeof(DOMAIN) + sizeof(struct words_shown) };

/* They are a slot's: a claim's share has its own. */
static const enum portion_field amounts[] = {PORTION_memory, PORTION_mode, PORTION_weight,
					     PORTION_guarantee, PORTION_cap};

/* The class's, field by field; words of annotations.def stand for several fields, in a pod's
 * view. */
static int lay_class(const struct parameters *given, struct config_share *portion,
		     struct fault *why)
{
	struct config_share over = {0};
	struct share whole;
	uint32_t field;
	int r;

	for (size_t i = SHARE_FIELDS; i < PARAMETERS_API; i++)
		if (given->has[i])
			return fault_set(why, -EINVAL,
					 "%s: a class says fields of a share; accepted: the fields "
					 "that it stands for",
					 words_dashed(parameters_name(i)).text);
	for (size_t i = 0; i < SHARE_FIELDS; i++)
		if (given->has[i])
			over.texts[i] = portion_word((enum portion_field)i, given->text[i]);
	r = portion_resolve(&over, &whole, &field);
	if (r != 0)
		return fault_set(why, -EINVAL, "%s: '%s' %s; accepted: %s",
				 words_dashed(share_key(field)).text,
				 words_show(over.texts[field]).text, share_problem(r),
				 share_accepts(share_key(field)));
	portion_lay(portion, &over);
	return 0;
}

static void lay_node(const struct config_share *node, struct config_share *portion)
{
	*portion = *node;
	for (size_t i = 0; i < ARRAY_SIZE(amounts); i++)
		portion->texts[amounts[i]] = NULL;
}

/* A container that has some of a device's memory has to make room for others where more is given
 * out than there is. */
static int check_inflated(const struct claim_place *place, const struct claim *claim,
			  const char *swap, uint32_t percent, struct fault *why)
{
	if (percent == 100 || (swap && strcmp(swap, "auto") == 0))
		return 0;
	for (uint32_t i = 0; i < claim->devices; i++)
		if (place->device[claim->of[i]].inflated)
			return fault_set(
				why, -EINVAL,
				"more of the memory of %s is given out than there is, and without "
				"swap nobody could make room; accepted: 'swap: auto' in the "
				"parameters of the claim or its class, where the node's 'most' "
				"allows it",
				place->device[claim->of[i]].uuid);
	return 0;
}

static int keep_texts(const struct annotations_share *share, struct claim *claim, struct fault *why)
{
	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		claim->texts[i] = share->texts[i] ? strdup(share->texts[i]) : NULL;
		if (share->texts[i] && !claim->texts[i])
			return fault_set(why, -ENOMEM, "out of memory");
	}
	return 0;
}

static int judge(const struct parameters *given, const struct config_share *portion,
		 const struct claim_place *place, const struct claim *claim,
		 struct annotations_share *ret_share, struct fault *why)
{
	struct annotation entries[PARAMETERS];
	char keys[PARAMETERS][KEY];
	struct annotations_input input = {
		.entries = entries,
		.container = "",
		.domain = DOMAIN,
		.portion = portion,
		.most = place->most,
		.device_bytes = UINT64_MAX,
		.guarantee_room_milli = 1000,
		.memory_room = UINT64_MAX,
		.memory_room_alone = UINT64_MAX,
	};

	for (uint32_t i = 0; i < claim->devices; i++)
		if (place->device[claim->of[i]].total_bytes < input.device_bytes)
			input.device_bytes = place->device[claim->of[i]].total_bytes;
	for (size_t i = 0; i < PARAMETERS_API; i++) {
		if (!given->has[i])
			continue;
		snprintf(keys[i], KEY, DOMAIN "/%s", words_dashed(parameters_name(i)).text);
		entries[input.count++] = (struct annotation){keys[i], given->text[i]};
	}
	return annotations_share(&input, ret_share, why);
}

static int combine(const struct parameters *own, const struct config_share *portion,
		   const struct claim_place *place, uint32_t percent, struct claim *claim,
		   struct fault *why)
{
	struct annotations_share share;
	int r = judge(own, portion, place, claim, &share, why);

	if (r == 0 && share.exclusive)
		r = fault_set(why, -EINVAL,
			      "exclusive: a claim without capacities has the whole "
			      "device; accepted: no capacities");
	if (r == 0)
		r = check_inflated(place, claim, share.texts[PORTION_swap], percent, why);
	return r == 0 ? keep_texts(&share, claim, why) : r;
}

/* If its programs launch something, they do so when nobody else does, and with next to no memory.
 */
static const struct {
	enum portion_field field;
	const char *text;
} observer[] = {{PORTION_weight, "1"}, {PORTION_cap, "1%"}, {PORTION_class, "batch"}};

int claim_look(const cJSON *allocation, const struct claim_place *place, struct claim *claim,
	       struct fault *why)
{
	struct parameters own = {.has = {false}};
	int r = parameters_read(allocation, "FromClaim", place, claim, &own, why);

	for (size_t i = 0; r == 0 && i < PARAMETERS_API; i++)
		if (own.has[i])
			r = fault_set(why, -EINVAL,
				      "%s: a claim with adminAccess looks at devices and has no "
				      "share of them; accepted: no parameters",
				      words_dashed(parameters_name(i)).text);
	if (r < 0) {
		fault_within(why, "the claim's parameters");
		return r;
	}
	for (size_t i = 0; i < ARRAY_SIZE(observer); i++) {
		claim->texts[observer[i].field] = strdup(observer[i].text);
		if (!claim->texts[observer[i].field])
			return fault_set(why, -ENOMEM, "out of memory");
	}
	return 0;
}

int claim_share(const cJSON *allocation, const struct claim_place *place, uint64_t bytes,
		uint32_t percent, struct claim *claim, struct fault *why)
{
	struct parameters class = {.has = {false}}, own = {.has = {false}};
	char memory[32] = "100%", guarantee[16];
	struct config_share portion;
	int r;

	lay_node(place->portion, &portion);
	r = parameters_read(allocation, "FromClass", place, claim, &class, why);
	if (r == 0)
		r = lay_class(&class, &portion, why);
	if (r < 0) {
		fault_within(why, "the parameters of the claim's DeviceClass");
		return r;
	}
	if (bytes != UINT64_MAX)
		snprintf(memory, sizeof(memory), "%lluB", (unsigned long long)bytes);
	snprintf(guarantee, sizeof(guarantee), "%u%%", percent);
	portion.texts[PORTION_memory] = memory;
	portion.texts[PORTION_guarantee] = guarantee;
	r = parameters_read(allocation, "FromClaim", place, claim, &own, why);
	if (r == 0)
		r = combine(&own, &portion, place, percent, claim, why);
	if (r < 0)
		fault_within(why, "the claim's parameters");
	return r;
}
