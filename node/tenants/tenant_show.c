/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/tenant_show.h"

#include "node/daemon.h"
#include "node/state/recorder.h"

/* At our end tenants are taken apart, and guests go on by what they were last told: see stop(). */
static bool is_over(const struct tenant *t)
{
	return t->daemon->stopping;
}

static void show_room(struct tenant_device *at, uint64_t credit)
{
	struct tenant *t = at->tenant;
	struct wire_tenant_device *shown = &t->shown->device[at - t->device];
	uint64_t lent = credit - ledger_credit_of(at->account);

	__atomic_store_n(&shown->room_bytes, ledger_room_for(at->account), __ATOMIC_RELAXED);
	__atomic_store_n(&shown->lent_mib, (uint32_t)(lent >> 20), __ATOMIC_RELAXED);
	__atomic_store_n(&shown->rivals, t->daemon->device[at->index].registered - 1,
			 __ATOMIC_RELAXED);
}

void tenant_show_room(struct tenant_device *at, uint64_t credit)
{
	if (is_over(at->tenant))
		return;
	show_room(at, credit);
	__atomic_fetch_add(&at->tenant->shown->epoch, 1, __ATOMIC_RELEASE);
}

void tenant_show(struct tenant *t, uint32_t device)
{
	struct wire_tenant_device *shown = &t->shown->device[device];
	struct tenant_device *at = &t->device[device];
	struct ledger_sums own;
	bool lowered;

	if (is_over(t))
		return;
	ledger_account_sums(at->account, &own);
	lowered = own.highest_limit > own.limit && own.highest_limit > at->highest_limit;
	if (own.booked + own.evicted > at->most_bytes || lowered)
		recorder_held(t, device, own.booked + own.evicted, &own);
	__atomic_store_n(&shown->limit_bytes, own.limit, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->used_bytes, own.allocated + own.residual, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->granted_bytes, own.granted + own.residual, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->guests, t->guest_count, __ATOMIC_RELAXED);
	show_room(at, ledger_credit_on(t->daemon->book.ledger, at->index));
	__atomic_fetch_add(&t->shown->epoch, 1, __ATOMIC_RELEASE);
}

void tenant_show_share(struct tenant *t)
{
	__atomic_store_n(&t->shown->on_daemon_loss, (uint32_t)t->share.on_daemon_loss,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&t->shown->wait_ns, t->share.wait_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&t->shown->strict, t->share.strict, __ATOMIC_RELAXED);
	__atomic_store_n(&t->shown->oversize, t->share.oversize, __ATOMIC_RELAXED);
	__atomic_store_n(&t->shown->observes, t->observes, __ATOMIC_RELAXED);
	__atomic_store_n(&t->shown->quiet, t->share.quiet, __ATOMIC_RELAXED);
	__atomic_fetch_add(&t->shown->epoch, 1, __ATOMIC_RELEASE);
}

void tenant_show_stands(struct tenant *t)
{
	enum wire_stands stands = WIRE_STANDS_NOT;

	if (is_over(t))
		return;
	if (t->suspended)
		stands = WIRE_STANDS_SUSPENDED;
	else if (t->turns.suspended)
		stands = WIRE_STANDS_HALTED;
	__atomic_store_n(&t->shown->stands, (uint64_t)stands, __ATOMIC_RELAXED);
}
