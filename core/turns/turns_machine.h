/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files that implement core/turns/turns.h. */
#pragma once

#include "base/least.h"
#include "core/turns/turns.h"

enum {
	MILLI = 1000,
	WEIGHT_UNIT = 10000,
	TURNS_BESIDE_PART = 2 /* of the device, that work has beside another tenant's */
};

/* Pending actions of a seat besides its gate. */
enum {
	TODO_LATE = 1,
	TODO_COUPLED = 2,
	TODO_UNCOUPLED = 4,
	TODO_REPORT = 8,
	TODO_SUSPEND = 16,
	TODO_KILL = 32,
	TODO_BESIDE = 64,
	TODO_AWAITS = 128,
};

#define SEAT_OF_TENANT(link) list_entry(link, struct turns_seat, of_tenant)
#define SEAT_ALONG(link)     list_entry(link, struct turns_seat, along_link)
#define SEAT_OF_DEVICE(link) list_entry(link, struct turns_seat, of_device)

/* ---- turns.c --------------------------------------------------------------------------------- */

/* The seat has a pending action: its gate, or TODO_*. */
void turns_seat_todo(struct turns_seat *s, unsigned todo);
void turns_timer_set(struct turns_heap *heap, struct turns_node *timer,
		     uint64_t at_ns); /* UINT64_MAX: off */

/* ---- turns_account.c: what is charged, the clock, the cap, the guarantee --------------------- */

/* The seat counts towards its device's clock, because it wants to run. */
void turns_seat_activate(struct turns_seat *s, uint64_t now_ns);
void turns_seat_deactivate(struct turns_seat *s, bool rests, uint64_t now_ns);
/* It runs for its guarantee, which may be more than its weight is worth. It owes nothing for
 * this time, and the clock, which is a mean, must not run ahead of the others. */
void turns_seat_excuse(struct turns_seat *s, uint64_t now_ns);
/* Converts an amount of its own time to virtual time. */
uint64_t turns_seat_virtual(const struct turns_seat *s, uint64_t ns);
uint64_t turns_seat_real(const struct turns_seat *s, uint64_t virtual_ns); /* and back */
void turns_seat_entitle(struct turns_seat *s, bool from_now_on, uint64_t now_ns);
/* When it may run: 0 or now_ns: at once. */
uint64_t turns_seat_released(struct turns_seat *s, uint64_t now_ns);
/* When it must stop, if it runs from now on. */
uint64_t turns_seat_exhausted(struct turns_seat *s, uint64_t now_ns);
void turns_seat_allow(struct turns_seat *s, uint64_t now_ns);
/* Likewise; and what it has saved up is bounded, whatever may be charged for that time later. */
void turns_seat_bound(struct turns_seat *s, uint64_t now_ns);
/* Its guarantee accrues while it wants to run, and otherwise only up to zero. */
void turns_seat_floor(struct turns_seat *s, bool wanted, uint64_t now_ns);
/* Of all seats, up to now: before guarantees change, or the device is governed no more. */
void turns_device_floors(struct turns_device *d, uint64_t now_ns);
/* Its work went on beside others' until now. / It did not. */
void turns_seat_pay(struct turns_seat *s, uint64_t now_ns);
/* From now on it goes on beside others'. */
void turns_seat_owe(struct turns_seat *s, uint64_t now_ns);
void turns_seat_forgive(struct turns_seat *s, uint64_t now_ns);
/* Before its gate opens: what it had beside others is charged, unless it may wait for its own
 * threads, as that takes little of the device. What waits for something outside takes nothing, but
 * that was seen some time ago: it is charged. */
void turns_seat_pay_before(struct turns_seat *s, uint64_t now_ns);
/* What it owes since it was found stopped, which is about to be forgotten. */
void turns_seat_pay_stopped(struct turns_seat *s, uint64_t now_ns);
/* From when it is behind its guarantee. */
uint64_t turns_seat_due(struct turns_seat *s, uint64_t now_ns);

/* ---- turns_line.c: who is next --------------------------------------------------------------- */

void turns_line_add(struct turns_seat *s, uint64_t now_ns);
void turns_line_remove(struct turns_seat *s);
uint64_t turns_line_slice(const struct turns_seat *s);
struct turns_seat *turns_line_best(struct turns_device *d, uint64_t now_ns);
/* Chooses among the tenants that may run on a claimed device: those that need no other device. */
struct turns_seat *turns_line_best_single(struct turns_device *d, uint64_t now_ns);
/* Whoever comes before the best, as that one may be long in draining, and another one was. */
struct turns_seat *turns_line_before(struct turns_seat *best, uint64_t now_ns);

