/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mover: one thread for both directions at once. movable_way.c moves a block out and in.
 */
#include <errno.h>
#include <string.h>

#include "guest/contexts/contexts.h"
#include "guest/credit/blocks.h"
#include "guest/credit/settle.h"
#include "guest/driver/real.h"
#include "guest/link/link.h"
#include "guest/movable/movable_hash.h"
#include "guest/movable/movable_lend.h"
#include "guest/movable/movable_mover.h"
#include "guest/movable/movable_stock.h"
#include "guest/process/state.h"
#include "guest/threads.h"
#include "guest/time/capture.h"

enum {
	IDLE_MS = 1000,
	SOON_MS = 5,
	BEGIN_MS = 1000, /* how long the program waits for it: a kernel may hold up the driver */
};

struct mover movable_mover;

void movable_arrived(void)
{
	atomic_fetch_add(&movable_.arrivals, 1);
	futex_wake_all(&movable_.arrivals);
}

/* ---- reports --------------------------------------------------------------------------------- */

struct moved_word {
	struct link_word word;
	uint32_t stopped;
};

static int write_moved(struct link_word *word, struct wire_message *message)
{
	const struct moved_word *about = container_of(word, struct moved_word, word);

	futex_lock_take(&movable_.lock);
	message->code = WIRE_moved;
	message->moved.device = atomic_load(&state.device[movable_.device].wire_index);
	message->moved.generation = movable_.generation;
	message->moved.stopped = about->stopped;
	message->moved.left = movable_.done.left;
	message->moved.copied = movable_.done.copied;
	message->moved.entered = movable_.done.entered;
	message->moved.returned = movable_.done.returned;
	message->moved.dropped = movable_.done.dropped;
	message->moved.failed = movable_.done.failed;
	futex_lock_give(&movable_.lock);
	return 0;
}

/* If it cannot be sent now, it is sent later. A new daemon learns it from the inventory. */
void movable_report(void)
{
	struct moved_word about = {{write_moved, NULL}, 0};
	int r = link_try(&about.word);

	futex_lock_take(&movable_.lock);
	movable_.report_due = r == -EAGAIN;
	futex_lock_give(&movable_.lock);
}

static bool is_report_due(void)
{
	bool is;

	futex_lock_take(&movable_.lock);
	is = movable_.report_due;
	futex_lock_give(&movable_.lock);
	return is;
}

/* The generation is over: reports what was done in it, then starts from zero. */
static bool stop_step(void)
{
	struct moved_word about = {{write_moved, NULL}, 1};
	uint32_t next;
	bool due;

	futex_lock_take(&movable_.lock);
	next = movable_.order.generation;
	due = movable_.up && next != movable_.generation && movable_.flying == 0;
	futex_lock_give(&movable_.lock);
	if (!due || link_try(&about.word) == -EAGAIN)
		return false;
	futex_lock_take(&movable_.lock);
	if (movable_.generation != next) {
		memset(&movable_.done, 0, sizeof(movable_.done));
		movable_.generation = next;
		movable_.report_due = false;
	}
	futex_lock_give(&movable_.lock);
	return true;
}

/* ---- a context to work in -------------------------------------------------------------------- */

/* With the lock held: a context that has memory here and is not ending. Any context will do before
 * the first block exists, and for memory of cuMemCreate(), which belongs to none. */
static CUcontext some_context(void)
{
	if (atomic_load(&movable_.leaving))
		return NULL;
	for (size_t i = 0; i < movable_.areas.count; i++)
		if (movable_area_at(i)->owner && !(movable_area_at(i)->owner & BLOCKS_LEAVING))
			return (CUcontext)(uintptr_t)movable_area_at(i)->owner;
	return contexts_some(movable_.device);
}

static CUresult open_way(struct way *way)
{
	CUresult r = real(cuStreamCreate)(&way->stream, CU_STREAM_NON_BLOCKING);

	for (int i = 0; i < MOVER_DEPTH && r == CUDA_SUCCESS; i++)
		r = real(cuEventCreate)(&way->flight[i].event, CU_EVENT_BLOCKING_SYNC);
	return r;
}

static void close_way(struct way *way)
{
	for (int i = 0; i < MOVER_DEPTH; i++)
		if (way->flight[i].event)
			best_effort(real(cuEventDestroy_v2)(way->flight[i].event));
	if (way->stream)
		best_effort(real(cuStreamDestroy_v2)(way->stream));
	memset(way, 0, sizeof(*way));
}

