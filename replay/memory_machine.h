/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by replay/memory_world.c and replay/memory_guest.c. */
#pragma once

#include "base/least.h"
#include "replay/memory_link.h"
#include "replay/memory_world.h"
#include "replay/time_engine.h"

enum kind {
	EVENT_OPEN,
	EVENT_CLOSE,
	EVENT_WANTS,
	EVENT_IDLE,
	EVENT_DRAINED,
	EVENT_EVICT,
	EVENT_CREDIT,
	EVENT_STOP,
	EVENT_STOPPED,
	EVENT_DROP,
	EVENT_LEFT, /* the guest has unmapped a chunk; a message to the daemon */
	EVENT_MAPPED,
	EVENT_READY, /* the store is prepared */
	EVENT_ARRIVAL,
	EVENT_STEP,
	EVENT_ENGINE,
	EVENT_LINK,
	EVENT_DAEMON,
	EVENT_KINDS
};

struct tenant;

struct event {
	struct turns_node node;
	enum kind kind;
	struct tenant *tenant;
	uint64_t bytes, copied;
	struct event *next; /* in the list of free events */
};

/* A chunk that is being moved. */
struct chunk {
	struct memory_copy copy;
	struct tenant *tenant;
	uint64_t bytes, copied;
};

struct tenant {
	const struct memory_load *load;
	struct memory_tenant *out;
	struct turns_tenant turns;
	struct turns_seat seat;
	struct residency_member member;
	struct time_process at;
	struct event arrival, step;
	bool there, open, draining, said_idle, said_wants, copying, pending_stop;
	uint64_t arrived, burst_ends; /* ns of kernels: all that arrived; the end of the burst */
	uint64_t stalled_ns;	      /* since then it waits for its gate; 0: it does not wait */
	/* What is being moved. */
	uint64_t order, credit, on_device, in_store, ever_out, copied_once, unmap_ns, map_ns;
	uint64_t began_ns; /* the store is prepared for it from then on */
	uint64_t asked;	   /* bytes that it allocates when they are granted */
	/* The state of a recorded load. */
	size_t at_step;
	uint64_t alone_backlog, alone_at_ns, step_work, requests, done_of_step;
};

struct world {
	const struct memory_setup *setup;
	struct memory_outcome *out;
	struct turns turns;
	struct turns_device device;
	struct residency residency;
	struct time_engine engine;
	struct memory_link link;
	struct tenant *tenants;
	struct turns_heap events;
	struct event engine_event, link_event, daemon_event, *free;
	uint64_t now, sets;
	uint64_t moving_since_ns, left_at, came_at; /* a handover's begin; moved until then */
	uint32_t jobs;
	bool failed;
};

/* ---- memory_world.c -------------------------------------------------------------------------- */

void memory_at(struct world *w, struct event *e, uint64_t time);
/* Creates an event. */
void memory_later(struct world *w, struct tenant *t, enum kind kind, uint64_t bytes,
		  uint64_t copied, uint64_t time);
/* Sends a message to the daemon or to the guest. */
void memory_say(struct world *w, struct tenant *t, enum kind kind, uint64_t bytes, uint64_t copied);

/* ---- memory_guest.c -------------------------------------------------------------------------- */
void memory_guest_put(struct world *w, struct tenant *t);
void memory_guest_see_stall(struct world *w, struct tenant *t);
void memory_guest_begin_burst(struct world *w, struct tenant *t);
void memory_guest_hear_gate(struct world *w, struct tenant *t, bool open);
void memory_guest_on_engine(struct world *w);
void memory_guest_request(struct world *w, struct tenant *t);
void memory_guest_allocated(struct tenant *t, uint64_t bytes);
void memory_guest_ask(struct world *w, struct tenant *t, uint64_t bytes);
void memory_guest_step(struct world *w, struct tenant *t);
void memory_guest_copy_out(struct world *w, struct tenant *t);
void memory_guest_map_in(struct world *w, struct tenant *t, uint64_t bytes);
void memory_guest_mapped(struct world *w, struct tenant *t, uint64_t bytes);
void memory_guest_on_link(struct world *w);
