/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a journal's records come to, before it is believed: the latest one of each tenant, guest,
 * bound and device that was not taken back. Reading costs as much as there is to read: a record
 * finds the one that it replaces by what it is about.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct past_record {
	char *subject; /* what it is about: "guest 3 4711 123456" */
	char *line;    /* NULL: it was taken back */
	uint64_t order;
	uint32_t next; /* with the same hash: index + 1; 0: none */
};

/* All zero: nothing was read. */
struct past {
	struct past_record *records;
	size_t count, room;
	uint32_t *first; /* by hash: index + 1 */
	uint32_t hashes; /* a power of two */
	uint64_t order, last_tenant;
};

void past_add(struct past *past, const char *line);

/* After the last one: who belonged to a tenant that has ended is gone. */
void past_settle(struct past *past);
void past_done(struct past *past);
