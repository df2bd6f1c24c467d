/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meted that stands by: another one serves the node, and this one takes its place when it ends.
 * That one is told to end, and then hands over its sockets: the kubelet's connections and calls
 * wait there until this one serves, and none fails.
 */
#pragma once

#include "plugin/plugin.h"

/* Of who serves: give() and finish() of plugin/host.h. */
must_check int standby_give(struct plugin *p, struct handover_sockets *ret_sockets);
must_check int standby_finish(struct plugin *p, bool given);

/* Goes on with the sockets of who serves. Lent. -errno with a sentence: it does not. */
must_check int standby_inherit(struct plugin *p, const struct handover_sockets *sockets,
			       struct fault *why);
/* Leaves what it has taken over to who serves next, if somebody does. */
void standby_close(struct plugin *p);
