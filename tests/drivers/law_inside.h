/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the law driver share. Nothing here leaves the library; tests include law.h.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/prototypes.h"
#include "tests/drivers/law.h"

#define SPECIAL(symbol) __typeof__(symbol) special_##symbol

enum {
	LAW_DEVICES = 2,
	LAW_STREAMS = 256,
	LAW_QUEUE = 4096,
};

struct law_op {
	CUhostFn function;
	void *argument;
	const volatile uint32_t *word; /* wait until *word >= value */
	uint32_t value;
};

struct law_stream {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct law_op queue[LAW_QUEUE];
	uint64_t submitted, completed;
	int ready; /* lock and changed are initialised, once */
	int used, blocking, capturing, ended;
	int device;
};

extern struct law *law_state;
extern struct law_stream law_streams[LAW_STREAMS]; /* the first ones: legacy, of each device */

/* ---- law.c ----------------------------------------------------------------------------------- */

void law_add(uint32_t *counter); /* one more */
void law_reach(void);		 /* calls the test's probe */
int law_device_now(void);	 /* that of the current context */

/* ---- law_stream.c ---------------------------------------------------------------------------- */

void law_streams_forget(void); /* in a child of fork() */
/* A legacy stream starts when it is first named. */
struct law_stream *law_stream_of(CUstream handle);
int law_is_legacy(const struct law_stream *s);
int law_device_of(const struct law_stream *s);
int law_anybody_captures(int blocking_only);
/* Under capture, the call is only counted. */
CUresult law_submit(CUstream handle, struct law_op op);
CUresult law_wait_for(struct law_stream *s);
void law_wait_until(struct law_stream *s, uint64_t tail);
/* Whether some of the first `tail` submissions have not completed; 0: of all submissions. */
int law_is_busy(struct law_stream *s, uint64_t tail);

/* ---- law_event.c ----------------------------------------------------------------------------- */

/* The answer about work that has not completed, unless the test lets it complete. */
CUresult law_unready(void);
