/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/scarce.h"

#include "guest/clock.h"
#include "guest/process/parts.h"

enum {
	CHECK_MS = 100, /* or earlier, as a signal ends a wait */
};

static const uint64_t patience_ns = 1000000000;

struct scarce scarce;

static bool is_over(uint32_t ticket)
{
	return (int32_t)(atomic_load(&scarce.ended) - ticket) >= 0;
}

/* Marks that section, and all before it, as ended. */
static void raise_ended(uint32_t ticket)
{
	uint32_t ended = atomic_load(&scarce.ended);

	while ((int32_t)(ended - ticket) < 0 &&
	       !atomic_compare_exchange_weak(&scarce.ended, &ended, ticket)) {
	}
	futex_wake_all(&scarce.ended);
}

uint32_t scarce_begin(void)
{
	uint32_t ended = atomic_load(&scarce.ended), now_ended;
	uint64_t since = now_ns();

	while (atomic_exchange(&scarce.lock.word, 2) != 0 && now_ns() - since < patience_ns) {
		futex_wait(&scarce.lock.word, 2, CHECK_MS, FUTEX_PRIVATE_FLAG);
		now_ended = atomic_load(&scarce.ended);
		/* Many threads may be before us. */
		if (now_ended != ended)
			since = now_ns();
		ended = now_ended;
	}
	guest_thread.scarce = 1;
	return atomic_fetch_add(&scarce.begun, 1) + 1;
}

void scarce_end(uint32_t ticket)
{
	guest_thread.scarce = 0;
	raise_ended(ticket);
	/* A thread that did not wait for us has the lock now. */
	if (atomic_load(&scarce.begun) == ticket)
		futex_lock_give(&scarce.lock);
}

noinline_ void scarce_wait(void)
{
	/* Waits for the section that is open now; later ones see what we have done. */
	uint32_t ticket = atomic_load(&scarce.begun);
	uint64_t since = now_ns();

	while (!guest_thread.scarce && !is_over(ticket) && now_ns() - since < patience_ns)
		futex_wait(&scarce.ended, atomic_load(&scarce.ended), CHECK_MS, FUTEX_PRIVATE_FLAG);
	if (!guest_thread.scarce)
		raise_ended(ticket);
}

void scarce_forget(void)
{
	atomic_store(&scarce.lock.word, 0);
	atomic_store(&scarce.ended, atomic_load(&scarce.begun));
	guest_thread.scarce = 0;
}
