/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api_read.h"

#include <string.h>

#include "base/text.h"
#include "kube/json.h"

cJSON *api_read_json(const char *text, size_t size)
{
	const char *end = NULL;
	cJSON *tree = size ? cJSON_ParseWithLengthOpts(text, size, &end, 0) : NULL;

	for (; tree && end < text + size; end++) {
		if (!strchr(" \t\r\n", *end) || !*end) {
			cJSON_Delete(tree);
			return NULL;
		}
	}
	return tree;
}

bool api_read_has_zero(const char *text, size_t size)
{
	static const char zero[] = "\\u0000";

	for (const char *at = text, *end = text + size; at < end; at++) {
		if (*at != '\\')
			continue;
		if ((size_t)(end - at) >= strlen(zero) && memcmp(at, zero, strlen(zero)) == 0)
			return true;
		at++; /* what it stands before, as another backslash */
	}
	return false;
}

static const char *version_of(const cJSON *object)
{
	const char *version =
		json_text(cJSON_GetObjectItemCaseSensitive(object, "metadata"), "resourceVersion");

	return version && *version && strlen(version) <= API_VERSION_MAX ? version : NULL;
}

static enum api_event_kind kind_of(const char *type)
{
	static const struct {
		const char *type;
		enum api_event_kind kind;
	} kinds[] = {
		{"ADDED", API_EVENT_SEEN},	  {"MODIFIED", API_EVENT_SEEN},
		{"DELETED", API_EVENT_GONE},	  {"ERROR", API_EVENT_ERROR},
		{"BOOKMARK", API_EVENT_BOOKMARK},
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].type, type) == 0)
			return kinds[i].kind;
	return API_EVENT_OTHER;
}

int api_event_read(const char *line, size_t size, struct api_event *ret_event)
{
	struct api_event event = {.tree = api_read_json(line, size)};
	const char *type = json_text(event.tree, "type");

	event.object = cJSON_GetObjectItemCaseSensitive(event.tree, "object");
	if (type) {
		event.kind = kind_of(type);
		event.version = event.kind < API_EVENT_ERROR ? version_of(event.object) : NULL;
	}
	if (!type || !cJSON_IsObject(event.object) ||
	    (event.kind < API_EVENT_ERROR && !event.version)) {
		cJSON_Delete(event.tree);
		return -EBADMSG;
	}
	*ret_event = event;
	return 0;
}

void api_event_done(struct api_event *event)
{
	cJSON_Delete(event->tree);
	*event = (struct api_event){0};
}

static int is_sound(const struct api_page *page)
{
	const cJSON *item = NULL;

	if (!cJSON_IsObject(page->tree) || !page->version)
		return 0;
	if (page->next && strlen(page->next) > API_CONTINUE_MAX)
		return 0;
	if (!page->items)
		return 1;
	if (!cJSON_IsArray(page->items))
		return 0;
	cJSON_ArrayForEach(item, page->items)
	{
		if (!cJSON_IsObject(item))
			return 0;
	}
	return 1;
}

int api_page_read(const char *text, size_t size, struct api_page *ret_page)
{
	struct api_page page = {.tree = api_read_json(text, size)};

	page.items = cJSON_GetObjectItemCaseSensitive(page.tree, "items");
	if (cJSON_IsNull(page.items))
		page.items = NULL; /* an empty list as Go writes it */
	page.version = version_of(page.tree);
	page.next = json_text(cJSON_GetObjectItemCaseSensitive(page.tree, "metadata"), "continue");
	if (page.next && !*page.next)
		page.next = NULL;
	/* A single object also has a version; only a list may be accepted as a list. */
	if (!is_sound(&page) ||
	    (!page.items && !cJSON_GetObjectItemCaseSensitive(page.tree, "items"))) {
		cJSON_Delete(page.tree);
		return -EBADMSG;
	}
	*ret_page = page;
	return 0;
}

void api_page_done(struct api_page *page)
{
	cJSON_Delete(page->tree);
	*page = (struct api_page){0};
}

int api_status_code(const cJSON *status)
{
	const cJSON *code = cJSON_GetObjectItemCaseSensitive(status, "code");
	const char *reason = json_text(status, "reason");

	if (cJSON_IsNumber(code) && code->valuedouble >= 100 && code->valuedouble <= 599)
		return (int)code->valuedouble;
	return reason && (strcmp(reason, "Expired") == 0 || strcmp(reason, "Gone") == 0) ? 410 : 0;
}

void api_status_say(const cJSON *status, int code, const char *verb, const char *path,
		    struct fault *ret_why)
{
	const char *message = json_text(status, "message");

	if (message && *message) {
		fault_set(ret_why, 0, "%s", message);
		/* The cut may have split a character; its rest becomes "?". */
		text_make_plain(ret_why->text);
		return;
	}
	fault_set(ret_why, 0, "the API server answered %d to %s %.300s", code, verb, path);
}

int api_status_is_ahead(const cJSON *status)
{
	const cJSON *causes = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(status, "details"), "causes");
	const cJSON *cause = NULL;

	cJSON_ArrayForEach(cause, causes)
	{
		const char *reason = json_text(cause, "reason");

		if (reason && strcmp(reason, "ResourceVersionTooLarge") == 0)
			return 1;
	}
	return 0;
}
