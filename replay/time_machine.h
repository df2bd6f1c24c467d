/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by replay/time_world.c and replay/time_guest.c. Times are in ns of the virtual clock. */
#pragma once

#include "replay/time_engine.h"
#include "replay/time_world.h"

/* What can happen at a time. Messages between guest and daemon are allocated when they are
 * needed. */
enum kind {
	EVENT_WORD,
	EVENT_ARRIVAL,
	EVENT_ENGINE,
	EVENT_DAEMON,
	EVENT_SAMPLE,
	EVENT_CHANGE,
	EVENT_JOIN,
	EVENT_LEAVE
};

enum word { WORD_OPEN, WORD_CLOSE, WORD_WANTS, WORD_IDLE, WORD_DRAINED, WORD_DRAINED_WANTS };

struct tenant;

struct event {
	struct turns_node node;
	enum kind kind;
	enum word word;
	struct tenant *tenant;
	struct process *process;
	struct event *next; /* in the list of free events */
};

struct request {
	uint64_t end, arrival;
};

struct process {
	struct time_process at;
	struct tenant *tenant;
	uint64_t arrived;
	struct request *queue;
	size_t first, count, room; /* room: a power of two */
	struct event arrival;
};

struct tenant {
	const struct time_load *load;
	struct turns_tenant turns;
	struct turns_seat seat;
	struct process *processes;
	bool there, open, draining, said_idle, said_wants;
	uint64_t empty_ns, others_at_empty;
	struct event join, leave;
};

struct world {
	const struct time_setup *setup;
	struct time_outcome *out;
	struct turns turns;
	struct turns_device device;
	struct time_engine engine;
	struct tenant *tenants;
	struct turns_heap events;
	struct event engine_event, daemon_event, sample_event, change_event;
	struct event *words; /* free events */
	uint64_t now, random;
	uint32_t change;
	struct tenant *emptied; /* the tenant that ran out of work at emptied_ns
				 * while others wanted to run */
	uint64_t emptied_ns;
	struct tenant *ran;
	bool failed; /* out of memory */
};

/* When the event happens; UINT64_MAX: not any more. */
void time_at(struct world *w, struct event *e, uint64_t time);

/* Sends a message between guest and daemon. */
void time_say(struct world *w, struct tenant *t, enum word word);

/* Appends to the series. false: out of memory, and the run fails. */
bool time_push(struct world *w, struct time_series *s, uint64_t value);

/* A random pause, exponentially distributed. */
uint64_t time_draw_pause(struct world *w, uint64_t mean);

/* Does any of its processes have work, submitted or not? */
bool time_guest_wants(const struct tenant *t);
uint64_t time_guest_served(const struct tenant *t);

/* Its gate opens or closes. */
void time_guest_hear(struct world *w, struct tenant *t, bool open);

/* A request arrives. */
void time_guest_arrive(struct world *w, struct process *p);

/* Gives the process's work to the device, as far as its gate allows. */
void time_guest_put(struct world *w, struct process *p);

/* The running process has reached its mark or its limit, or its slice is over. */
void time_guest_on_engine(struct world *w);
