/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core/residency/residency.h share. */
#pragma once

#include "base/least.h"
#include "core/residency/residency.h"

#define MEMBER_OF_DEVICE(link) list_entry(link, struct residency_member, of_device)
#define MEMBER_OF_COMING(link) list_entry(link, struct residency_member, of_coming)

enum { TODO_STOP = 1, TODO_STUCK = 2, TODO_ADMITTED = 4 };

/* All that it has, on the device and in the store. */
static inline uint64_t member_bytes(const struct residency_member *m)
{
	return m->resident_bytes + m->out_bytes;
}

/* The bytes of the device that it needs while it is in the set. */
static inline uint64_t member_need(const struct residency_member *m)
{
	return member_bytes(m) + m->asked_bytes;
}

/* None of its memory is to be on the device. */
static inline bool is_to_be_out(const struct residency_member *m)
{
	return m->suspended || m->parked;
}

/* What is stuck and runs on claims what it asks for: its work may not end before it has that. */
static inline bool is_claiming(const struct residency_member *m)
{
	if (m->suspended || m->yields)
		return false;
	if (m->stuck)
		return m->place == RESIDENCY_IN && m->asked_bytes;
	return m->wants || m->asked_bytes;
}

/* It claims more than it has. */
static inline bool is_waiting(const struct residency_member *m)
{
	return is_claiming(m) && (m->place != RESIDENCY_IN || m->asked_bytes);
}

/* The part of it that cannot leave, because its quota of the store is too small. */
static inline uint64_t member_fixed(const struct residency_member *m)
{
	uint64_t need = member_need(m), chunk = m->residency->tuning.chunk_bytes;

	return need <= m->quota_bytes ? 0 : need - least(beyond(m->quota_bytes, chunk), need);
}

/* The room that it needs of residency_movable(). While it is stuck, what it has there is none of
 * that: it stays. */
static inline uint64_t member_claim(const struct residency_member *m)
{
	return m->stuck ? m->asked_bytes : member_need(m) - member_fixed(m);
}

/* ---- residency.c ----------------------------------------------------------------------------- */

void residency_todo(struct residency_member *m, unsigned todo);
void residency_grant(struct residency_member *m, uint64_t bytes, uint64_t now_ns);

/* ---- residency_pause.c ----------------------------------------------------------------------- */

/* It wants the device again after a pause. */
void residency_learn_pause(struct residency_member *m, uint64_t now_ns);
/* For how long it stays while it pauses. */
uint64_t residency_pause_of(const struct residency_member *m);

/* ---- residency_choose.c: the next set -------------------------------------------------------- */

/* It claims something, or only pauses. */
bool residency_is_active(const struct residency_member *m, uint64_t now_ns);
/* Chooses the members that are to come, if it is time for that. */
void residency_choose(struct residency *r, uint64_t now_ns);
/* There is less room: if the members that come do not fit any more, the choice is made anew. */
void residency_reconsider(struct residency *r);
/* When the next choice is due; UINT64_MAX: no member waits for it. */
uint64_t residency_choose_at(struct residency *r, uint64_t now_ns);

/* The room for all members that can move. */
uint64_t residency_movable(const struct residency *r);

/* ---- residency_yield.c: members of class batch that yield ------------------------------------ */

static inline bool is_batch(const struct residency_member *m)
{
	return m->seat->tenant->share.class == SHARE_BATCH;
}

/* Which members yield. */
void residency_judge_yields(struct residency *r, uint64_t now_ns);
/* When to judge again if there is no event: a higher class's pause ends, or a spell that is spared.
 * To be asked after residency_move(). */
uint64_t residency_yield_at(const struct residency *r, uint64_t now_ns);
/* Until when some member of the set may not be told to yield to the one that waits. */
uint64_t residency_spared_until(const struct residency_member *waits);

/* ---- residency_move.c: how the set comes to be there ----------------------------------------- */

/* Notes the members that have drained. Returns whether there are any. */
bool residency_see_drained(struct residency *r, uint64_t now_ns);
/* Bars, orders, gives credit, grants, admits: all that can be done now. */
void residency_move(struct residency *r, uint64_t now_ns);
/* Orders and credit that it has not carried out or used are void once it has answered. */
void residency_stop(struct residency_member *m);
/* It is not to come any more. */
void residency_withdraw(struct residency_member *m);
/* By how much the device holds more than it has room for. */
uint64_t residency_excess(const struct residency *r);
/* The device's bytes that are neither in use nor promised. */
uint64_t residency_free_bytes(const struct residency *r);
/* It may have begun or ended to wait. */
void residency_rewait(struct residency_member *m);

/* ---- residency_patience.c: members that do not obey ------------------------------------------ */

/* It gets an order: unless it owed something before, the patience with it begins. */
void residency_owes_from(struct residency_member *m, uint64_t now_ns);
/* It has moved so many bytes. */
void residency_worked(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* It has answered or done something: if it was stuck, it recovers. */
void residency_show_life(struct residency_member *m, uint64_t now_ns);
void residency_judge_patience(struct residency *r, uint64_t now_ns);
/* Stops the members for whose orders the store has become too small. */
void residency_stop_starved(struct residency *r);
/* One of them has answered: store that it has not got yet is for others again. */
void residency_give_up_store(struct residency_member *m);
uint64_t residency_patience_at(const struct residency *r);
