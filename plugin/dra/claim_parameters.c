/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/claim_parameters.h"

#include <string.h>

#include "base/words.h"
#include "kube/json.h"

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

_Static_assert(ARRAY_SIZE(names) == PARAMETERS, "each has its place");

/* Amounts of a device are counted: nothing else may say them. */
static const enum portion_field counted[] = {PORTION_memory, PORTION_mode, PORTION_guarantee};

/* "3", "true": as an annotation would say it. -EINVAL: neither a text, a number nor a word. */
static int read_value(const cJSON *item, char ret_text[PARAMETERS_VALUE])
{
	int n;

	if (cJSON_IsBool(item))
		n = snprintf(ret_text, PARAMETERS_VALUE, "%s",
			     cJSON_IsTrue(item) ? "true" : "false");
	else if (cJSON_IsNumber(item))
		n = snprintf(ret_text, PARAMETERS_VALUE, "%.15g", item->valuedouble);
	else if (cJSON_IsString(item))
		n = snprintf(ret_text, PARAMETERS_VALUE, "%s", item->valuestring);
	else
		return -EINVAL;
	return n < PARAMETERS_VALUE ? 0 : -EINVAL;
}

static int check_kind(const struct parameters *given, size_t index, struct fault *why)
{
	static const char *const wanted[] = {"mete.dev/v1", "Share"};
	const char *text = given->text[index];

	if (strcmp(text, wanted[index - PARAMETERS_API]) == 0)
		return 0;
	return fault_set(why, -EINVAL, "%s: '%s' is not known; accepted: %s", names[index],
			 words_show(text).text, wanted[index - PARAMETERS_API]);
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

/* PARAMETERS: there is none. */
static size_t find(const char *name)
{
	size_t index = 0;

	while (index < PARAMETERS && !words_same(name, names[index]))
		index++;
	return index;
}

static int refuse_unknown(const char *name, struct fault *why)
{
	const char *nearest = words_nearest(name, names, PARAMETERS);

	return fault_set(why, -EINVAL, "%s: there is no such parameter%s%s%s",
			 words_show(name).text, nearest ? "; the nearest is '" : "",
			 nearest ? words_dashed(nearest).text : "", nearest ? "'" : "");
}

/* JSON may have a member twice, and a dash and an underscore are one. */
static bool is_repeated(const cJSON *item)
{
	for (const cJSON *at = item->next; at; at = at->next)
		if (words_same(at->string, item->string))
			return true;
	return false;
}

static int take_item(const cJSON *item, struct parameters *given, struct fault *why)
{
	size_t index = find(item->string);
	int r;

	if (index == PARAMETERS)
		return refuse_unknown(item->string, why);
	r = check_counted(index, why);
	if (r == 0 && is_repeated(item))
		r = fault_set(why, -EINVAL, "%s: it is said more than once; accepted: once",
			      words_dashed(names[index]).text);
	if (r == 0 && read_value(item, given->text[index]) < 0)
		r = fault_set(why, -EINVAL,
			      "%s: the value is not understood; accepted: a text, a number or a "
			      "word of at most %d characters",
			      words_dashed(names[index]).text, PARAMETERS_VALUE - 1);
	if (r == 0 && index >= PARAMETERS_API)
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
	if (parameters && !cJSON_IsObject(parameters))
		return fault_set(why, -EINVAL,
				 "they are no object; accepted: names and values, as in "
				 "'{weight: 300}'");
	cJSON_ArrayForEach(item, parameters)
	{
		r = take_item(item, given, why);
		if (r < 0)
			return r;
	}
	return 0;
}

int parameters_read(const cJSON *allocation, const char *source, const struct claim_place *place,
		    const struct claim *claim, struct parameters *given, struct fault *why)
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

const char *parameters_name(size_t index)
{
	return names[index];
}
