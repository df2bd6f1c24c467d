/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves blocks out and in. In each direction two are under way, so that one is copied while the
 * other is mapped or unmapped and reported. Out: the copy is complete before the block is unmapped,
 * and it is unmapped before the daemon is told that it left. In: memory is created only within what
 * was promised, and the segment keeps its content.
 */
#include <string.h>

#include "guest/credit/amounts.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/movable/movable.h"
#include "guest/movable/movable_fit.h"
#include "guest/movable/movable_hash.h"
#include "guest/movable/movable_mover.h"
#include "guest/process/changes.h"
#include "guest/process/state.h"
#include "guest/say.h"
#include "guest/time/capture.h"
#include "guest/time/presence.h"

enum {
	PART_BYTES = 16 << 20, /* copied at a time: as much as is registered together */
	FAILURES = 3,
};

/* ---- choosing -------------------------------------------------------------------------------- */

/* With the lock held: are the current orders to be followed? */
bool movable_obeys(void)
{
	return movable_.up && movable_.order.generation == movable_.generation &&
	       !movable_.give_up && !movable_.stuck;
}

bool movable_leaves_more(void)
{
	return movable_obeys() && movable_.done.left + movable_.leaves < movable_.order.leave;
}

/* With the lock held: a block on the device; first those that need no segment any more. */
static struct movable_block *block_that_leaves(void)
{
	struct movable_block *other = NULL;

	for (size_t i = movable_.areas.count; i > 0; i--) {
		struct movable_area *area = movable_area_at(i - 1);

		if (area->why || area->own.held)
			continue;
		for (uint32_t b = 0; b < area->count; b++) {
			if (area->block[b].where != MOVABLE_HERE)
				continue;
			if (area->block[b].segment.memory)
				return &area->block[b];
			if (!other)
				other = &area->block[b];
		}
	}
	return other;
}

/* With the lock held: a block whose whole size is promised. */
static struct movable_block *block_that_enters(void)
{
	const struct movable_done *done = &movable_.done;
	uint64_t used = done->entered + done->returned + movable_.enters, room;

	if (!movable_obeys() || used >= movable_.order.enter)
		return NULL;
	room = movable_.order.enter - used;
	for (size_t i = 0; i < movable_.areas.count; i++) {
		struct movable_area *area = movable_area_at(i);

		for (uint32_t b = 0; b < area->count && !area->own.held; b++)
			if (area->block[b].where == MOVABLE_OUT && area->block[b].bytes <= room)
				return &area->block[b];
	}
	return NULL;
}

/* ---- the door -------------------------------------------------------------------------------- */

/* Before the first block leaves: from now on threads that touch memory without a turn wait, and
 * none is inside such a call. */
static bool lower(void)
{
	struct presence_walk walk;
	uint32_t kicks = atomic_load(&movable_.kicks);

	if (movable_mover.lowered)
		return true;
	__atomic_store_n(&guest_not_resident, 1, __ATOMIC_SEQ_CST);
	presence_barrier();
	presence_walk_start(&walk);
	while (!presence_walk_step(&walk)) {
		/* A message has arrived, or a context wants to end. */
		if (atomic_load(&movable_.kicks) != kicks)
			return false;
		futex_wait(&movable_.kicks, kicks, 1, FUTEX_PRIVATE_FLAG);
	}
	movable_mover.lowered = true;
	return true;
}

/* Everything is on the device. */
void movable_raise_if_whole(void)
{
	bool whole;

	futex_lock_take(&movable_.lock);
	whole = movable_.out == 0 && movable_.leaves == 0 && movable_.enters == 0;
	futex_lock_give(&movable_.lock);
	if (!whole || !__atomic_load_n(&guest_not_resident, __ATOMIC_RELAXED))
		return;
	movable_mover.lowered = false;
	__atomic_store_n(&guest_not_resident, 0, __ATOMIC_SEQ_CST);
	futex_wake_all(&guest_not_resident);
}

/* ---- out ------------------------------------------------------------------------------------- */

