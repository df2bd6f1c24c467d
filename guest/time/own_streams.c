/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/own_streams.h"

#include <string.h>

#include "guest/futex.h"
#include "guest/process/parts.h"
#include "guest/signals.h"
#include "guest/time/presence.h"

enum { USERS = 64 };

/* An entry stays when its thread ends, as that ends no work: it is not known then what the stream
 * has, since the next thread with this slot submits. */
struct user {
	uint32_t thread; /* 0: a free place */
	CUcontext context;
	const struct presence_slot *slot;
	uint64_t submissions; /* of the slot, when it was known what is in the stream */
	bool known;
};

static struct {
	struct futex_lock lock; /* of the following, with all signals blocked */
	struct user user[USERS];
	bool lost; /* one for which there was no room */
} own;

uint32_t own_streams_thread(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static void lock(struct signals *ret_before)
{
	signals_block(ret_before);
	futex_lock_take(&own.lock);
}

static void unlock(const struct signals *before)
{
	futex_lock_give(&own.lock);
	signals_restore(before);
}

/* With the lock held. NULL: there is no room. */
static struct user *user_of(CUcontext context, uint32_t thread)
{
	struct user *free_ = NULL;

	for (uint32_t i = 0; i < USERS; i++) {
		struct user *u = &own.user[i];

		if (u->thread == thread && u->context == context)
			return u;
		if (!u->thread && !free_)
			free_ = u;
	}
	if (free_)
		*free_ = (struct user){.thread = thread, .context = context};
	own.lost |= !free_;
	return free_;
}

static void note(CUcontext context, bool known)
{
	const struct presence_slot *slot = guest_slot;
	uint32_t thread = own_streams_thread();
	struct signals before;
	struct user *u;

	if (!context)
		return;
	lock(&before);
	u = user_of(context, thread);
	if (u) {
		u->slot = slot;
		u->submissions = presence_slot_submissions(slot);
		u->known = known;
	}
	unlock(&before);
}

void own_streams_used(CUcontext context)
{
	note(context, false);
}

void own_streams_known(CUcontext context)
{
	note(context, true);
}

static bool is_unchanged(const struct user *u)
{
	return u->known && u->submissions == presence_slot_submissions(u->slot);
}

bool own_streams_rest(CUcontext context, enum own_stream (*state)(CUcontext, uint32_t thread),
		      bool *ret_stands)
{
	struct signals before;
	bool rest;

	lock(&before);
	rest = !own.lost;
	for (uint32_t i = 0; i < USERS && rest; i++) {
		const struct user *u = &own.user[i];
		enum own_stream is;

		if (!u->thread || u->context != context)
			continue;
		is = state(context, u->thread);
		*ret_stands |= is == OWN_STANDS;
		rest = is == OWN_STANDS || (is == OWN_IS_EMPTY && is_unchanged(u));
	}
	unlock(&before);
	return rest;
}

void own_streams_context_leaves(CUcontext context)
{
	struct signals before;

	lock(&before);
	for (uint32_t i = 0; i < USERS; i++)
		if (own.user[i].context == context)
			own.user[i] = (struct user){.thread = 0};
	unlock(&before);
}

void own_streams_forget(void)
{
	memset(&own, 0, sizeof(own));
}
