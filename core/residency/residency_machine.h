/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of core/residency/residency.h share. */
#pragma once

#include "base/least.h"
#include "core/residency/residency.h"

#define MEMBER_OF_DEVICE(link) list_entry(link, struct residency_member, of_device)
#define MEMBER_OF_COMING(link) list_entry(link, struct residency_member, of_coming)

enum { TODO_STOP = 1, TODO_STUCK = 2, TODO_ADMITTED = 4 };

/* All that it has, wherever that is. */
static inline uint64_t member_bytes(const struct residency_member *m)
{
	return m->resident_bytes + m->out_bytes;
}

/* What a set needs that it is in. */
static inline uint64_t member_need(const struct residency_member *m)
{
	return member_bytes(m) + m->asked_bytes;
}

/* Nothing of it is to be on the device. */
static inline bool is_sent_away(const struct residency_member *m)
{
	return m->suspended || m->parked;
}

static inline bool is_claiming(const struct residency_member *m)
{
	return !m->suspended && !m->stuck && !m->yields && (m->wants || m->asked_bytes);
}

/* It claims what it has not got. */
static inline bool is_waiting(const struct residency_member *m)
{
	return is_claiming(m) && (m->place != RESIDENCY_IN || m->asked_bytes);
}

/* What of it cannot leave, as its part of the store is too small. */
static inline uint64_t member_fixed(const struct residency_member *m)
{
	uint64_t need = member_need(m), chunk = m->residency->tuning.chunk_bytes;

	return need <= m->quota_bytes ? 0 : need - least(beyond(m->quota_bytes, chunk), need);
}

/* ---- residency.c ----------------------------------------------------------------------------- */

void residency_todo(struct residency_member *m, unsigned todo);
void residency_grant(struct residency_member *m, uint64_t bytes, uint64_t now_ns);

/* ---- residency_pause.c --------------------------------------------------------------------------
 */

/* It wants after it did not. */
void residency_learn_pause(struct residency_member *m, uint64_t now_ns);
/* So long it is waited for who pauses. */
uint64_t residency_pause_of(const struct residency_member *m);

/* ---- residency_choose.c: who is in the next set ---------------------------------------------- */

/* Who claims, or only pauses. */
bool residency_is_active(const struct residency_member *m, uint64_t now_ns);
/* Who is to come is decided, if it is time for that; and when it is time again. */
void residency_choose(struct residency *r, uint64_t now_ns);
/* There is less room: if those who come do not fit any more, it is decided anew. */
void residency_reconsider(struct residency *r);
/* When the choice is due; UINT64_MAX: nobody waits for it. */
uint64_t residency_choose_at(struct residency *r, uint64_t now_ns);

/* What is there for all who can move. */
uint64_t residency_movable(const struct residency *r);

/* ---- residency_yield.c: which of class batch others come before ------------------------------ */

static inline bool is_batch(const struct residency_member *m)
{
	return m->seat->tenant->share.class == SHARE_BATCH;
}

void residency_judge_yields(struct residency *r, uint64_t now_ns);
/* Until then somebody who is in is not to yield to who waits. */
uint64_t residency_spared_until(const struct residency_member *waits);

/* ---- residency_move.c: how it comes there ---------------------------------------------------- */

/* Bars, orders, gives credit, grants, admits: whatever can be done now. */
void residency_move(struct residency *r, uint64_t now_ns);
/* What it was told and has not done is void once it has answered. */
void residency_stop(struct residency_member *m);
/* It is not to come any more. */
void residency_withdraw(struct residency_member *m);
/* More than there is room for. */
uint64_t residency_excess(const struct residency *r);
/* The device's bytes that nothing is on, and nothing is promised for. */
uint64_t residency_free_bytes(const struct residency *r);
/* Whether it waits may have changed. */
void residency_rewait(struct residency_member *m);

/* ---- residency_patience.c: who does not do what it was told ---------------------------------- */

/* It is told something: unless it owed something before, its time begins. */
void residency_owes_from(struct residency_member *m, uint64_t now_ns);
/* It has moved so many bytes. */
void residency_worked(struct residency_member *m, uint64_t bytes, uint64_t now_ns);
/* It has answered, or works: if it was stuck, it comes back. */
void residency_show_life(struct residency_member *m, uint64_t now_ns);
void residency_judge_patience(struct residency *r, uint64_t now_ns);
/* Those whose orders the store has become too small for are stopped. */
void residency_stop_starved(struct residency *r);
/* One has answered: what it has not got of the store is there for others. */
void residency_give_up_store(struct residency_member *m);
uint64_t residency_patience_at(const struct residency *r);