static struct flight *next_flight(struct way *way)
{
	return &way->flight[(way->first + way->count) % MOVER_DEPTH];
}

static void fly(struct way *way)
{
	way->count++;
}

static struct movable_block *land(struct way *way)
{
	struct movable_block *block = way->flight[way->first].block;

	way->first = (way->first + 1) % MOVER_DEPTH;
	way->count--;
	return block;
}

/* Copies between the device and the segment, part by part: in if `in`, else out. */
static CUresult copy(const struct movable_block *block, bool in)
{
	CUresult r = CUDA_SUCCESS;

	for (uint64_t at = 0; at < block->bytes && r == CUDA_SUCCESS; at += PART_BYTES) {
		uint64_t left = block->bytes - at, part = left < PART_BYTES ? left : PART_BYTES;
		uint64_t device = block->address + at;
		uint8_t *host = block->segment.memory + at;

		r = driver_call(
			in ? real(cuMemcpyHtoDAsync_v2)(device, host, part, movable_mover.in.stream)
			   : real(cuMemcpyDtoHAsync_v2)(host, device, part,
							movable_mover.out.stream));
	}
	return r;
}

/* It does not leave. */
void movable_stays(struct movable_block *block, bool flew)
{
	futex_lock_take(&movable_.lock);
	block->where = MOVABLE_HERE;
	movable_.leaves -= block->bytes;
	movable_.flying -= flew;
	futex_lock_give(&movable_.lock);
	movable_arrived();
}

/* Copying it failed: it stays, and is not tried again. */
static void cannot_leave(struct movable_block *block)
{
	struct movable_area *area = block->area;

	futex_lock_take(&movable_.lock);
	for (uint32_t b = 0; b < area->count && !area->why; b++)
		if (area->block[b].where == MOVABLE_HERE || area->block[b].where == MOVABLE_LEAVES)
			movable_.resident -= area->block[b].bytes;
	area->why |= WIRE_UNMOVABLE_FAILED;
	block->segment.filled = false;
	atomic_fetch_or(&movable_.why, WIRE_UNMOVABLE_FAILED);
	movable_.done.failed++;
	movable_show();
	futex_lock_give(&movable_.lock);
	movable_stays(block, true);
	movable_report();
}

/* From here on the segment's content is not the block's. */
static CUresult begin_copy(struct flight *flight)
{
	flight->copies = true;
	flight->block->segment.filled = false;
	return copy(flight->block, false);
}

static bool launch_out(struct movable_block *block)
{
	struct flight *flight = next_flight(&movable_mover.out);
	unsigned slot = (unsigned)(flight - movable_mover.out.flight);
	CUresult r = CUDA_SUCCESS;

	flight->block = block;
	flight->copies = false;
	flight->hashes =
		movable_hash_begin(slot, block->address, block->bytes, movable_mover.out.stream);
	if (!flight->hashes || !block->segment.filled || !block->segment.hashed)
		r = begin_copy(flight);
	if (r == CUDA_SUCCESS)
		r = real(cuEventRecord)(flight->event, movable_mover.out.stream);
	if (r == CUDA_SUCCESS)
		fly(&movable_mover.out);
	return r == CUDA_SUCCESS;
}

/* Before the first block leaves: a library that was loaded since the program began to allocate may
 * reach memory without passing a gate. Then all memory stays, as none of it is out. */
static bool becomes_unfit(void)
{
	uint32_t why = movable_mover.lowered ? 0 : movable_unfit_now();

	if (!why)
		return false;
	futex_lock_take(&movable_.lock);
	for (size_t i = 0; i < movable_.areas.count; i++) {
		if (!movable_area_at(i)->why)
			movable_.resident -= movable_area_at(i)->bytes;
		movable_area_at(i)->why |= why;
	}
	atomic_fetch_or(&movable_.why, why);
	movable_.done.failed++;
	movable_show();
	futex_lock_give(&movable_.lock);
	movable_no_more();
	movable_report();
	return true;
}