/* ---- turns_tenant.c: a tenant's turn --------------------------------------------------------- */

static inline bool is_free(const struct turns_seat *s)
{
	return !s->device->governed;
}

uint32_t turns_tenant_governed(const struct turns_tenant *t);
/* It wants to run but cannot yet: it stands in line, or waits for its cap. */
void turns_tenant_enter(struct turns_tenant *t, uint64_t now_ns);
/* Its claims and its place in the line are void. */
void turns_tenant_withdraw(struct turns_tenant *t, uint64_t now_ns);
/* Likewise; or its turn ends. */
void turns_tenant_expel(struct turns_tenant *t, uint64_t now_ns);
void turns_tenant_end_turn(struct turns_tenant *t, uint64_t now_ns);
void turns_tenant_ended(struct turns_tenant *t, uint64_t now_ns);
/* The seat is on no governed device any more. */
void turns_tenant_detach(struct turns_seat *s, uint64_t now_ns);
void turns_tenant_fix(struct turns_tenant *t, uint64_t now_ns);
void turns_tenant_timer(struct turns_tenant *t, uint64_t now_ns);
/* When its caps let it run: 0 or now_ns: at once. */
uint64_t turns_tenant_released(struct turns_tenant *t, uint64_t now_ns);
/* Its cap may have changed. */
void turns_tenant_recap(struct turns_tenant *t, uint64_t now_ns);
/* No tenant holds the device, or a tenant has joined the line. */
void turns_device_serve(struct turns_device *d, uint64_t now_ns);

void turns_tenant_settle(struct turns_tenant *t, uint64_t now_ns);
/* All who are charged there are charged up to now, so that the clock is right: before a seat's
 * place by it is read or bounded, or the clock's weights change. */
void turns_device_settle(struct turns_device *d, uint64_t now_ns);
/* Its gate opens, in its own turn or in another's. */
void turns_seat_open(struct turns_seat *s, uint64_t now_ns);

/* ---- turns_judge.c: whether a turn goes on --------------------------------------------------- */

/* Its gates are open. */
void turns_tenant_begin(struct turns_tenant *t, uint64_t now_ns);
void turns_tenant_judge(struct turns_tenant *t, uint64_t now_ns);
/* Its gates are open for a moment, because it could not drain. */
void turns_tenant_step(struct turns_tenant *t, uint64_t now_ns);
/* How long its last step was; 0: there was none. */
uint64_t turns_tenant_step_ns(const struct turns_tenant *t);
/* A tenant has joined the line. */
void turns_arrive(struct turns_seat *s, uint64_t now_ns);

/* ---- turns_drain.c --------------------------------------------------------------------------- */

/* Whether its drain must be waited for; not if its guests were not told yet that it is open. */
bool turns_seat_start_closing(struct turns_seat *s, bool stray, uint64_t now_ns);
/* A gate of it has not drained and is not waited for. */
bool turns_tenant_owes(const struct turns_tenant *t);
/* It stands in line, and has just been charged: it stays there if its cap has not to pay. */
void turns_tenant_keep_cap(struct turns_tenant *t, uint64_t now_ns);
/* It has drained, or is about to be opened. */
void turns_seat_owes_no_more(struct turns_seat *s);
/* It is let in for a step in order to drain, and so is its company of which that is to be. */
void turns_tenant_reopen(struct turns_tenant *t, uint64_t now_ns);
/* Closed, and nobody waits for it any more. */
void turns_seat_let_owe(struct turns_seat *s, uint64_t now_ns);
/* All its closing gates, and those of its company. */
void turns_tenant_let_owe(struct turns_tenant *t, uint64_t now_ns);
/* It is reported. */
void turns_seat_hang(struct turns_seat *s, uint64_t now_ns);
/* Its last drain was given up: in this one it has one long step, and others have short moments. */
bool turns_tenant_is_stuck(const struct turns_tenant *t);
/* It has had its time. It stands in line again. */
void turns_tenant_give_up(struct turns_seat *s, uint64_t now_ns);
/* How long its drain is waited for before it is checked. */
uint64_t turns_tenant_check_ns(const struct turns_tenant *t);
/* Likewise, as long as nothing is known of it but how long its drains usually take. */
uint64_t turns_tenant_free_check_ns(const struct turns_tenant *t);
/* It is asked whether a thread waits at a gate of a tenant that was reported as hung. */
void turns_tenant_check(struct turns_seat *s);
/* Its wait is over, or it runs again. */
void turns_tenant_unhang(struct turns_tenant *t);
/* All its gates have drained, or were given up. */
void turns_tenant_learn(struct turns_tenant *t, uint64_t now_ns);