/* Only the mover touches these segments, except for their place in the table. */
static void unpin_all(void)
{
	struct movable_area *over = movable_.over;

	for (size_t i = 0; i < movable_.areas.count; i++)
		for (uint32_t b = 0; b < movable_area_at(i)->count; b++)
			movable_segment_unpin(&movable_area_at(i)->block[b].segment,
					      movable_mover.era);
	for (; over; over = over->next)
		for (uint32_t b = 0; b < over->count; b++)
			movable_segment_unpin(&over->block[b].segment, movable_mover.era);
}

static void close_context(void)
{
	CUcontext popped;

	movable_hash_close();
	close_way(&movable_mover.out);
	close_way(&movable_mover.in);
	futex_lock_take(&movable_.lock);
	unpin_all();
	futex_lock_give(&movable_.lock);
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	movable_mover.context = NULL;
	futex_lock_take(&movable_.lock);
	movable_.context = NULL;
	movable_.give_up = false;
	futex_lock_give(&movable_.lock);
	movable_arrived();
}

bool movable_open_context(void)
{
	static uint32_t eras;
	CUresult r;

	if (movable_mover.context)
		return true;
	futex_lock_take(&movable_.lock);
	movable_mover.context = movable_.context = some_context();
	futex_lock_give(&movable_.lock);
	if (!movable_mover.context)
		return false;
	if (real(cuCtxPushCurrent_v2)(movable_mover.context) != CUDA_SUCCESS) {
		movable_mover.context = NULL;
		futex_lock_take(&movable_.lock);
		movable_.context = NULL;
		futex_lock_give(&movable_.lock);
		movable_arrived();
		return false;
	}
	movable_mover.era = ++eras;
	r = open_way(&movable_mover.out);
	if (r == CUDA_SUCCESS)
		r = open_way(&movable_mover.in);
	if (r != CUDA_SUCCESS) {
		close_context();
		return false;
	}
	movable_hash_open();
	/* Streams, events and a module take memory. */
	settle_device(movable_.device);
	return true;
}

/* ---- segments -------------------------------------------------------------------------------- */

/* With the lock held: a movable block on the device, with or without a segment. */
static struct movable_block *block_here(bool with)
{
	for (size_t i = 0; i < movable_.areas.count; i++) {
		struct movable_area *area = movable_area_at(i);

		for (uint32_t b = 0; b < area->count && !area->own.held; b++)
			if (area->block[b].where == MOVABLE_HERE &&
			    (area->block[b].segment.memory != NULL) == with && (with || !area->why))
				return &area->block[b];
	}
	return NULL;
}

/* Claims a block, so that it is not freed meanwhile: one with a copy, if copies are to be given up,
 * or one without. */
static struct movable_block *claim(bool with)
{
	struct movable_block *block = NULL;

	futex_lock_take(&movable_.lock);
	if (movable_obeys() && (!with || movable_.done.dropped < movable_.order.drop))
		block = block_here(with);
	if (block) {
		block->where = MOVABLE_LEAVES;
		movable_.leaves += block->bytes;
	}
	futex_lock_give(&movable_.lock);
	return block;
}

/* Gives up a copy of what is on the device. While the daemon may not have got an earlier one, no
 * other is given up in its place. */
static bool drop_step(void)
{
	struct movable_segment segment;
	struct movable_block *block;
	uint64_t bytes, former = 0;

	block = movable_held_in_doubt() ? NULL : claim(true);
	if (!block)
		return false;
	futex_lock_take(&movable_.lock);
	segment = block->segment;
	memset(&block->segment, 0, sizeof(block->segment));
	bytes = segment.bytes;
	movable_.prepared -= bytes;
	if (movable_segment_is_former(&segment)) {
		best_effort(movable_former_ends(bytes));
		former = bytes;
	}
	futex_lock_give(&movable_.lock);
	movable_stays(block, false);
	bytes = former + movable_segment_end(&segment, movable_mover.era);
	futex_lock_take(&movable_.lock);
	movable_.done.dropped += bytes;
	futex_lock_give(&movable_.lock);
	movable_report();
	return true;
}

static bool wants_segments(void)
{
	bool wants;

	futex_lock_take(&movable_.lock);
	wants = movable_obeys() && movable_.prepared < movable_.order.prepare;
	futex_lock_give(&movable_.lock);
	return wants;
}