/* Claims a block and begins its copy. false: there is none, or it failed. */
bool movable_begin_out(void)
{
	struct movable_block *block = NULL;
	bool still;
	int r;

	if (movable_mover.out.count == MOVER_DEPTH)
		return false;
	futex_lock_take(&movable_.lock);
	if (movable_leaves_more())
		block = block_that_leaves();
	if (block) {
		block->where = MOVABLE_LEAVES;
		movable_.leaves += block->bytes;
	}
	futex_lock_give(&movable_.lock);
	if (!block)
		return false;
	if (capture_open() || !movable_open_context() || becomes_unfit() || !lower()) {
		movable_stays(block, false);
		return false;
	}
	r = movable_segment_get(block, movable_mover.era);
	futex_lock_take(&movable_.lock);
	movable_.stuck |= r < 0 && r != -EAGAIN;
	/* Asking for a segment may have taken long, and a new daemon has ordered nothing. */
	still = r == 0 && movable_obeys() &&
		movable_.done.left + movable_.leaves - block->bytes < movable_.order.leave;
	movable_.flying += still;
	futex_lock_give(&movable_.lock);
	if (!still) {
		movable_stays(block, false);
		return false;
	}
	if (!launch_out(block))
		cannot_leave(block);
	return true;
}

/* Its bytes are in the segment. */
static void has_left(struct movable_block *block, bool copied)
{
	struct state_device *d = &state.device[movable_.device];
	CUresult r;

	changes_begin();
	r = movable_unback(block);
	if (r != CUDA_SUCCESS) {
		changes_end();
		cannot_leave(block);
		return;
	}
	futex_lock_take(&movable_.lock);
	amounts_allocate(d, -(int64_t)block->bytes);
	atomic_fetch_sub(&d->granted, block->bytes);
	block->where = MOVABLE_OUT;
	/* Of an area of which another block could not leave all was subtracted then. */
	movable_.resident -= block->area->why ? 0 : block->bytes;
	movable_.out += block->bytes;
	movable_.leaves -= block->bytes;
	movable_.flying--;
	movable_.done.left += block->bytes;
	if (copied)
		movable_.done.copied += block->bytes;
	else
		movable_.saved += block->bytes;
	movable_show();
	futex_lock_give(&movable_.lock);
	changes_end();
	movable_arrived();
	movable_report();
}

/* The first blocks are copied before it is known whether hashing is worthwhile. If it is, they are
 * hashed as well before they leave: otherwise they would be copied a second time, unchanged. */
static bool hash_late(struct flight *flight)
{
	unsigned slot = (unsigned)(flight - movable_mover.out.flight);

	flight->hashes =
		movable_hash_late(slot, flight->block->address, flight->block->bytes,
				  movable_mover.out.stream) &&
		real(cuEventRecord)(flight->event, movable_mover.out.stream) == CUDA_SUCCESS;
	return flight->hashes;
}

/* Is the block unchanged since it was last copied out, as was assumed when no copy was begun? */
static bool is_unchanged(const struct flight *flight, const uint64_t *hash)
{
	return memcmp(hash, flight->block->segment.hash, sizeof(flight->block->segment.hash)) == 0;
}

static CUresult copy_after_all(struct flight *flight)
{
	CUresult r = begin_copy(flight);

	return r == CUDA_SUCCESS ? real(cuEventRecord)(flight->event, movable_mover.out.stream) : r;
}

/* The copy, or the hash, is complete: the block leaves. */
static void leave_with(struct flight *flight, const uint64_t *hash)
{
	struct movable_segment *segment = &flight->block->segment;

	segment->filled = true;
	segment->hashed = flight->hashes;
	if (flight->hashes)
		memcpy(segment->hash, hash, sizeof(segment->hash));
	has_left(flight->block, flight->copies);
}

