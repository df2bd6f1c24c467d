/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells events upwards. A module calls only modules below it, and by these few functions tells
 * modules above it what they must know. Each function stands in the module that is named here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

struct caller;
struct daemon;
struct event;
struct fault;
struct guest;
struct ledger_action;
struct tenant;
struct tenant_device;

/* peers/caller.c */
/* -EMFILE: see door_accept(). */
must_check int caller_accept(struct tenant *t);
/* Answers, and then ends the connection. */
void caller_dismiss(struct caller *c, uint32_t id, uint32_t code, const char *reason);
void caller_close(struct caller *c);

/* peers/words.c */
/* The answers to its asks. */
void words_answer(struct guest *g, const struct ledger_action *action);

/* waits.c */
/* The tenant may wait for memory from now on, hang or be stuck, or no longer. */
void waits_look(struct tenant_device *at);
/* A meted before this one has told of it: the wait that is not over (enum host_wait; 0: there is
 * none), and when a pod was last told that one had begun. */
struct waits_past {
	uint32_t kind;
	uint64_t since_ns, last_ns;
};
void waits_were_told(struct tenant_device *at, const struct waits_past *past);

/* memory/measured.c */
/* A measurement has ended. / The driver does not answer for too long. */
void measure_has_ended(struct daemon *d);
void measure_is_late(struct daemon *d);

/* peers/admin.c */
/* A measurement has ended, or takes too long. */
void admin_measured(struct daemon *d);

/* peers/admin_events.c, state/events_file.c */
/* Something has happened: answers who waits for that. / Keeps it for the next meted. */
void admin_events_happened(struct daemon *d);
void events_file_add(struct daemon *d, const struct event *event);

/* state/recorder.c */
/* What it owes for its time: `time_owed`. */
void recorder_owed(const struct tenant_device *at);

/* time/owed.c */
/* A former meted recorded `time_owed`: before any guest is there; and once all that were are
 * expected. */
void owed_return(struct tenant_device *at);
void owed_return_all(struct tenant_device *at);

/* tenants/tenant.c */
/* Ends the tenant if nothing keeps it. */
void tenant_maybe_end(struct tenant *t);

/* kubernetes.c */
/* A device takes no new tenants, or does again. */
void kubernetes_cordoned(struct daemon *d, uint32_t device);
/* Devices are gone, are back, or, from index `former` on, have come. -errno with a sentence: it
 * serves them only after a restart. */
must_check int kubernetes_divided(struct daemon *d, uint32_t former, struct fault *why);

/* ending.c */
/* Something has left: a user's daemon exits with its last tenant. */
void daemon_maybe_end(struct daemon *d);

/* time/lost.c */
/* Before anything is judged by the time: if meted did not run, tells all who judge. Its own timers
 * show that: one of them is late. */
void lost_look(struct daemon *d);

/* time/schedule.c */
/* Performs all the actions that turns and residency ask for. Called after every event. */
void schedule_pump(struct daemon *d);
/* Whether its guests must report when they are idle may have changed. */
void schedule_listen(struct tenant_device *at, uint64_t now);
/* Every guest has acknowledged that the gate is closed. */
void schedule_drained(struct tenant_device *at);

/* move/move_store.c */
/* Other devices are there, or less of the store is used: each device has its part of it.
 * schedule_pump() follows. */
void move_divided(struct daemon *d);

/* move/move.c */
/* The ledger's figures have changed. */
void move_book_changed(struct daemon *d);
