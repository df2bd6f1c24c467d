/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of native.h have in common. */
#pragma once

#include "node/daemon.h"
#include "node/memory/native_book.h"
#include "node/memory/native_leaf.h"

struct step {
	struct native_call call;
	int result, unguaranteed; /* -errno of the call with a soft limit, if it was refused */
};

struct native {
	struct daemon *daemon;
	struct loop_timer timer;
	struct loop_work work;
	struct native_book book;
	struct list unknown; /* guests whose group nobody has looked for yet */
	struct step *step;   /* owned: calls that the worker makes */
	uint32_t steps, room;
	bool on;		   /* as the configuration says */
	bool fits[DAEMON_DEVICES]; /* all limits there fit in it together */
	bool stirred;		   /* while the worker was at work */
	bool warned_soft;	   /* the log has a line that no memory is guaranteed */
	int warned[8];		   /* results of which the log has a line */
	char mount[NATIVE_PATH];
};

/* Something has changed: on to what follows from it. */
void native_stir(struct native *n);
/* Makes the calls that are due, on a worker that is not at work. False: some, or all, are to be
 * made later. */
bool native_tell(struct native *n);
