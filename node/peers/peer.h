/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to the daemon, from a guest or the CLI: complete messages in and out, bounded.
 *
 *  - A peer that sends an invalid message, more than a frame, or descriptors, is closed.
 *  - A peer is read when its flow has its turn, one message at a time.
 *  - A peer that sends faster than PEER_RATE after a burst of PEER_BURST is not read for a while:
 *    its own sends block, nobody else's.
 *  - A peer that does not read is closed when PEER_BACKLOG bytes wait for it, or earlier if it has
 *    the most of what its flow, or all flows, may leave unread.
 *
 * Embedded in the object that it serves. peer_close() may be called anywhere, even inside a
 * callback and more than once. The loop calls `freed` once, later; it may free the object.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/loop.h"
#include "node/peers/flow.h"
#include "wire/wire.h"

enum {
	PEER_RATE = 20000, /* messages a second */
	PEER_BURST = 4000,
	PEER_BACKLOG = 512 << 10,    /* bytes of memory */
	PEER_BACKLOG_LAST = 4 << 20, /* likewise, for an admin, who requests long lists */
};

struct peer;

struct peer_class {
	void (*message)(struct peer *peer, const struct wire_message *message);
	/* A frame with an unknown code; its id is known. */
	void (*unknown)(struct peer *peer, uint32_t id, uint32_t code);
	/* The peer left, or was closed because of `reason` (an event's name and a sentence;
	 * NULL: it left). Called once, before `freed`, unless peer_close() was called first. */
	void (*gone)(struct peer *peer, const char *reason);
	void (*freed)(struct peer *peer);
};

struct peer_frame;

struct peer {
	const struct peer_class *class;
	struct loop_watch watch; /* its descriptor is ours */
	struct flow_pause pause;
	const char *reason; /* of `failed` */
	uint32_t next_id;
	bool closing, paused, hushed;
	bool seen;     /* the next message, which has no descriptors */
	bool burdened; /* descriptors are left in it */
	struct discarder *discarder;
	bool failed; /* sending failed: it ends in the loop's next iteration */
	uint64_t tokens, filled_ns;
	struct peer_frame *first, **last; /* what could not be sent yet */
	size_t backlog_bytes;
	struct flow_item item; /* of its flow */
	struct list debtor;    /* of the flow */
};

/* The process at the other end, according to the kernel. */
struct peer_identity {
	pid_t pid;
	uid_t uid;
	int pidfd; /* owned by the caller; readable once the process has ended */
};

/* -ESRCH: it has ended already. */
must_check int peer_identify(int fd, struct peer_identity *ret_identity);

/* Takes `fd`, even on failure. */
must_check int peer_init(struct peer *peer, struct loop *loop, struct flow *flow, int fd,
			 const struct peer_class *class);

/* Sends, now or later. A failure closes the peer, but only after the caller has returned: the
 * loop calls `gone`. */
void peer_send(struct peer *peer, const struct wire_message *message);

/* Like peer_send(), with `count` descriptors attached, at most two; only immediately. */
void peer_send_with(struct peer *peer, const struct wire_message *message, const int *fds,
		    unsigned count);

/* The same, unless its messages wait: false, and nothing happens. */
must_check bool peer_try_with(struct peer *peer, const struct wire_message *message, int fd);

/* A new id for an unsolicited message of the daemon. */
uint32_t peer_new_id(struct peer *peer);

/* Frequent answers. */
void peer_refuse(struct peer *peer, uint32_t id, uint32_t code, const char *format, ...)
	printf_like(4, 5);
void peer_refuse_list(struct peer *peer, uint32_t id, uint32_t code, const char *format,
		      va_list arguments) printf_like(4, 0);
void peer_done(struct peer *peer, uint32_t id, uint64_t value);

void peer_close(struct peer *peer);