/* Prepares segments before there is pressure: one at a time, while there is nothing to move. */
static bool prepare_step(void)
{
	struct movable_block *block;
	int r;

	if (!wants_segments() || !movable_open_context())
		return false;
	block = claim(false);
	if (!block)
		return false;
	r = movable_segment_get(block, movable_mover.era);
	futex_lock_take(&movable_.lock);
	movable_.stuck |= r < 0 && r != -EAGAIN;
	futex_lock_give(&movable_.lock);
	movable_stays(block, false);
	return r == 0;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Asks for the store of a daemon that is new, or may be. */
static void ask_again(void)
{
	uint32_t heard;
	bool again;
	int r;

	futex_lock_take(&movable_.lock);
	again = movable_.ask_again;
	movable_.ask_again = false;
	heard = movable_.heard;
	futex_lock_give(&movable_.lock);
	if (!again)
		return;
	r = movable_ask_store(LINK_HERE);
	futex_lock_take(&movable_.lock);
	movable_.refused = r > 0;
	movable_.ask_again |= movable_.refused && movable_.heard != heard;
	/* A new connection sets it again. */
	movable_.ask_again |= r < 0 && r != -ENOTCONN;
	futex_lock_give(&movable_.lock);
}

static bool gives_up(void)
{
	bool gives;

	futex_lock_take(&movable_.lock);
	gives = movable_.give_up && movable_.flying == 0;
	futex_lock_give(&movable_.lock);
	return gives && movable_mover.context;
}

/* Opens another context, if that in which the mover worked has ended. It tries once: if the device
 * refuses, the next attempt is made when a block is to be moved. */
static void open_again(void)
{
	if (!movable_mover.again || capture_open() || atomic_load(&movable_.leaving) ||
	    !contexts_some(movable_.device))
		return;
	movable_mover.again = false;
	if (atomic_load(&movable_.serving) == MOVABLE_SERVED)
		best_effort(movable_open_context());
}

/* Goes on as far as possible without waiting. Returns whether there was progress. */
static bool step(void)
{
	bool any = false;

	if (gives_up()) {
		close_context();
		movable_mover.again = true;
	}
	open_again();
	ask_again();
	any |= movable_held_step();
	any |= lend_step();
	if (is_report_due())
		movable_report();
	any |= stop_step();
	any |= movable_stock_step();
	any |= debt_settle();
	any |= movable_begin_out();
	any |= movable_begin_in();
	any |= movable_end_out();
	any |= movable_end_in();
	if (!any && movable_mover.out.count == 0 && movable_mover.in.count == 0)
		any = movable_over_step() || movable_drop_freed() || drop_step() || prepare_step();
	any |= movable_return_freed();
	movable_raise_if_whole();
	return any;
}

static CUevent soonest(void)
{
	if (movable_mover.in.count)
		return movable_mover.in.flight[movable_mover.in.first].event;
	return movable_mover.out.count ? movable_mover.out.flight[movable_mover.out.first].event
				       : NULL;
}

/* Is there something to try again soon? */
static bool pending(void)
{
	bool is;

	futex_lock_take(&movable_.lock);
	is = movable_.report_due || movable_.order.generation != movable_.generation ||
	     movable_leaves_more();
	futex_lock_give(&movable_.lock);
	return is || movable_stock_pending();
}

/* The mover's own device memory is allocated, and charged, before the program asks for memory: a
 * set that was admitted without it would not fit any more once it has been moved out. */
static void open_first(void)
{
	best_effort(movable_open_context());
	atomic_store(&movable_.mover_began, true);
	movable_arrived();
}

static void *run(void *unused_argument)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)unused_argument;
	best_effort(real(cuThreadExchangeStreamCaptureMode)(&mode));
	open_first();
	for (;;) {
		uint32_t kicks = atomic_load(&movable_.kicks);

		if (step())
			continue;
		if (soonest())
			best_effort(real(cuEventSynchronize)(soonest()));
		else
			futex_wait(&movable_.kicks, kicks, pending() ? SOON_MS : IDLE_MS,
				   FUTEX_PRIVATE_FLAG);
	}
	return NULL;
}

int movable_start(void)
{
	int r;

	memset(&movable_mover, 0, sizeof(movable_mover));
	atomic_store(&movable_.mover_began, false);
	r = threads_start(run);
	for (int i = 0; r == 0 && i < BEGIN_MS / MOVABLE_CHECK_MS; i++) {
		uint32_t seen = atomic_load(&movable_.arrivals);

		if (atomic_load(&movable_.mover_began))
			break;
		futex_wait(&movable_.arrivals, seen, MOVABLE_CHECK_MS, FUTEX_PRIVATE_FLAG);
	}
	return r;
}
