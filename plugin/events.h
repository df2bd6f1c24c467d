/* SPDX-License-Identifier: Apache-2.0 */
/* Kubernetes events, for `kubectl describe`. Without an API server these functions do nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct binding;
struct plugin;
struct pod;

enum {
	EVENTS_RATES = 512, /* more pods than a node has */
	EVENTS_ENDS = 16,   /* devices of a tenant, each with a wait of its own */
};

/* How many events a pod has had lately: of the pods, by a hash of their UIDs, that had some last.
 */
struct events_rate {
	uint64_t whose, asked_ns, spent, since_ns;
	uint64_t paired_ns; /* when it was last told of a wait; 0: never */
	uint32_t pair;	    /* the tenant whose wait is not over; 0: none */
	/* When the waits before this meted began whose ends it was told last. */
	uint64_t ended_ns[EVENTS_ENDS];
	uint32_t ends;
};

/* False: the pod has had many lately, or nothing can be sent now. It may be tried again later. */
bool events_container(struct plugin *p, const struct binding *b, const char *reason,
		      const char *message);
void events_pod(struct plugin *p, const struct pod *of, const char *reason, const char *message);
/* Of what begins and ends. At most one beginning in ten minutes of a pod, and an end only after it.
 * False: not now; events_may_begin() says so before there is a message. */
bool events_may_begin(struct plugin *p, const struct pod *of);
bool events_begin(struct plugin *p, const struct pod *of, uint32_t tenant, const char *reason,
		  const char *message);
/* A meted before this one has told it of a beginning then. */
void events_begun(struct plugin *p, const struct pod *of, uint64_t at_ns);
/* `good`: nothing needs to be done. `before_ns`: when it began, if before this meted; 0. False: not
 * now. Asked for again, also by another meted, the end of a wait is not told again. */
bool events_over(struct plugin *p, const struct pod *of, uint32_t tenant, uint64_t before_ns,
		 bool good, const char *reason, const char *message);
void events_node(struct plugin *p, const char *reason, const char *message);
/* The fault is over. */
void events_node_well(struct plugin *p, const char *reason, const char *message);
void events_close(struct plugin *p);
