/* SPDX-License-Identifier: Apache-2.0 */
#include "view/event_write.h"

#include <inttypes.h>
#include <time.h>

#include "core/happened.h"
#include "view/ps_write.h"

static const uint64_t second_ns = 1000000000;

struct event_time event_time(uint64_t ns)
{
	time_t at = (time_t)(ns / second_ns);
	struct event_time ret = {""};
	char seconds[32] = "";
	struct tm tm;

	if (gmtime_r(&at, &tm))
		strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret.text, sizeof(ret.text), "%s.%03uZ", seconds,
		 (unsigned)(ns % second_ns / 1000000));
	return ret;
}

void event_write(FILE *out, const struct wire_event_row *event)
{
	fprintf(out, "{\"number\":%" PRIu64 ",\"at\":\"%s\",\"kind\":\"%s\"", event->number,
		event_time(event->at).text, happened_word(event->kind));
	if (event->device != UINT32_MAX)
		fprintf(out, ",\"device\":%u", event->device);
	if (event->tenant) {
		fprintf(out, ",\"tenant\":%u,\"name\":", event->tenant);
		ps_write_text(out, event->name.text);
	}
	if (event->owner != UINT32_MAX)
		fprintf(out, ",\"uid\":%u", event->owner);
	fputs(",\"said\":", out);
	ps_write_text(out, event->said.text);
	fputc('}', out);
}
