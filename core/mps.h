/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides what is done about an MPS control daemon (NVIDIA's nvidia-cuda-mps-control), of a GPU or
 * of a container, so that it runs while it is wanted, and leaves nothing behind when it is not. The
 * caller runs one command at a time, as mps_next() says, and reports its outcome. Pure: events and
 * time in, commands out.
 *
 * Nobody tells whether a daemon runs: a former meted's may, and one may have been killed. Therefore
 * everything begins with a question. That a daemon is ready is an answer, too: none is assumed.
 *
 * Laws, tested by tests/unit/test_mps_always.c:
 *  1. there is one command at a time, and none before mps_deadline();
 *  2. a daemon is started only where the GPU's compute mode was set, and nobody answered the last
 *     question: there are never two;
 *  3. it is ready only if it has answered and has taken its limits since it was started, since its
 *     process was seen to end, and since the limits changed;
 *  4. the compute mode is set back only if nobody answered the last question: a daemon without
 *     an exclusive GPU would let programs past it, without limits;
 *  5. where commands succeed, it is ready 6 commands after it is wanted, and everything is undone 6
 *     commands after it is wanted no more;
 *  6. a command that failed is not repeated at once: pauses grow up to MPS_PAUSE_MOST_NS. A daemon
 *     that ends soon after each start is started as seldom;
 *  7. what a former meted has left is not undone before it was asked for a second: the daemon may
 *     just have been started, and be about to listen;
 *  8. where nothing is wanted and everything is undone, nothing is due any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

#define MPS_ASK_NS	  (UINT64_C(10) * 1000000000) /* of ask_ns, at first */
#define MPS_PAUSE_NS	  (UINT64_C(50) * 1000000)    /* after a first failure */
#define MPS_PAUSE_MOST_NS (UINT64_C(30) * 1000000000)
#define MPS_STEADY_NS	  (UINT64_C(60) * 1000000000) /* so long ready: failures are forgotten */

enum mps_command {
	MPS_NOTHING,
	MPS_MODE,   /* the GPU's compute mode becomes exclusive: one process has it, MPS's server.
			Of a container's own daemon: it is recorded, and the mode is the usual one */
	MPS_ASK,    /* whether a control daemon answers */
	MPS_START,  /* a control daemon */
	MPS_LIMIT,  /* tell it the limits of its clients */
	MPS_QUIT,   /* ask it to end */
	MPS_UNMODE, /* the compute mode becomes what it usually is; of a container's own daemon:
			nothing is left of it */
};

/* Of one daemon. The caller owns it. */
struct mps {
	/* For reading. */
	bool wanted;
	bool ready;	       /* containers may be given the GPU */
	bool marked;	       /* the mode was set, or it is being set, and was not set back */
	enum mps_command runs; /* the command that is under way */

	bool moded;	 /* the mode was set since it is wanted */
	bool answers;	 /* the last question was answered, and nothing has happened since */
	bool asked;	 /* `answers` is known */
	bool limited;	 /* and has the limits */
	bool lost;	 /* its process ended while a command was under way */
	bool stale;	 /* the wish, or the limits, changed meanwhile */
	uint32_t waits;	 /* questions that a daemon that was just started has not answered */
	uint32_t doubts; /* likewise one that a former meted may have started */
	uint32_t failures;
	uint64_t due_ns, ready_ns;
	uint64_t ask_ns; /* between two questions to one that is ready: the caller may change it */
};

/* `marked`: a former meted has set the compute mode, and perhaps left a daemon. */
void mps_init(struct mps *m, bool marked, uint64_t now_ns);

void mps_want(struct mps *m, bool wanted, uint64_t now_ns);

/* The limits are others now. Clients that run keep what they have: so MPS has it. */
void mps_limits(struct mps *m, uint64_t now_ns);

/* The daemon's process has ended. */
void mps_gone(struct mps *m, uint64_t now_ns);

/* The command to run now, which then is under way until mps_did(); MPS_NOTHING: none. */
enum mps_command mps_next(struct mps *m, uint64_t now_ns);

/* It succeeded or failed. Of MPS_ASK: somebody answered. */
void mps_did(struct mps *m, bool well, uint64_t now_ns);

/* When to call mps_next(); UINT64_MAX: not before something happens. */
uint64_t mps_deadline(const struct mps *m);
