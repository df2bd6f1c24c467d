/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_segment.h"

#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "node/move/move_inside.h"
#include "node/move/move_sync.h"
#include "node/tenants/guest_send.h"
#include "node/time/schedule_now.h"

enum { BEYOND_NEED = STORE_BUDGET + 1 };

void move_segment_release(struct store_segment *segment)
{
	struct guest_device *at = segment->owner;

	at->move.segment_bytes -= segment->bytes;
	at->move.segment_count--;
	store_give_back(segment);
}

/* The bytes of the store that a guest can fill, which are its movable bytes, in segments' grain. */
static uint64_t most_segments(const struct move_guest *m)
{
	return (m->here + m->out + STORE_GRAIN - 1) / STORE_GRAIN * STORE_GRAIN;
}

void move_segment_lacks(struct guest_device *at, uint64_t bytes)
{
	at->move.lacks_bytes = bytes;
	move_due(of_tenant(at));
}

void move_segment_refuse(struct guest_device *at, uint32_t id, uint64_t bytes, int r)
{
	const struct daemon *d = at->guest->tenant->daemon;
	const struct store_part *part = &part_under(at)->store;

	move_segment_lacks(at, r == STORE_BUDGET ? bytes : 0);
	at->move.host_error = r < 0 && r != -EBUSY ? r : 0;
	at->move.host_hinders = at->move.host_error && move_open_order(&at->move);
	if (!list_linked(&at->move.in_want))
		list_append(&at->guest->tenant->daemon->move.in_want, &at->move.in_want);
	if (r == BEYOND_NEED)
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "this process has %s that can move, %s for it in the store, and asked "
			     "for %s more",
			     text_size(at->move.here + at->move.out, TEXT_DOWN).text,
			     text_size(at->move.segment_bytes, TEXT_UP).text,
			     text_size(bytes, TEXT_UP).text);
	else if (r == STORE_QUOTA)
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "this tenant's part of the store, %s, has no place for %s more",
			     text_size(store_quota(at->guest->tenant->store), TEXT_DOWN).text,
			     text_size(bytes, TEXT_UP).text);
	else if (r == STORE_BUDGET)
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "the store is full: of %s%s, %s are in use, and %s were asked for",
			     text_size(part->budget_bytes, TEXT_DOWN).text,
			     d->devices > 1 ? " for this device" : "",
			     text_size(part->used_bytes, TEXT_UP).text,
			     text_size(bytes, TEXT_UP).text);
	else if (r == -EBUSY)
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "a process of this tenant holds the lock of its file in the store: "
			     "the segment was not prepared within %d s",
			     STORE_LATE_MS / 1000);
	else
		guest_refuse(at->guest, id, WIRE_REFUSED_FULL,
			     "the host has no memory for %s in the store: %s",
			     text_size(bytes, TEXT_UP).text, strerror(-r));
}

static void on_ready(struct store_segment *segment, int error)
{
	struct guest_device *at = segment->owner;
	struct wire_message answer = {.code = WIRE_segment, .id = segment->id};

	if (error < 0) {
		at->move.segment_bytes -= segment->bytes;
		at->move.segment_count--;
		move_segment_refuse(at, segment->id, segment->bytes, error);
		return;
	}
	at->move.host_error = 0;
	/* A guest that asked on an earlier connection does not know about it. */
	if (!at->move.can || !at->guest->caller) {
		move_segment_release(segment);
		return;
	}
	if (of_tenant(at)->joined)
		residency_prepared(&of_tenant(at)->member, segment->bytes,
				   schedule_now(at->guest->tenant->daemon));
	answer.segment.device = index_of(at);
	answer.segment.offset = segment->offset;
	answer.segment.bytes = segment->bytes;
	guest_send(at->guest, &answer);
}

int move_segment_take(struct guest_device *at, uint32_t id, uint64_t bytes)
{
	struct store_segment *segment;
	int r;

	/* Its page may say more than it was granted as movable. */
	move_sync(at, false);
	if (bytes > beyond(most_segments(&at->move), at->move.segment_bytes))
		return BEYOND_NEED;
	r = store_take(at->guest->tenant->store, &part_under(at)->store, bytes, on_ready, &segment);
	if (r != 0)
		return r;
	move_segment_lacks(at, 0);
	segment->owner = at;
	segment->id = id;
	list_append(&at->move.segments, &segment->owned);
	at->move.segment_bytes += segment->bytes;
	at->move.segment_count++;
	return 0;
}
