/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim's parameters. Those of its DeviceClass are an administrator's: they are laid over the
 * node's own share, and may say anything. Those of the claim are a user's: they are judged as a
 * pod's annotations are, by `most`.
 */
#include <string.h>

#include "base/words.h"
#include "kube/json.h"
#include "plugin/config/annotations.h"
#include "plugin/dra/claim.h"
#include "plugin/config/portion.h"

#define DOMAIN "parameters"

enum { VALUE = 64, KEY = sizeof(DOMAIN) + sizeof(struct words_shown) };

static const char *const names[] = {
#define SHARE(key, kind, normally, accepted) #key,
#include "core/share/share.def"
#undef SHARE
#define WORD(name, accepted) #name,
#include "plugin/config/annotations.def"
#undef WORD
	"apiVersion",
	"kind",
};

enum {
	NAMES = ARRAY_SIZE(names),
	NAME_API = NAMES - 2,
};

/* Amounts of a device are counted: nothing else may say them. */
static const enum portion_field counted[] = {PORTION_memory, PORTION_mode, PORTION_guarantee};
/* They are a slot's: a claim's share has its own. */
static const enum portion_field amounts[] = {PORTION_memory, PORTION_mode, PORTION_weight,
					     PORTION_guarantee, PORTION_cap};

/* Parameters as texts, by their place in `names`. */
struct parameters {
	char text[NAMES][VALUE];
	bool has[NAMES];
};

/* "3", "true": as an annotation would say it. -EINVAL: neither a text, a number nor a word. */
static int read_value(const cJSON *item, char ret_text[VALUE])
{
	int n;

	if (cJSON_IsBool(item))
		n = snprintf(ret_text, VALUE, "%s", cJSON_IsTrue(item) ? "true" : "false");
	else if (cJSON_IsNumber(item))
		n = snprintf(ret_text, VALUE, "%.15g", item->valuedouble);
	else if (cJSON_IsString(item))
		n = snprintf(ret_text, VALUE, "%s", item->valuestring);
	else
		return -EINVAL;
	return n < VALUE ? 0 : -EINVAL;
}

static int check_kind(const struct parameters *given, size_t index, struct fault *why)
{
	static const char *const wanted[] = {"mete.dev/v1", "Share"};
	const char *text = given->text[index];

	if (strcmp(text, wanted[index - NAME_API]) == 0)
		return 0;
	return fault_set(why, -EINVAL, "%s: '%s' is not known; accepted: %s", names[index],
			 words_show(text).text, wanted[index - NAME_API]);
}

static int check_counted(size_t index, struct fault *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(counted); i++)
		if (index == counted[i])
			return fault_set(why, -EINVAL,
					 "%s: this is counted, so no parameter says it; accepted: "
					 "'memory' and 'compute' in the request's capacity",
					 names[index]);
	return 0;
}

static int take_item(const cJSON *item, struct parameters *given, struct fault *why)
{
	size_t index = 0;
	const char *nearest;
	int r;

	while (index < NAMES && !words_same(item->string, names[index]))
		index++;
	if (index == NAMES) {
		nearest = words_nearest(item->string, names, NAMES);
		return fault_set(why, -EINVAL, "%s: there is no such parameter%s%s%s",
				 words_show(item->string).text, nearest ? "; the nearest is '" : "",
				 nearest ? words_dashed(nearest).text : "", nearest ? "'" : "");
	}
	r = check_counted(index, why);
	if (r == 0 && read_value(item, given->text[index]) < 0)
		r = fault_set(why, -EINVAL,
			      "%s: the value is not understood; accepted: a text, a number or a "
			      "word of at most %d characters",
			      words_dashed(names[index]).text, VALUE - 1);
	if (r == 0 && index >= NAME_API)
		r = check_kind(given, index, why);
	given->has[index] = true;
	return r;
}

