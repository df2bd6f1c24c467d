/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each tenant last submitted work, for programs that end idle notebooks. A guest's fast path
 * keeps no clock: every few seconds each guest is asked to count what it has submitted, and the
 * next round compares. So the figure is late by up to two rounds. It is only kept if somebody wants
 * to know.
 */
#pragma once

#include "node/daemon.h"

struct launches {
	struct daemon *daemon; /* NULL: it was not opened */
	struct loop_timer timer;
};

must_check int launches_open(struct launches *l, struct daemon *d);
/* The struct must live until the loop has ended. */
void launches_close(struct launches *l);
/* How long ago; 0: not known. */
uint64_t launches_ago(const struct tenant *t);
