/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection's structures, for its two files: link.c has what threads call, link_step.c what
 * the agent does. No other file includes this.
 */
#pragma once

#include <stdatomic.h>

#include "guest/clock.h"
#include "guest/futex.h"
#include "guest/link/link.h"
#include "guest/signals.h"
#include "guest/socket.h"
#include "wire/page.h"

enum link_phase {
	LINK_DOWN = 0,
	LINK_HELLO,
	LINK_STATING,
	LINK_UP,
};

enum link_ask_state {
	LINK_ASK_FREE = 0,
	LINK_ASK_OPEN,
	LINK_ASK_ANSWERED,
	LINK_ASK_LOST, /* with its connection */
};

/* A pending request. Its members change with the lock held; `state` is a futex. */
struct link_ask_slot {
	_Atomic uint32_t state; /* enum link_ask_state */
	uint32_t id;
	uint32_t thread;       /* the asking thread ... */
	const void *frame;     /* ... and where on its stack */
	uint64_t credit_asked; /* of a CREDIT_ASK */
	struct wire_process_row *rows;
	size_t max, count;
	int fd; /* + 1; came with the answer */
	struct wire_answer answer;
};

struct link_object {
	struct futex_lock lock; /* of everything here, unless noted otherwise */
	struct socket socket;
	_Atomic uint32_t phase;	     /* enum link_phase; the agent changes it */
	_Atomic uint32_t generation; /* counts how often it came up; a futex */
	_Atomic uint32_t knocks;     /* for threads that wait for it to come up; a futex */
	_Atomic uint64_t nudged_ms;  /* when the agent was last told of a stolen descriptor */
	_Atomic uint32_t unwanted;   /* the daemon no longer wants this process */
	_Atomic uint32_t next_id;
	_Atomic int verdict; /* of joining; a futex: 0 not yet, 1 joined, <0 -errno */
	struct link_ask_slot ask[LINK_ASKS];
	/* What is being written and sent: too large for the stacks of some threads. */
	struct wire_message message;

	/* The agent's own, without the lock. */
	uint64_t deadline_ms; /* of this phase; in `down`, when the next try is due */
	uint64_t give_up_ms;  /* joining */
	int wait_ms;	      /* between two attempts */
	int tries;	      /* joining: daemons that went away after HELLO */
	uint32_t heard_knocks;
	uint32_t hello_id, first_id; /* of the inventories; they are numbered from `first_id` on */
	bool told;	/* the messages between the inventories and their end were sent */
	uint32_t minor; /* the daemon's version */
	uint64_t out;	/* bytes in the store, as stated */
	uint32_t sent;	/* inventories of this transaction that were sent; then the end */
};

extern struct link_object link_;

/* Every signal is blocked: a handler that jumps away would leave the lock held, and a handler
 * that calls us would deadlock. The agent's signals are always blocked. */
static inline void link_lock(struct signals *ret_before)
{
	signals_block(ret_before);
	futex_lock_take(&link_.lock);
}

static inline void link_unlock(const struct signals *before)
{
	futex_lock_give(&link_.lock);
	signals_restore(before);
}

static inline uint64_t link_now_ms(void)
{
	return now_ns() / 1000000;
}

static inline uint32_t link_new_id(void)
{
	uint32_t id;

	do {
		id = (atomic_fetch_add(&link_.next_id, 1) + 1) & 0x7fffffffu;
	} while (id == 0);
	return id;
}

/* HELLO of this process. */
void link_write_hello(struct wire_message *ret_hello);