/* The oldest one, if it is complete. */
bool movable_end_out(void)
{
	struct way *way = &movable_mover.out;
	struct flight *flight = &way->flight[way->first];
	uint64_t hash[2];
	CUresult r;

	if (way->count == 0)
		return false;
	r = real(cuEventQuery)(flight->event);
	if (r == CUDA_ERROR_NOT_READY)
		return false;
	if (flight->hashes)
		movable_hash_read(way->first, hash);
	if (r == CUDA_SUCCESS && !flight->copies && !is_unchanged(flight, hash)) {
		r = copy_after_all(flight);
		if (r == CUDA_SUCCESS)
			return true;
	}
	if (r == CUDA_SUCCESS && flight->copies)
		movable_hash_copied(way->first, flight->block->bytes, flight->event);
	if (r == CUDA_SUCCESS && !flight->hashes && hash_late(flight))
		return true;
	best_effort(land(way));
	if (r == CUDA_SUCCESS)
		leave_with(flight, hash);
	else
		cannot_leave(flight->block);
	return true;
}

/* ---- in -------------------------------------------------------------------------------------- */

static void count_in(uint64_t bytes, int sign)
{
	struct state_device *d = &state.device[movable_.device];

	atomic_fetch_add(&d->granted, sign > 0 ? bytes : -bytes);
	amounts_allocate(d, sign * (int64_t)bytes);
}

/* The device has no room after all, or the copy failed; the segment still has the content. */
static void goes_back(struct movable_block *block, bool mapped)
{
	static _Atomic uint32_t said;

	changes_begin();
	if (mapped)
		best_effort(movable_unback(block));
	futex_lock_take(&movable_.lock);
	count_in(block->bytes, -1);
	block->where = MOVABLE_OUT;
	movable_.enters -= block->bytes;
	movable_.flying--;
	movable_.done.returned += block->bytes;
	futex_lock_give(&movable_.lock);
	changes_end();
	if (mapped && ++block->failures >= FAILURES && atomic_exchange(&said, 1) == 0)
		say("memory cannot be copied back to the device: this program cannot go on");
	movable_arrived();
	movable_report();
}

static bool one_enters(void)
{
	bool enters;

	futex_lock_take(&movable_.lock);
	enters = block_that_enters() != NULL;
	futex_lock_give(&movable_.lock);
	return enters;
}

bool movable_begin_in(void)
{
	struct flight *flight = next_flight(&movable_mover.in);
	struct movable_block *block;
	CUresult r;

	if (movable_mover.in.count == MOVER_DEPTH || !one_enters() || !movable_open_context())
		return false;
	futex_lock_take(&movable_.lock);
	block = block_that_enters();
	if (block) {
		block->where = MOVABLE_ENTERS;
		movable_.enters += block->bytes;
		movable_.flying++;
		changes_count_begun();
		count_in(block->bytes, 1);
	}
	futex_lock_give(&movable_.lock);
	if (!block)
		return false;
	r = movable_furnish(block);
	changes_count_ended();
	if (r != CUDA_SUCCESS) {
		goes_back(block, false);
		return true;
	}
	/* If it cannot be registered, the copy is only slower. */
	best_effort(movable_segment_get(block, movable_mover.era));
	flight->block = block;
	r = copy(block, true);
	if (r == CUDA_SUCCESS)
		r = real(cuEventRecord)(flight->event, movable_mover.in.stream);
	if (r == CUDA_SUCCESS)
		fly(&movable_mover.in);
	else
		goes_back(block, true);
	return true;
}

static void is_here(struct movable_block *block)
{
	futex_lock_take(&movable_.lock);
	block->where = MOVABLE_HERE;
	block->failures = 0;
	movable_.out -= block->bytes;
	if (!block->area->why)
		movable_.resident += block->bytes;
	movable_.enters -= block->bytes;
	movable_.flying--;
	movable_.done.entered += block->bytes;
	movable_show();
	futex_lock_give(&movable_.lock);
	movable_arrived();
	movable_raise_if_whole();
	movable_report();
}

bool movable_end_in(void)
{
	struct movable_block *block;
	CUresult r;

	if (movable_mover.in.count == 0)
		return false;
	r = real(cuEventQuery)(movable_mover.in.flight[movable_mover.in.first].event);
	if (r == CUDA_ERROR_NOT_READY)
		return false;
	block = land(&movable_mover.in);
	if (r == CUDA_SUCCESS)
		is_here(block);
	else
		goes_back(block, true);
	return true;
}
