/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of parts.h share. */
#pragma once

#include "plugin/nvidia/parts.h"
#include "plugin/nvidia/parts_work.h"

struct parts {
	struct plugin *plugin;
	parts_each_claimed *claimed;
	struct loop_work work;
	struct parts_state now;	  /* as the thread last left it */
	struct parts_job job;	  /* the thread's while it works */
	struct list asks;	  /* struct parts_ask, first come first served */
	struct parts_ask *making; /* for which the thread works; NULL: none, or it is forgotten */
	bool begun;		  /* the driver has been asked */
	bool late;		  /* it has not answered: looks ask again */
	bool looks;		  /* a look is due */
	bool restores;		  /* the thread's wants are all that containers have from before */
	bool restored;		  /* they have been made, as far as there was room */
	uint32_t stuck;		  /* that was told */
	char problem[512];	  /* that was told; "": none */
	char unnamed[512];	  /* likewise, of names for profiles */
	bool rests;		  /* nothing is begun any more */
	bool left;		  /* closed: the thread frees it */
};

/* It is wanted no more; what else waits is not begun. */
void parts_forget(struct parts_ask *ask);
/* Of a part that is there, by its UUID; -1: meted does not have it (yet). */
int parts_known(const struct parts *parts, const struct mig_part *part);
