/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has happened here, for `mete events` and the page: the last EVENTS_MOST events, also of the
 * meteds before this one (node/state/events_file.h). An event is added where it is logged, in words
 * for people.
 *
 * A user who makes very many events pushes out his own (core/fair.h). Pods are all root's: there
 * the user is the pod's namespace. A tenant counts with all that are within it.
 */
#pragma once

#include "core/fair.h"
#include "core/happened.h"
#include "node/daemon.h"

enum { EVENTS_MOST = FAIR_MOST, EVENTS_NONE = 0xffffffff /* no device, no owner */ };

struct wire_event_row;

struct event {
	uint64_t number; /* from 1 on; a later one is higher, also after a restart */
	uint64_t at_ns;	 /* of the machine's clock */
	uint32_t kind;	 /* enum happened */
	uint32_t tenant; /* 0: not of one */
	uint32_t device, owner;
	struct fair_part whose;
	const char *name; /* of the tenant; "": not of one */
	char said[];	  /* one sentence without its end; the name is behind it */
};

void events_tenant(const struct tenant *t, enum happened kind, const char *format, ...)
	printf_like(3, 4);
/* The same, on one of its devices. */
void events_at(const struct tenant_device *at, enum happened kind, const char *format, ...)
	printf_like(3, 4);
void events_device(struct daemon *d, uint32_t device, enum happened kind, const char *format, ...)
	printf_like(4, 5);
/* Of meted itself. */
void events_meted(struct daemon *d, enum happened kind, const char *format, ...) printf_like(3, 4);

/* We begin. A meted that comes and goes with each `mete run` says so only where it found tenants:
 * their meted has ended. */
void events_began(struct daemon *d);

/* Of a meted before this one. Its numbers come before those that are given out from now on: an
 * event whose number is no higher than the last one's, or none that we could give out, is left out.
 */
void events_bring_back(struct daemon *d, const struct event *like, const char *said);

/* The first event with a higher number, lent until the next one is added; NULL: there is none. */
const struct event *events_after(const struct daemon *d, uint64_t number);
/* As the CLI and the page have it. */
void events_row(const struct event *event, struct wire_event_row *ret_row);
void events_free(struct daemon *d);
