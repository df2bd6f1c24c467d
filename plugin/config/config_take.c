/* SPDX-License-Identifier: Apache-2.0 */
/* Reads single values, by their kind in config_keys.def. */
#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "base/words.h"
#include "plugin/config/config_read.h"

#define TAKE(kind, type)                                                                           \
	int config_take_##kind(struct config_read *read, const struct document_node *value,        \
			       const char *accepted, type *field)

/* Rejects domains that would be mistaken for Kubernetes' own. */
static bool is_kubernetes(const char *domain)
{
	static const char *const theirs[] = {"kubernetes.io", "k8s.io"};
	size_t length = strlen(domain);

	for (size_t i = 0; i < ARRAY_SIZE(theirs); i++) {
		size_t tail = strlen(theirs[i]);

		if (length >= tail && strcmp(domain + length - tail, theirs[i]) == 0 &&
		    (length == tail || domain[length - tail - 1] == '.'))
			return true;
	}
	return false;
}

/* Takes a text if `test` accepts it. */
static int take_tested(struct config_read *read, const struct document_node *value,
		       const char *accepted, bool (*test)(const char *text), size_t most,
		       const char **field)
{
	const char *text;
	int r = config_text(read, value, accepted, &text);

	if (r < 0)
		return r;
	if (strlen(text) > most)
		return config_refuse(read, value, "is too long", accepted);
	if (!test(text))
		return config_refuse(read, value, "is not understood", accepted);
	return config_keep(read, text, field);
}

/* A kind whose values are texts that pass a test. */
#define TAKE_TEXT(kind, test, most)                                                                \
	TAKE(kind, const char *)                                                                   \
	{                                                                                          \
		return take_tested(read, value, accepted, test, most, field);                      \
	}

static bool is_domain(const char *text)
{
	return words_is_subdomain(text) && !is_kubernetes(text);
}

static bool is_plain(const char *text)
{
	char copy[CONFIG_PATH_MAX + 1];

	snprintf(copy, sizeof(copy), "%s", text);
	text_make_plain(copy);
	return strcmp(copy, text) == 0;
}

static bool is_path(const char *text)
{
	return text[0] == '/' && is_plain(text);
}

static bool is_credential(const char *text)
{
	return strcmp(text, "none") == 0 || is_path(text);
}

TAKE_TEXT(resource, words_is_resource, CONFIG_NAME_MAX)
TAKE_TEXT(domain, is_domain, CONFIG_NAME_MAX)
TAKE_TEXT(node_name, words_is_subdomain, WORDS_SUBDOMAIN_MAX)
TAKE_TEXT(name, words_is_label, CONFIG_NAME_MAX)
TAKE_TEXT(match, is_plain, CONFIG_NAME_MAX)
TAKE_TEXT(path, is_path, CONFIG_PATH_MAX)
TAKE_TEXT(kubelet, is_path, CONFIG_KUBELET_MAX)
TAKE_TEXT(credential, is_credential, CONFIG_PATH_MAX)

/* Reads digits without a sign. A leading zero is refused, because YAML would
 * read the number as octal. */
static bool read_whole(const char *text, uint32_t most, uint32_t *ret, const char **ret_end)
{
	uint32_t number = 0;
	const char *at = text;

	for (; *at >= '0' && *at <= '9'; at++) {
		number = number * 10 + (uint32_t)(*at - '0');
		if (number > most)
			return false;
	}
	if (at == text || (text[0] == '0' && at > text + 1))
		return false;
	*ret = number;
	*ret_end = at;
	return true;
}

static bool is_address(const char *text)
{
	const char *colon = strrchr(text, ':'), *end;
	unsigned char binary[16];
	char host[64];
	uint32_t port;
	size_t length;

	if (strcmp(text, "none") == 0)
		return true;
	if (!colon || !read_whole(colon + 1, 65535, &port, &end) || *end || !port)
		return false;
	length = (size_t)(colon - text);
	if (!length)
		return true;
	if (text[0] == '[' && colon[-1] == ']' && length > 2 && length - 2 < sizeof(host)) {
		snprintf(host, sizeof(host), "%.*s", (int)length - 2, text + 1);
		return inet_pton(AF_INET6, host, binary) == 1;
	}
	snprintf(host, sizeof(host), "%.*s", (int)length, text);
	return length < sizeof(host) && inet_pton(AF_INET, host, binary) == 1;
}

TAKE(address, const char *)
{
	int r = take_tested(read, value, accepted, is_address, CONFIG_NAME_MAX, field);

	if (r == 0 && strcmp(*field, "none") == 0)
		*field = NULL;
	return r;
}

TAKE(slots, uint32_t)
{
	const char *text, *end;
	uint32_t slots;
	int r = config_text(read, value, accepted, &text);

	if (r < 0)
		return r;
	if (!read_whole(text, CONFIG_SLOTS_MAX, &slots, &end) || *end || !slots)
		return config_refuse(read, value, "is not such a number", accepted);
	*field = slots;
	return 0;
}

/* Reads "150%" or "112.5%" in thousandths. */
TAKE(percent, uint32_t)
{
	const char *text, *end;
	uint32_t whole, milli;
	int r = config_text(read, value, accepted, &text);

	if (r < 0)
		return r;
	if (!read_whole(text, 100 * CONFIG_SLOTS_MAX, &whole, &end))
		return config_refuse(read, value, "is not such a percentage", accepted);
	milli = whole * 10;
	if (end[0] == '.' && end[1] >= '0' && end[1] <= '9') {
		milli += (uint32_t)(end[1] - '0');
		end += 2;
	}
	if (strcmp(end, "%") != 0 || milli < 10 || milli > 1000 * CONFIG_SLOTS_MAX)
		return config_refuse(read, value, "is not such a percentage", accepted);
	*field = milli;
	return 0;
}

