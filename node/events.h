/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What has happened here, for `mete events` and the page: the last EVENTS_MOST events since this
 * meted began, in memory alone. An event is added where it is logged, in words for people.
 *
 * Who makes very many events pushes out his own: once there is no more room, the oldest event of
 * a party that has more than half of all goes before any other. A party is a user; all pods are
 * root's, so each container of a pod is one, with all tenants within it.
 */
#pragma once

#include "core/happened.h"
#include "node/daemon.h"

enum { EVENTS_MOST = 1024, EVENTS_NONE = 0xffffffff /* no device, no owner */ };

struct wire_event_row;

struct event {
	uint64_t number; /* from 1 on */
	uint64_t at_ns;	 /* of the machine's clock */
	uint32_t kind;	 /* enum happened */
	uint32_t tenant; /* 0: not of one */
	uint32_t device, owner;
	uint64_t party;
	char said[]; /* one sentence without its end; behind it events_name() */
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

/* The first event with a higher number, lent until the next one is added; NULL: there is none. */
const struct event *events_after(const struct daemon *d, uint64_t number);
/* Of the tenant; "": not of one. */
const char *events_name(const struct event *event);
/* As the CLI and the page have it. */
void events_row(const struct event *event, struct wire_event_row *ret_row);
void events_free(struct daemon *d);
