/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api_read.h"

#include "tests/test.h"

static struct api_event event;
static struct api_page page;

static int read_event(const char *line)
{
	return api_event_read(line, strlen(line), &event);
}

static int read_page(const char *text)
{
	return api_page_read(text, strlen(text), &page);
}

TEST(events_say_what_happened_and_where_the_watch_stands)
{
	static const struct {
		const char *type;
		enum api_event_kind kind;
	} rows[] = {{"ADDED", API_EVENT_SEEN},
		    {"MODIFIED", API_EVENT_SEEN},
		    {"DELETED", API_EVENT_GONE},
		    {"BOOKMARK", API_EVENT_BOOKMARK}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char line[200];

		snprintf(line, sizeof(line),
			 "{\"type\":\"%s\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\"}}}",
			 rows[i].type);
		expect_eq(read_event(line), 0);
		expect_eq(event.kind, rows[i].kind);
		expect_str(event.version, "7");
		api_event_done(&event);
	}
	expect_eq(read_event("{\"type\":\"ERROR\",\"object\":{\"code\":410}}"), 0);
	expect_eq(event.kind, API_EVENT_ERROR);
	expect_eq(api_status_code(event.object), 410);
	api_event_done(&event);
	expect_eq(read_event("{\"type\":\"NEW\",\"object\":{}}"), 0);
	expect_eq(event.kind, API_EVENT_OTHER);
	expect(!event.version);
	api_event_done(&event);
}

TEST(text_that_is_no_event_is_refused)
{
	static const char *const lines[] = {
		"",
		"{",
		"[]",
		"7",
		"{}",
		"{\"type\":7,\"object\":{}}",
		"{\"type\":\"ADDED\"}",
		"{\"type\":\"ADDED\",\"object\":{}}",
		"{\"type\":\"ADDED\",\"object\":[]}",
		"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":7}}}",
		"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"\"}}}",
		"{\"TYPE\":\"ADDED\",\"OBJECT\":{\"metadata\":{\"resourceVersion\":\"7\"}}}",
		"{\"type\":\"ERROR\",\"object\":7}",
		"{\"type\":\"NEW\",\"object\":{}}x",
		"{\"type\":\"NEW\",\"object\":{}}{}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		expect_eq(read_event(lines[i]), -EBADMSG);
	/* A NUL is not an end, and not white space. */
	expect_eq(api_event_read("{\"type\":\"NEW\",\"object\":{}}\0", 27, &event), -EBADMSG);
}

TEST(a_page_has_items_a_version_and_perhaps_a_next_one)
{
	expect_eq(read_page("{\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"t\"},"
			    "\"items\":[{},{}]} \n"),
		  0);
	expect_str(page.version, "5");
	expect_str(page.next, "t");
	expect_eq(cJSON_GetArraySize(page.items), 2);
	api_page_done(&page);
	expect_eq(read_page("{\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"\"},"
			    "\"items\":null}"),
		  0);
	expect(!page.next && !page.items);
	api_page_done(&page);
}

TEST(text_that_is_no_page_is_refused)
{
	static char long_token[API_CONTINUE_MAX + 200];
	static const char *const texts[] = {
		"",
		"[]",
		"{\"items\":[]}",
		"{\"metadata\":{\"resourceVersion\":\"5\"}}",
		"{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":{}}",
		"{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":[7]}",
		"{\"metadata\":{\"resourceVersion\":5},\"items\":[]}",
	};
	int at;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		expect_eq(read_page(texts[i]), -EBADMSG);
	at = sprintf(long_token,
		     "{\"items\":[],\"metadata\":{\"resourceVersion\":\"5\",\"continue\":\"");
	memset(long_token + at, 'x', API_CONTINUE_MAX + 1);
	strcpy(long_token + at + API_CONTINUE_MAX + 1, "\"}}");
	expect_eq(read_page(long_token), -EBADMSG);
}

static bool has_zero(const char *text)
{
	return api_read_has_zero(text, strlen(text));
}

TEST(a_zero_byte_in_a_text_is_noticed)
{
	expect(has_zero("{\"user\":\"admin\\u0000x\"}"));
	expect(has_zero("\"\\\\\\u0000\""));
	expect(!has_zero("\"\\\\u0000\"")); /* a backslash, and then these letters */
	expect(!has_zero("\"u0000 \\u0001\""));
	expect(!has_zero("\"\\u000"));
	expect(!has_zero(""));
}

static struct fault said(const char *text)
{
	cJSON *status = api_read_json(text, strlen(text));
	struct fault why;

	api_status_say(status, 500, "GET", "/x", &why);
	cJSON_Delete(status);
	return why;
}

TEST(a_refusal_is_a_sentence_fit_to_be_shown)
{
	expect_str(said("{\"message\":\"pods is forbidden\"}").text, "pods is forbidden");
	expect_str(said("{\"message\":\"a\\u001b[31m\\nb\"}").text, "a?[31m?b");
	expect_str(said("{\"message\":\"\"}").text, "the API server answered 500 to GET /x");
	expect_str(said("{\"message\":{}}").text, "the API server answered 500 to GET /x");
	expect_str(said("nonsense").text, "the API server answered 500 to GET /x");
}

TEST(text_that_is_no_code_is_zero)
{
	static const struct {
		const char *text;
		int code;
	} rows[] = {{"{\"code\":410}", 410},
		    {"{\"code\":1e300}", 0},
		    {"{\"code\":-5}", 0},
		    {"{\"code\":\"410\"}", 0},
		    {"{\"reason\":\"Expired\"}", 410},
		    {"{\"reason\":\"Gone\"}", 410},
		    {"{\"reason\":\"Other\"}", 0},
		    {"[]", 0}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cJSON *status = api_read_json(rows[i].text, strlen(rows[i].text));

		expect_eq(api_status_code(status), rows[i].code);
		cJSON_Delete(status);
	}
	expect_eq(api_status_code(NULL), 0);
	expect_eq(api_status_is_ahead(NULL), 0);
}

static int is_ahead(const char *reason)
{
	char text[200];
	cJSON *status;
	int is;

	snprintf(text, sizeof(text),
		 "{\"details\":{\"causes\":[{\"reason\":\"Other\"},{\"message\":\"x\"},{\"reason\":"
		 "\"%s\"}]}}",
		 reason);
	status = cJSON_Parse(text);
	is = api_status_is_ahead(status);
	cJSON_Delete(status);
	return is;
}

TEST(a_version_that_the_server_has_not_reached_is_told_from_other_causes)
{
	expect_eq(is_ahead("ResourceVersionTooLarge"), 1);
	expect_eq(is_ahead("Another"), 0);
	expect_eq(is_ahead(""), 0);
}
