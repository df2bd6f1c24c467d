/* SPDX-License-Identifier: Apache-2.0 */
/* Any content of meted's record of its devices' health: a believed state is possible, and reads as
 * it is written. */
#include <stdlib.h>
#include <string.h>

#include "plugin/health_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t now_ns = 5000000000000;

static void must(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(free) char *line = malloc(size + 1);
	struct health_record record, again;
	char written[256];
	FILE *out;

	if (!line)
		return 0;
	memcpy(line, data, size);
	line[size] = '\0';
	if (health_record_read(line, now_ns, &record) < 0)
		return 0;
	must(*record.uuid && strlen(record.uuid) < sizeof(record.uuid));
	must(record.health.cause <= HEALTH_LOST && record.health.quiet_since_ns <= now_ns);
	/* It comes back within an hour of answers, whatever stood there. */
	if (record.health.cause != HEALTH_NONE)
		must(health_answers(&record.health, true, now_ns + HEALTH_QUIET_MOST_NS) ==
		     HEALTH_RECOVERED);
	memset(written, 0, sizeof(written));
	out = fmemopen(written, sizeof(written), "w");
	must(out != NULL);
	record.health.well_since_ns = now_ns;
	health_record_write(out, record.uuid, &record.health);
	must(fclose(out) == 0);
	written[strcspn(written, "\n")] = '\0';
	must(health_record_read(written, now_ns, &again) == 0);
	must(strcmp(again.uuid, record.uuid) == 0 &&
	     again.health.quiet_ns == record.health.quiet_ns &&
	     again.health.xid == record.health.xid);
	return 0;
}
