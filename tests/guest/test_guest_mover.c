/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What moves, leaves and is freed, step by step: the guest is linked into this program, which is
 * its mover, on a driver that does everything at once and fails where the test says so.
 */
#include <poll.h>
#include <stdatomic.h>

#include <sys/socket.h>

#include "guest/credit/amounts.h"
#include "guest/credit/credit.h"
#include "guest/driver/real.h"
#include "guest/movable/movable_lend.h"
#include "guest/movable/movable_mover.h"
#include "guest/movable/movable_object.h"
#include "guest/movable/movable_stock.h"
#include "guest/process/join.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

#define BLOCK	BLOCKS_BYTES
#define ADDRESS UINT64_C(0x100000000)

static struct fake fake;
static uint64_t event[2 * MOVER_DEPTH]; /* the driver writes into them */

/* The n-th copy from the device fails, from 1; 0: none does. */
static unsigned copies, failing;

static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	(void)to, (void)from, (void)bytes, (void)stream;
	return ++copies == failing ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

static void open_driver(void)
{
	char path[512];

	fake_start(&fake, 1, FAKE_GOOD);
	snprintf(path, sizeof(path), "%s/libdriver-null.so", getenv("METE_TEST_DRIVERS"));
	setenv("METE_DRIVER", path, 1);
	check(state_ready() == CUDA_SUCCESS);
	__atomic_store_n(&guest_real[API_cuMemcpyDtoHAsync_v2], (void *)copy_out, __ATOMIC_RELEASE);
	movable_.up = true;
	movable_mover.context = (CUcontext)1;
	movable_mover.era = 1;
	movable_mover.lowered = true;
	for (int i = 0; i < MOVER_DEPTH; i++) {
		movable_mover.out.flight[i].event = (CUevent)&event[i];
		movable_mover.in.flight[i].event = (CUevent)&event[MOVER_DEPTH + i];
	}
}

/* So many blocks, all on the device, each with a part of the store. */
static struct movable_area *area_of(uint32_t blocks, uint64_t address)
{
	struct movable_area *area = movable_area_new(blocks * BLOCK, BLOCK, false);

	check(area && area->count == blocks);
	movable_area_place(area, address);
	for (uint32_t i = 0; i < blocks; i++)
		area->block[i].segment = (struct movable_segment){.memory = calloc(1, 1), .era = 1};
	check(ranges_add(&movable_.areas, address, area->bytes, (uint64_t)(uintptr_t)area) == 0);
	atomic_fetch_add(&movable_.open, 1);
	movable_.resident += area->bytes;
	amounts_allocate(&state.device[0], (int64_t)area->bytes);
	atomic_fetch_add(&state.device[0].granted, area->bytes);
	return area;
}

static void forget_segments(struct movable_area *area)
{
	for (uint32_t i = 0; i < area->count; i++)
		area->block[i].segment.memory = NULL;
}

static void free_area(struct movable_area *area)
{
	futex_lock_take(&movable_.lock);
	movable_leave_table(area);
	futex_lock_give(&movable_.lock);
	movable_dissolve(area);
}

/* ---- a copy that fails ----------------------------------------------------------------------- */

static void second_copy_fails(void)
{
	struct movable_area *area;

	open_driver();
	area = area_of(2, ADDRESS);
	check(area->block[0].where == MOVABLE_HERE);
	movable_.order.leave = 2 * BLOCK;
	failing = 2;
	check(movable_begin_out() && movable_begin_out());
	check(area->why == WIRE_UNMOVABLE_FAILED && movable_.resident == 0);
	check(movable_end_out());
	/* It was no longer counted among what can move when it left. */
	check(movable_.resident == 0 && movable_.out == BLOCK && movable_.flying == 0);
	movable_.order.enter = BLOCK;
	check(movable_begin_in() && movable_end_in());
	check(movable_.resident == 0 && movable_.out == 0 && movable_is_here(area));
}

TEST(a_block_that_leaves_beside_one_that_cannot_is_subtracted_once)
{
	expect_eq(in_child(second_copy_fails, NULL, 0), 0);
}

static void fixed_is_freed(void)
{
	struct movable_area *fixed, *other;

	open_driver();
	other = area_of(1, ADDRESS);
	fixed = area_of(3, ADDRESS + 16 * BLOCK);
	futex_lock_take(&movable_.lock);
	movable_fix(fixed, WIRE_UNMOVABLE_OWN);
	futex_lock_give(&movable_.lock);
	check(movable_.resident == other->bytes);
	forget_segments(fixed);
	free_area(fixed);
	check(movable_.resident == other->bytes && movable_.out == 0);
}

TEST(memory_that_stays_is_not_among_what_can_move_when_it_is_freed_either)
{
	expect_eq(in_child(fixed_is_freed, NULL, 0), 0);
}

/* ---- what is freed under an order ------------------------------------------------------------ */

static void frees(bool ordered)
{
	struct movable_area *area;

	open_driver();
	area = area_of(1, ADDRESS);
	forget_segments(area);
	movable_.order.leave = ordered ? BLOCK : 0;
	free_area(area);
	check(movable_.report_due == ordered);
	check(movable_.resident == 0 && credit_allocated(0) == 0 && credit_unused(0) == BLOCK);
}

static void frees_what_is_to_leave(void)
{
	frees(true);
}

static void frees_what_may_stay(void)
{
	frees(false);
}

/* What was to leave is credit then, which does not move, and the daemon recalls it when it hears
 * anything. */
