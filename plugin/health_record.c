/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/health_record.h"

#include <inttypes.h>

void health_record_write(FILE *out, const char *uuid, const struct health *health)
{
	fprintf(out, "%s %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", uuid,
		(unsigned)health->cause, health->xid, health->quiet_ns, health->quiet_since_ns,
		health->well_since_ns);
}

int health_record_read(const char *line, uint64_t now_ns, struct health_record *ret_record)
{
	struct health_record record = {.uuid = ""};
	struct health *h = &record.health;
	unsigned cause;
	int used = 0;

	if (sscanf(line, "%79s %u %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 "%n", record.uuid,
		   &cause, &h->xid, &h->quiet_ns, &h->quiet_since_ns, &h->well_since_ns,
		   &used) != 6 ||
	    line[used])
		return -EINVAL;
	/* A quiet time without bounds would keep the device away for ever. */
	if (cause > HEALTH_LOST || !h->quiet_ns || h->quiet_ns > HEALTH_QUIET_MOST_NS ||
	    h->quiet_since_ns > now_ns || h->well_since_ns > now_ns)
		return -EINVAL;
	h->cause = (enum health_cause)cause;
	*ret_record = record;
	return 0;
}
