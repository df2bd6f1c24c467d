/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread does to the parts of GPUs that are made when pods need them: reads how GPUs are
 * divided, makes parts, and removes those that nobody has. It touches nothing but its job.
 *
 * The record says which parts are ours, by their places. A part is written down before it is made,
 * and struck out when it is gone: who is killed in between finds it at the next start. Parts that
 * are not in it are never touched.
 */
#pragma once

#include "mig/gpu.h"
#include "plugin/kubelet/ids.h"

enum {
	PARTS_ROWS = 64,
	PARTS_PATH = 512,
};

struct parts_row {
	char id[IDS_BYTES]; /* of its place: mig/place.h */
	bool busy;	    /* a container has it: it stays */
	bool stays;	    /* idle, and could not be removed: a process is there */
	uint64_t given_ns;  /* when it was given to one; 0: not by this meted */
};

struct parts_state {
	uint32_t gpus;
	struct mig_gpu *gpu; /* malloc() */
	uint32_t rows;	     /* ours */
	struct parts_row row[PARTS_ROWS];
};

struct parts_job {
	const char *driver_folder; /* NULL: the loader finds it */
	char record[PARTS_PATH];
	uint32_t wants; /* parts at these places */
	char want[PARTS_ROWS][IDS_BYTES];
	/* A look: what is ours and nobody's goes, and a part that cannot be made or removed does
	 * not keep the others. */
	bool sweeps;
	/* In: the rows. Out, unless r is negative and nothing could be read: all of it. */
	struct parts_state state;
	bool read, changed;
	uint32_t stuck; /* idle ones of ours that the driver keeps: a process is there */
	int r;		/* 0, or -errno with the sentence: not all that is wanted is there */
	struct fault why;
};

void parts_work(struct parts_job *job);

/* The row of that place; NULL: the part is not ours. */
struct parts_row *parts_row(struct parts_state *state, const char *id);

/* Likewise, of a part that is there. */
const struct parts_row *parts_row_of(const struct parts_state *state, const struct mig_gpu *gpu,
				     const struct mig_part *part);

/* Of a part that is there: is it ours, has nobody got it, and can it be removed? */
bool parts_goes(const struct parts_state *state, const struct mig_gpu *gpu,
		const struct mig_part *part);

/* Which of the GPU's parts make room. */
void parts_find_going(const struct parts_state *state, const struct mig_gpu *gpu,
		      bool ret_goes[MIG_PARTS_MAX]);

/* Rows of an earlier meted. A record that cannot be read, or that somebody has written to, has
 * none beyond what is understood. */
void parts_recall(const char *path, struct parts_state *state);
