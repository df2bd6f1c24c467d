/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit/credit.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "guest/clock.h"
#include "guest/credit/amounts.h"
#include "guest/futex.h"
#include "guest/link/link.h"
#include "guest/process/changes.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/say.h"
#include "guest/thread.h"

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
	return bytes > UINT64_MAX - step ? bytes : (bytes + step - 1) / step * step;
}

/* Each thread reads again after it has stored: so the page shows the truth in the end, whichever
 * thread writes last. */
static void show(_Atomic uint64_t *truth, uint64_t *place)
{
	uint64_t value;

	do {
		value = atomic_load(truth);
		__atomic_store_n(place, value, __ATOMIC_SEQ_CST);
	} while (atomic_load(truth) != value);
}

static void show_credit(struct state_device *d)
{
	show(&d->credit, &amounts_page(d)->credit_bytes);
}

void credit_publish(int device)
{
	struct state_device *d = &state.device[device];
	uint32_t w = atomic_load_explicit(&d->wire_index, memory_order_relaxed);

	amounts_allocate(d, 0);
	show_credit(d);
	show(&d->contexts, &guest_own_page.device[w].contexts);
	show(&d->adrift, &guest_own_page.adrift_bytes[w]);
	show(&d->outgoing, &guest_own_page.outgoing_bytes[w]);
	show(&d->loose, &guest_own_page.loose_bytes[w]);
	show(&d->stocked, &guest_own_page.stocked_bytes[w]);
	show(&d->oversize, &guest_own_page.oversize_bytes[w]);
	changes_raise(&guest_own_page.others[w], atomic_load(&d->others) + 1);
}

/* Takes up to `bytes` of unused credit off what was granted. Returns how many bytes. */
static uint64_t ungrant(struct state_device *d, uint64_t bytes)
{
	uint64_t have = amounts_read(&d->credit), some;

	do {
		some = have < bytes ? have : bytes;
	} while (!atomic_compare_exchange_weak(&d->credit, &have, have - some));
	atomic_fetch_sub(&d->granted, some);
	show_credit(d);
	return some;
}

/* Whether to explain that there is no memory: once, and only if the program is refused something.
 */
static bool says_why(struct state_device *d, enum credit_how how)
{
	return how != CREDIT_SPARE && !guest_thread.hushed &&
	       atomic_exchange(&d->refused_said, 1) == 0;
}

static int refusal(struct state_device *d, const struct wire_answer *answer, enum credit_how how)
{
	if (says_why(d, how))
		say("out of memory: %s", answer->refused.reason.text);
	return answer->refused.code == WIRE_REFUSED_LIMIT ? CREDIT_LIMIT : CREDIT_FULL;
}

struct ask_word {
	struct link_word word;
	struct state_device *d;
	uint64_t bytes;
	enum credit_how how;
	bool movable;
};

/* Moot if another thread has freed enough meanwhile. */
static int write_ask(struct link_word *word, struct wire_message *message)
{
	const struct ask_word *about = container_of(word, struct ask_word, word);
	uint64_t want = round_up(about->bytes, CREDIT_STEP);

	if (amounts_read(&about->d->credit) >= about->bytes)
		return LINK_MOOT;
	message->code = WIRE_credit_ask;
	message->credit_ask.device = atomic_load(&about->d->wire_index);
	message->credit_ask.wait = about->how == CREDIT_WAIT;
	message->credit_ask.bytes = about->bytes;
	message->credit_ask.want = want > UINT64_MAX - CREDIT_WANT ? want : want + CREDIT_WANT;
	message->credit_ask.movable = about->movable;
	return 0;
}

static int64_t now_ms(void)
{
	return (int64_t)(now_ns() / 1000000);
}

/* Credit that was returned a moment ago is wanted again: from now on so much is kept. */
static void learn_from_asking(struct state_device *d)
{
	uint64_t bytes = atomic_exchange(&d->gave_back, 0);

	if (bytes && now_ms() - atomic_load(&d->gave_back_ms) < CREDIT_SOON_MS)
		atomic_fetch_add(&d->kept, bytes);
}

static int away(struct state_device *d, uint64_t bytes, enum credit_how how)
{
	if (says_why(d, how))
		say("out of memory: the daemon is away, and %lu bytes exceed what this process was "
		    "granted",
		    (unsigned long)bytes);
	return CREDIT_AWAY;
}

/* A thread that waits for the daemon changes nothing, and the daemon may measure before it answers:
 * so the wait is not part of a change. Granted bytes become allocated in one change. */