/* ---- turns_last.c: how long its work lasts by itself ----------------------------------------- */

/* So long its drain is waited for although a thread stands at the gate; 0: nothing is known. */
uint64_t turns_last_ns(const struct turns_tenant *t);
/* It drained within its turn's drain, by itself. */
void turns_last_learn(struct turns_tenant *t, uint64_t took_ns);
/* It may wait for another tenant, or another one for it. */
bool turns_last_may_wait(const struct turns_tenant *t);
/* Its drain is given up. */
void turns_last_given_up(struct turns_tenant *t, uint64_t now_ns);
/* It was reported, and now a thread stands at a gate. */
void turns_last_queued(struct turns_tenant *t, uint64_t now_ns);
/* It is not in line, to see whether what it has on the device ends by itself. */
bool turns_last_is_watched(const struct turns_tenant *t);
void turns_last_unwatch(struct turns_tenant *t);
/* It was watched for long enough. */
void turns_last_is_over(struct turns_tenant *t);
/* Its next turn begins: what it has on the device is not that of its last one alone. */
void turns_last_runs(struct turns_tenant *t);
/* The drain of a process that is stopped was given up. Before `stops` says so. */
void turns_last_stopped(struct turns_tenant *t, uint64_t now_ns);
/* What was given up has ended, and the rest is held: it is not watched any more. */
void turns_last_computed(struct turns_tenant *t);
/* All that was given up has drained. */
void turns_last_drained(struct turns_tenant *t, uint64_t now_ns);

/* ---- turns_held.c: work that waits for something outside of the device ----------------------- */

/* How long after a close it is first looked at. */
uint64_t turns_held_first_check_ns(const struct turns_tenant *t);
/* It was only checked so early because it may be held or stopped. It is not yet. */
bool turns_held_not_yet(struct turns_seat *s, bool stands, uint64_t now_ns);
/* It pays with its cap, until then. / It was held not long ago. */
void turns_held_pays(struct turns_seat *s, uint64_t until_ns, uint64_t now_ns);
bool turns_held_was_seen(const struct turns_seat *s, uint64_t now_ns);
/* Its drain was given up: with a cap it is looked at until it is held. */
void turns_held_await(struct turns_seat *s, uint64_t now_ns);
/* A seat whose held work was given up: a thread has come to the gate, or it is held no more. */
void turns_held_late(struct turns_seat *s, bool stands, uint64_t now_ns);

/* ---- turns_breath.c: moments of others in a long drain --------------------------------------- */

/* Somebody has not had the device for long: returns true if he is let in for a moment. */
bool turns_breath_begin(struct turns_seat *leader, uint64_t now_ns);
/* Ends that. Returns true until he has drained, a thread stands at the leader's gate, or the
 * leader's drain is to be given up. */
bool turns_breath_goes_on(struct turns_seat *leader, bool stands, uint64_t now_ns);

/* ---- turns_await.c: for whose work a tenant's waits ------------------------------------------ */

bool turns_awaits(const struct turns_tenant *t, const struct turns_tenant *other);
bool turns_tenant_awaits(const struct turns_tenant *t); /* anybody */
/* Those that it was found to await were let in, and that did not help. */
bool turns_await_is_disproved(const struct turns_tenant *t);
struct turns_seat *turns_tenant_seat(const struct turns_tenant *t); /* the first governed one */
/* When the caps of those it awaits let them run: 0 or now_ns: at once. */
uint64_t turns_await_released(const struct turns_tenant *t, uint64_t now_ns);
/* The seat has not drained. Returns true if that is dealt with. */
bool turns_await_late(struct turns_seat *leader, bool stands, uint64_t now_ns);
/* Its drain is given up. */
void turns_await_stuck(struct turns_tenant *t, uint64_t now_ns);
/* It has drained. */
void turns_await_learn(struct turns_tenant *t, uint64_t now_ns);
/* The tenant leaves the device, or the device becomes open. */
void turns_await_forget(struct turns_seat *s);

/* ---- turns_company.c: whose gates are open in another tenant's turn -------------------------- */

bool turns_company_may_come(const struct turns_seat *s);
/* One that has come along has such a gate. */
bool turns_company_any(const struct turns_seat *leader, enum turns_gate gate);
/* The leader waits for it, or a tenant that has come along does. */
bool turns_company_awaits(const struct turns_seat *leader, const struct turns_seat *s);
void turns_company_take(struct turns_seat *leader, struct turns_seat *s, uint64_t now_ns);
/* Its turn begins, or a tenant has joined the line: those it awaits come along; if its work does
 * not leave the device, so do others of which that is so. Returns true if the seat that has joined
 * the line does. */