TEST(a_daemon_that_waits_for_memory_to_leave_hears_when_it_was_freed)
{
	expect_eq(in_child(frees_what_is_to_leave, NULL, 0), 0);
	expect_eq(in_child(frees_what_may_stay, NULL, 0), 0);
}

static void drops_more(void)
{
	open_driver();
	movable_.order.drop = BLOCK;
	check(movable_drop_given(3 * BLOCK));
	check(movable_.done.dropped == BLOCK);
	check(!movable_drop_given(BLOCK) && movable_.done.dropped == BLOCK);
	/* What is left of the order is had from a former daemon's store. */
	movable_.order.drop = 4 * BLOCK;
	movable_.former = 5 * BLOCK;
	check(movable_drop_given(BLOCK));
	check(movable_.done.dropped == 4 * BLOCK && movable_.former == 3 * BLOCK);
}

TEST(no_more_is_reported_as_dropped_than_the_daemon_has_ordered)
{
	expect_eq(in_child(drops_more, NULL, 0), 0);
}

static void order(uint32_t device, uint64_t leave)
{
	const struct wire_message message = {
		.code = WIRE_move, .move = {.device = device, .generation = 3, .leave = leave}};
	int fd = -1;

	parts_heard(&message, &fd);
}

static void ordered_anew(void)
{
	open_driver();
	movable_.stuck = movable_.refused = true;
	order(1, BLOCK);
	check(movable_.stuck && !movable_.ask_again && movable_.heard == 0);
	order(0, 2 * BLOCK);
	check(!movable_.stuck && movable_.ask_again && movable_.heard == 1);
	check(movable_.order.leave == 2 * BLOCK && movable_.order.generation == 3);
}

TEST(an_order_is_tried_though_the_store_had_no_room_for_the_last_one)
{
	expect_eq(in_child(ordered_anew, NULL, 0), 0);
}

/* ---- memory that was lent -------------------------------------------------------------------- */

static void channel(uint64_t area, int *ret_borrower)
{
	int end[2];

	check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end) == 0);
	check(debt_add(area, end[0]));
	*ret_borrower = end[1];
}

static void closes(int borrower)
{
	check(close(borrower) == 0);
}

static void two_borrow(void)
{
	int first, second, other;

	open_driver();
	amounts_allocate(&state.device[0], 8 * (int64_t)BLOCK);
	channel(7, &first);
	channel(8, &other);
	channel(7, &second);
	check(debt_owes(7, 4 * BLOCK) && debt_owes(8, BLOCK));
	closes(first);
	check(!debt_settle() && credit_allocated(0) == 8 * BLOCK);
	closes(second);
	check(debt_settle() && credit_allocated(0) == 4 * BLOCK);
	closes(other);
	check(debt_settle() && credit_allocated(0) == 3 * BLOCK && !debt_settle());
	/* Whose borrowers have all closed it owes nothing. */
	channel(9, &first);
	closes(first);
	check(!debt_owes(9, BLOCK));
}

TEST(freed_memory_stays_charged_until_the_last_of_its_borrowers_has_closed_it)
{
	expect_eq(in_child(two_borrow, NULL, 0), 0);
}

static void fix(struct movable_area *area, uint32_t why)
{
	futex_lock_take(&movable_.lock);
	movable_fix(area, why);
	futex_lock_give(&movable_.lock);
}

static uint64_t outgoing(void)
{
	return atomic_load(&state.device[0].outgoing);
}

static void is_lent(void)
{
	struct movable_area *area;
	int borrower;

	open_driver();
	area = area_of(2, ADDRESS);
	forget_segments(area);
	fix(area, WIRE_UNMOVABLE_OWN);
	check(outgoing() == 0);
	fix(area, WIRE_UNMOVABLE_SHARED);
	fix(area, WIRE_UNMOVABLE_SHARED);
	check(outgoing() == 2 * BLOCK && movable_.resident == 0);
	area->id = 7;
	channel(7, &borrower);
	free_area(area);
	/* Nobody can be given it any more, and somebody has it. */
	check(outgoing() == 0 && credit_allocated(0) == 2 * BLOCK && credit_unused(0) == 0);
	closes(borrower);
	check(debt_settle() && credit_allocated(0) == 0 && credit_unused(0) == 2 * BLOCK);
}

TEST(what_others_may_have_is_shown_as_such_until_it_is_freed)
{
	expect_eq(in_child(is_lent, NULL, 0), 0);
}

static void keeps_in_stock(void)
{
	struct movable_area *plain, *fixed, *copied;

	open_driver();
	plain = area_of(1, ADDRESS);
	fixed = area_of(1, ADDRESS + 4 * BLOCK);
	copied = area_of(1, ADDRESS + 8 * BLOCK);
	forget_segments(plain);
	forget_segments(fixed);
	fix(fixed, WIRE_UNMOVABLE_SHARED);
	check(!movable_stock_keep(fixed) && !movable_stock_keep(copied));
	check(movable_stock_keep(plain) && movable_.resident == BLOCK);
	check(!movable_stock_take(2 * BLOCK, false) && !movable_stock_take(BLOCK, true));
	check(movable_stock_take(BLOCK, false) == plain && !movable_stock_take(BLOCK, false));
}

TEST(memory_that_others_may_have_is_not_kept_for_the_next_allocation)
{
	expect_eq(in_child(keeps_in_stock, NULL, 0), 0);
}
