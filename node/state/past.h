/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The net result of a journal's records, before they are applied: the latest record of each tenant,
 * guest, bound and device that was not revoked. Reading takes linear time: a record finds the one
 * that it replaces by its subject.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct past_record {
	char *subject; /* what it is about: "guest 3 4711 123456" */
	char *text;    /* the record; NULL: it was revoked */
	uint64_t order;
	uint32_t next; /* with the same hash: index + 1; 0: none */
};

/* All zero: nothing has been read. */
struct past {
	struct past_record *records;
	size_t count, room;
	uint32_t *first; /* by hash: index + 1 */
	uint32_t hashes; /* a power of two */
	uint64_t order, last_tenant;
};

void past_add(struct past *past, const char *record);

/* Call it after the last record: removes what belonged to tenants that have ended. */
void past_settle(struct past *past);
void past_done(struct past *past);