static int take_asking(struct state_device *d, uint64_t bytes, enum credit_how how, bool movable)
{
	struct ask_word about = {{write_ask, NULL}, d, bytes, how, movable};
	struct wire_answer answer;
	bool pauses = how != CREDIT_OWED;
	enum link_patience patience = how != CREDIT_WAIT ? LINK_AT_ONCE
				      : movable		 ? LINK_FOR_A_TURN
							 : LINK_FOR_ROOM;
	int r;

	learn_from_asking(d);
	do {
		if (pauses)
			changes_pause();
		r = link_ask(&about.word, patience, NULL, &answer);
		if (pauses)
			changes_go_on();
		if (r == 0 && answer.code == WIRE_credit_grant &&
		    answer.credit_grant.bytes >= bytes) {
			amounts_allocate(d, (int64_t)bytes);
			return 0;
		}
		if (amounts_take(d, bytes))
			return 0;
	} while (r == LINK_MOOT);
	if (r < 0)
		return away(d, bytes, how);
	return answer.code == WIRE_refused ? refusal(d, &answer, how) : CREDIT_FULL;
}

int credit_take(int device, uint64_t bytes, enum credit_how how)
{
	static _Atomic uint32_t said;
	struct state_device *d;

	if (device < 0 || !state_joined()) {
		if (atomic_exchange(&said, 1) == 0)
			say("memory was requested on a device that does not belong to the tenant");
		return CREDIT_LIMIT;
	}
	d = &state.device[device];
	if (likely(amounts_take(d, bytes)))
		return 0;
	if (how == CREDIT_LOCAL)
		return CREDIT_FULL;
	return take_asking(d, bytes, how & ~CREDIT_MOVABLE, how & CREDIT_MOVABLE);
}

struct return_word {
	struct link_word word;
	struct state_device *d;
	uint64_t bytes;
	uint32_t recall;
};

/* The returned credit is taken off before the daemon can hear of it. */
static int write_return(struct link_word *word, struct wire_message *message)
{
	const struct return_word *about = container_of(word, struct return_word, word);
	uint64_t some = ungrant(about->d, about->bytes);

	if (some == 0 && about->recall == 0)
		return LINK_MOOT;
	message->code = WIRE_credit_return;
	message->credit_return.device = atomic_load(&about->d->wire_index);
	message->credit_return.recall = about->recall;
	message->credit_return.bytes = some;
	atomic_store(&about->d->returned, 1);
	return 0;
}

static void unsent_return(struct link_word *word, const struct wire_message *message)
{
	const struct return_word *about = container_of(word, struct return_word, word);

	atomic_fetch_add(&about->d->granted, message->credit_return.bytes);
	amounts_release(about->d, message->credit_return.bytes);
	show_credit(about->d);
}

/* Returns the surplus of unused credit, if there are other guests. */
noinline_ void credit_surplus(int device, uint64_t credit)
{
	struct state_device *d = &state.device[device];
	uint64_t kept = atomic_load(&d->kept);
	struct return_word about = {{write_return, unsent_return}, d, 0, 0};

	kept = kept > CREDIT_KEPT ? kept : CREDIT_KEPT;
	about.bytes = credit - kept;
	if (credit <= 2 * kept ||
	    (state_page(device, rivals) == 0 && state_page(device, guests) == 1))
		return;
	atomic_store(&d->gave_back_ms, now_ms());
	atomic_fetch_add(&d->gave_back, credit - kept);
	best_effort(link_tell(&about.word));
}

void credit_give(int device, uint64_t bytes)
{
	uint64_t credit;

	/* In a copy of a process the page is still the parent's (guest/process/join.c). */
	if (device < 0 || !state_joined())
		return;
	credit = amounts_give(&state.device[device], bytes);
	if (unlikely(credit > 2ULL * CREDIT_KEPT))
		credit_surplus(device, credit);
}

static void show_stocked(struct state_device *d)
{
	show(&d->stocked, &guest_own_page.stocked_bytes[atomic_load(&d->wire_index)]);
}

void credit_stocked(int device, uint64_t bytes)
{
	struct state_device *d = &state.device[device];

	atomic_fetch_add(&d->stocked, bytes);
	show_stocked(d);
	amounts_allocate(d, -(int64_t)bytes);
}

void credit_unstocked(int device, uint64_t bytes, bool allocated)
{
	struct state_device *d = &state.device[device];

	atomic_fetch_sub(&d->stocked, bytes);
	if (allocated) {
		amounts_allocate(d, (int64_t)bytes);
	} else {
		amounts_release(d, bytes);
		show_credit(d);
	}
	show_stocked(d);
}