void turns_company_begin(struct turns_tenant *t, uint64_t now_ns);
/* Its gate is opened again in order to drain, and so are those that would not drain either. */
void turns_company_reopen(struct turns_seat *leader, uint64_t now_ns);
/* Its turn ends: one that was long counts as several. */
void turns_company_count(struct turns_tenant *t, uint64_t now_ns);
bool turns_company_arrive(struct turns_seat *s, uint64_t now_ns);
/* Its turn, or their moment, ends: the gates of those that came along close. */
void turns_company_close(struct turns_seat *leader, uint64_t now_ns);
/* One that came along is barred or suspended. / It has drained. */
void turns_company_expel(struct turns_tenant *t, uint64_t now_ns);
/* Closes the gates of tenants that came along and have used up their caps. Returns when the next
 * one must be closed; UINT64_MAX: never. */
uint64_t turns_company_keep_caps(struct turns_tenant *t, uint64_t now_ns);
/* One that came along was closed and has not drained: its leader's turn ends, which checks it
 * then. */
void turns_company_late(struct turns_seat *s, uint64_t now_ns);
void turns_company_drained(struct turns_seat *s, uint64_t now_ns);
/* The leader's work in flight is not waited for any more, nor that of its company. */
void turns_company_let_owe(struct turns_seat *leader, uint64_t now_ns);
/* The leader does not hold the device any more: a tenant that came along, and has not drained,
 * does. */
void turns_company_pass_on(struct turns_seat *leader, uint64_t now_ns);
/* The seat is on no governed device any more. */
void turns_company_detach(struct turns_seat *s, uint64_t now_ns);

/* ---- turns_ring.c: tenants whose drains hardly ever end, as each waits for another's thread ----
 */

/* The tenant waits for another one that waits for it, and the drains of both are in vain. */
bool turns_ring_is_known(const struct turns_tenant *t);
/* Likewise, and the others have come along. */
bool turns_ring_is_open(const struct turns_tenant *t);
/* Likewise, and nothing keeps them from being let in for the drain of the tenant's turn. */
bool turns_ring_may_reopen(const struct turns_seat *leader);
/* It came along in the leader's ring, and may be let in for the drain: its cap has something left.
 */
bool turns_ring_may_come_again(const struct turns_seat *leader, struct turns_seat *s,
			       uint64_t now_ns);
/* How long its turn is; 0: like others'. */
uint64_t turns_ring_turn_ns(const struct turns_tenant *t);
/* It comes along though it has not drained. */
bool turns_ring_may_come(const struct turns_seat *leader, struct turns_seat *s, uint64_t now_ns);
/* Its drain is given up. / It has ended. */
void turns_ring_given_up(struct turns_tenant *t);
void turns_ring_drained(struct turns_tenant *t);

/* ---- turns_moment.c: turns of a moment ------------------------------------------------------ */

/* Work beside others may wait for a tenant that owes for its cap: a timer is set for its moment. */
void turns_moment_await(struct turns_seat *s, uint64_t now_ns);
void turns_moment_await_all(struct turns_device *d, uint64_t now_ns);
/* The timer is due: whoever holds the device is to drain. */
void turns_moment_come(struct turns_seat *s, uint64_t now_ns);
/* All that was had by its last one has drained. */
void turns_moment_drained(struct turns_seat *s, uint64_t now_ns);
/* The seat's work may wait for somebody who owes for its cap. */
bool turns_moment_helps(const struct turns_seat *s, uint64_t now_ns);
/* Nobody holds the device: returns true if somebody has his moment. */
bool turns_moment_begin(struct turns_device *d, uint64_t now_ns);
uint64_t turns_moment_ns(const struct turns_tenant *t); /* how long */
/* It is closed, and has drained or is not waited for. */
void turns_moment_end(struct turns_tenant *t, uint64_t now_ns);

/* ---- turns_kept.c: what outlives the caller -------------------------------------------------- */

/* It joins with an open gate: if its drain was given up before, its work goes on. */
void turns_kept_join(struct turns_seat *s, const struct turns_seat *before, uint64_t now_ns);
/* It has joined: if it was watched, it still is. */
void turns_kept_joined(struct turns_tenant *t);

/* ---- turns_device.c: open or governed -------------------------------------------------------- */

void turns_device_add_share(struct turns_seat *s, int sign);
void turns_device_reckon(struct turns_device *d, uint64_t now_ns);
