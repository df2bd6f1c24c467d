/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes from the API server: cut in pieces in any way, a stream has the same text lines as in
 * one piece; each is an event or is refused, and the whole is a page or is refused. An accepted one
 * has the members on which its readers rely.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "kube/api_read.h"
#include "kube/api_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void read_line(const char *line, size_t size)
{
	struct api_event event;
	struct fault why;

	must(size > 0 && memchr(line, '\n', size) == NULL && line[size] == 0);
	if (api_event_read(line, size, &event) < 0)
		return;
	must(cJSON_IsObject(event.object));
	must(event.kind >= API_EVENT_ERROR || (event.version && *event.version));
	if (event.kind == API_EVENT_ERROR) {
		int code = api_status_code(event.object);

		must(code == 0 || (code >= 100 && code <= 599));
		best_effort(api_status_is_ahead(event.object));
		api_status_say(event.object, code, "GET", "/", &why);
		must(*why.text && strlen(why.text) < sizeof(why.text));
	}
	api_event_done(&event);
}

static void read_page(const char *text, size_t size)
{
	struct api_page page;

	if (api_page_read(text, size, &page) < 0)
		return;
	must(*page.version && (!page.next || *page.next));
	must(!page.items || cJSON_IsArray(page.items));
	api_page_done(&page);
}

/* Every line's size and bytes in one number, and how the reading ended. */
static uint64_t digest(struct api_stream *stream, uint64_t sum, int *ret_end)
{
	const char *line;
	size_t size;

	while ((*ret_end = api_stream_line(stream, &line, &size)) == API_STREAM_LINE) {
		sum = hash_bytes(hash_add(sum, size), line, size);
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct api_stream whole = {0}, pieces = {0};
	uint64_t first, second = 1;
	int end = 0, other = 0;
	size_t step, held;
	const char *line, *all;

	if (size < 2)
		return 0;
	/* The first two bytes say how long a line may be, and in which pieces it comes. */
	whole.most = pieces.most = 1 + (size_t)data[0] * 64;
	whole.ahead = pieces.ahead = size;
	step = 1 + data[1];
	data += 2;
	size -= 2;
	must(api_stream_add(&whole, data, size) == 0);
	all = api_stream_all(&whole, &held);
	must(held == size);
	read_page(all, held);
	first = digest(&whole, 1, &end);
	for (size_t at = 0; at < size && other == 0; at += step) {
		must(api_stream_add(&pieces, data + at, size - at < step ? size - at : step) == 0);
		second = digest(&pieces, second, &other);
	}
	must(end == other && (end == 0 || end == -EFBIG) && first == second);
	api_stream_clear(&pieces);
	must(api_stream_add(&pieces, data, size) == 0);
	while (api_stream_line(&pieces, &line, &held) == API_STREAM_LINE)
		read_line(line, held);
	free(whole.data);
	free(pieces.data);
	return 0;
}