/* Does the entry hold for the request? Of a list of alternatives ("main/sub") it may name both. */
static bool is_named(const cJSON *requests, const char *request)
{
	size_t length = strcspn(request, "/");
	const cJSON *item;

	cJSON_ArrayForEach(item, requests)
	{
		const char *name = cJSON_GetStringValue(item);

		if (name && (strcmp(name, request) == 0 ||
			     (strlen(name) == length && strncmp(name, request, length) == 0)))
			return true;
	}
	return !cJSON_GetArraySize(requests);
}

/* 1: it holds for our devices; 0: it does not. A share is the claim's, not a request's. */
static int applies(const cJSON *entry, const struct claim *claim, struct fault *why)
{
	const cJSON *requests = cJSON_GetObjectItemCaseSensitive(entry, "requests");
	uint32_t n = 0;

	for (uint32_t i = 0; i < claim->results; i++)
		n += is_named(requests, claim->result[i].request);
	if (n && n < claim->results)
		return fault_set(why, -EINVAL,
				 "they are for some of the claim's requests, and a claim has one "
				 "share; accepted: parameters for all of its requests");
	return n > 0;
}

static int read_entry(const cJSON *entry, const struct claim_place *place,
		      const struct claim *claim, struct parameters *given, struct fault *why)
{
	const cJSON *opaque = cJSON_GetObjectItemCaseSensitive(entry, "opaque"), *item;
	const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(opaque, "parameters");
	const char *driver = json_text(opaque, "driver");
	int r = driver && strcmp(driver, place->driver) == 0 ? applies(entry, claim, why) : 0;

	if (r <= 0)
		return r;
	cJSON_ArrayForEach(item, parameters)
	{
		r = take_item(item, given, why);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Later entries replace what earlier ones say of the same thing. */
static int read_parameters(const cJSON *allocation, const char *source,
			   const struct claim_place *place, const struct claim *claim,
			   struct parameters *given, struct fault *why)
{
	const cJSON *devices = cJSON_GetObjectItemCaseSensitive(allocation, "devices"), *entry;

	cJSON_ArrayForEach(entry, cJSON_GetObjectItemCaseSensitive(devices, "config"))
	{
		const char *from = json_text(entry, "source");
		int r = from && strcmp(from, source) == 0
				? read_entry(entry, place, claim, given, why)
				: 0;

		if (r < 0)
			return r;
	}
	return 0;
}

/* The class's, field by field; words of annotations.def stand for several fields, in a pod's
 * view. */
static int lay_class(const struct parameters *given, struct config_share *portion,
		     struct fault *why)
{
	struct config_share over = {0};
	struct share whole;
	uint32_t field;
	int r;

	for (size_t i = SHARE_FIELDS; i < NAME_API; i++)
		if (given->has[i])
			return fault_set(why, -EINVAL,
					 "%s: a class says fields of a share; accepted: the fields "
					 "that it stands for",
					 words_dashed(names[i]).text);
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
	struct annotation entries[NAMES];
	char keys[NAMES][KEY];
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
	for (size_t i = 0; i < NAME_API; i++) {
		if (!given->has[i])
			continue;
		snprintf(keys[i], KEY, DOMAIN "/%s", words_dashed(names[i]).text);
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

int claim_share(const cJSON *allocation, const struct claim_place *place, uint64_t bytes,
		uint32_t percent, struct claim *claim, struct fault *why)
{
	struct parameters class = {.has = {false}}, own = {.has = {false}};
	char memory[32] = "100%", guarantee[16];
	struct config_share portion;
	int r;

	lay_node(place->portion, &portion);
	r = read_parameters(allocation, "FromClass", place, claim, &class, why);
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
	r = read_parameters(allocation, "FromClaim", place, claim, &own, why);
	if (r == 0)
		r = combine(&own, &portion, place, percent, claim, why);
	if (r < 0)
		fault_within(why, "the claim's parameters");
	return r;
}