/* With other guests, stock and credit together are limited to what is worth keeping. */
bool credit_may_stock(int device, uint64_t bytes)
{
	struct state_device *d = &state.device[device];
	uint64_t kept = amounts_read(&d->kept);

	kept = kept > CREDIT_KEPT ? kept : CREDIT_KEPT;
	return (state_page(device, rivals) == 0 && state_page(device, guests) == 1) ||
	       bytes + credit_idle(device) <= 2 * kept;
}

void credit_adrift(int device, int64_t change)
{
	if (device < 0 || !state_joined())
		return;
	atomic_fetch_add(&state.device[device].adrift, (uint64_t)change);
	credit_publish(device);
}

void credit_outgoing(int device, int64_t change)
{
	if (device < 0 || !state_joined())
		return;
	atomic_fetch_add(&state.device[device].outgoing, (uint64_t)change);
	credit_publish(device);
}

void credit_loose(int device, uint64_t bytes)
{
	struct state_device *d = &state.device[device];

	if (!state_joined())
		return;
	atomic_store(&d->loose, bytes);
	show(&d->loose, &guest_own_page.loose_bytes[atomic_load(&d->wire_index)]);
}

uint64_t credit_allocated(int device)
{
	return device < 0 ? 0 : amounts_read(&state.device[device].allocated);
}

bool credit_returned(int device)
{
	return atomic_load_explicit(&state.device[device].returned, memory_order_relaxed) &&
	       atomic_exchange(&state.device[device].returned, 0);
}

uint64_t credit_unused(int device)
{
	return device < 0 ? 0 : amounts_read(&state.device[device].credit);
}

uint64_t credit_idle(int device)
{
	return device < 0 ? 0
			  : amounts_read(&state.device[device].credit) +
				    amounts_read(&state.device[device].stocked);
}

/* Odd: a recall is being answered, by the agent or by the mover. */
static _Atomic uint32_t recalls;
static struct futex_lock answering;

uint32_t credit_recalls(void)
{
	return atomic_load(&recalls);
}

int credit_recall(uint32_t wire_device, uint64_t bytes, uint32_t recall_id)
{
	int device = state_of_wire(wire_device);
	struct return_word about = {{write_return, unsent_return}, NULL, bytes, recall_id};
	int r;

	if (device < 0)
		return 0;
	about.d = &state.device[device];
	/* Others need memory: nothing beyond CREDIT_KEPT is worth keeping any more. */
	atomic_store(&about.d->kept, 0);
	atomic_store(&about.d->gave_back, 0);
	futex_lock_take(&answering);
	atomic_fetch_add(&recalls, 1);
	r = link_try(&about.word);
	atomic_fetch_add(&recalls, 1);
	futex_lock_give(&answering);
	return r;
}

/* ---- the connection -------------------------------------------------------------------------- */

/* Two rounds: during the first one a thread may still write to the place that now shows another
 * device. */
void credit_new_page(void)
{
	uint32_t devices = atomic_load(&state.devices);

	for (uint32_t i = 0; i < 2 * devices; i++)
		credit_publish((int)(i % devices));
}

/* The asking thread gets its bytes directly. From the common credit another thread could take them,
 * and the first would have to ask again. Called in the order of the answers, so that a later
 * refusal is also seen later. */
uint64_t credit_granted(const struct wire_credit_grant *grant, uint64_t asked)
{
	int device = state_of_wire(grant->device);
	struct state_device *d;

	if (device < 0)
		return 0;
	if (asked > grant->bytes)
		asked = 0;
	d = &state.device[device];
	atomic_fetch_add(&d->granted, grant->bytes);
	amounts_release(d, grant->bytes - asked);
	show_credit(d);
	return asked;
}

void credit_unclaimed(const struct wire_credit_grant *grant, uint64_t kept)
{
	int device = state_of_wire(grant->device);

	if (device < 0)
		return;
	amounts_release(&state.device[device], kept);
	show_credit(&state.device[device]);
}

/* Credit that is being stated. No thread may take it, as the daemon may not grant it. The agent's.
 */
static uint64_t frozen[STATE_DEVICES];

void credit_state(int device, struct wire_inventory *inventory)
{
	frozen[device] += atomic_exchange(&state.device[device].credit, 0);
	inventory->credit = frozen[device];
}

void credit_stated(int device, bool was_granted)
{
	struct state_device *d = &state.device[device];
	uint64_t bytes = frozen[device];

	frozen[device] = 0;
	if (was_granted)
		amounts_release(d, bytes);
	else
		atomic_fetch_sub(&d->granted, bytes);
	show_credit(d);
}

void credit_forget(void)
{
	memset(frozen, 0, sizeof(frozen));
}