TAKE(period, uint64_t)
{
	const char *text;
	int r = config_text(read, value, accepted, &text);

	if (r < 0)
		return r;
	return share_parse_duration(text, field) == 0
		       ? 0
		       : config_refuse(read, value, "is not such a time", accepted);
}

/* A value that is one of a few words, and its meaning. */
struct config_word {
	const char *text;
	uint32_t meaning;
};

static int take_word(struct config_read *read, const struct document_node *value,
		     const char *accepted, const struct config_word *words, size_t count,
		     uint32_t *ret_meaning)
{
	const char *text;
	int r = config_text(read, value, accepted, &text);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		if (strcmp(text, words[i].text) == 0) {
			*ret_meaning = words[i].meaning;
			return 0;
		}
	}
	return config_refuse(read, value, "is not understood", accepted);
}

/* A kind whose values are the words of KIND_words. */
#define TAKE_WORD(kind, type)                                                                      \
	TAKE(kind, type)                                                                           \
	{                                                                                          \
		uint32_t meaning = 0;                                                              \
		int r = take_word(read, value, accepted, kind##_words, ARRAY_SIZE(kind##_words),   \
				  &meaning);                                                       \
                                                                                                   \
		if (r == 0)                                                                        \
			*field = (type)meaning;                                                    \
		return r;                                                                          \
	}

static const struct config_word ids_words[] = {
	{"uuid", CONFIG_IDS_UUID},
	{"slot", CONFIG_IDS_SLOT},
};
static const struct config_word counted_words[] = {
	{"slots", CONFIG_COUNTED_SLOTS},
	{"amounts", CONFIG_COUNTED_AMOUNTS},
};
static const struct config_word milli_words[] = {{"guarantee", false}, {"fixed", true}};
static const struct config_word strangers_words[] = {
	{"report", CONFIG_STRANGERS_REPORT},
	{"kill", CONFIG_STRANGERS_KILL},
};
static const struct config_word delivery_words[] = {{"handed-out", false}, {"mounted", true}};
static const struct config_word mig_words[] = {{"found", false}, {"dynamic", true}};
/* Tools that rewrite YAML turn "on" into true. */
static const struct config_word turned_words[] = {
	{"on", true},
	{"true", true},
	{"off", false},
	{"false", false},
};
static const struct config_word cdi_words[] = {
	{"auto", CONFIG_CDI_AUTO}, {"on", CONFIG_CDI_ON},     {"true", CONFIG_CDI_ON},
	{"off", CONFIG_CDI_OFF},   {"false", CONFIG_CDI_OFF},
};

TAKE_WORD(ids, enum config_ids)
TAKE_WORD(counted, enum config_counted)
TAKE_WORD(milli, bool)
TAKE_WORD(strangers, enum config_strangers)
TAKE_WORD(delivery, bool)
TAKE_WORD(mig, bool)
TAKE_WORD(turned, bool)
TAKE_WORD(cdi, enum config_cdi)

static int take_day(struct config_read *read, const struct document_node *value,
		    const char *accepted, uint32_t *days)
{
	static const char *const names[] = {"sunday",	"monday", "tuesday", "wednesday",
					    "thursday", "friday", "saturday"};
	const char *text;
	int r = config_text(read, value, accepted, &text);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcasecmp(text, names[i]) == 0 ||
		    (strlen(text) == 3 && strncasecmp(text, names[i], 3) == 0)) {
			*days |= 1u << i;
			return 0;
		}
	}
	return config_refuse(read, value, "is not a day", accepted);
}

TAKE(days, uint32_t)
{
	uint32_t days = 0;
	int r = 0;

	if (value->kind != DOCUMENT_LIST)
		r = take_day(read, value, accepted, &days);
	else if (!value->first)
		return config_wrong(read, value->line, "no day is given; accepted: %s", accepted);
	else
		for (const struct document_node *day = value->first; day && r == 0; day = day->next)
			r = take_day(read, day, accepted, &days);
	if (r == 0)
		*field = days;
	return r;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int take_minute(struct config_read *read, const struct document_node *value,
		       const char *accepted, uint32_t last, uint32_t *field)
{
	const char *text;
	uint32_t minute, hours;
	int r = config_text(read, value, accepted, &text);

	if (r < 0)
		return r;
	if (strlen(text) != 5 || !is_digit(text[0]) || !is_digit(text[1]) || text[2] != ':' ||
	    !is_digit(text[3]) || !is_digit(text[4]))
		return config_refuse(read, value, "is not a time of day", accepted);
	hours = (uint32_t)(text[0] - '0') * 10 + (uint32_t)(text[1] - '0');
	minute = (uint32_t)(text[3] - '0') * 10 + (uint32_t)(text[4] - '0');
	if (minute > 59 || hours * 60 + minute > last)
		return config_refuse(read, value, "is not a time of day", accepted);
	*field = hours * 60 + minute;
	return 0;
}

TAKE(minute, uint32_t)
{
	return take_minute(read, value, accepted, 24 * 60 - 1, field);
}

TAKE(minute_end, uint32_t)
{
	return take_minute(read, value, accepted, 24 * 60, field);
}
