/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meted that stands by: another one serves the node, and this one takes its place when it ends.
 * Beforehand it is registered with the kubelet, so that a claim that is to be prepared in between
 * waits, and does not fail.
 */
#pragma once

#include "plugin/plugin.h"

/* Who serves is about to end. 1: the host is told when the kubelet has answered; 0: there is
 * nothing to do. */
must_check int standby_succeed(struct plugin *p);
/* Leaves what it has registered to who serves next, if somebody does. */
void standby_close(struct plugin *p);
