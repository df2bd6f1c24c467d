/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two meteds of a node during an update (--stand-by): the later one waits until the earlier one has
 * ended, however it ends, and takes its place. A meted that is told to end connects to the socket
 * of the one that stands by, hands over the kubelet's sockets (base/handover.h), and waits until
 * that connection is closed; then it answers the calls that it has, and ends.
 */
#pragma once

#include "node/daemon.h"

/* Waits for the lock, which another meted has. 0: it is ours. -EBUSY with a sentence: a third one
 * stands by. Does not return when it is told to end. The loop is run, and signals stop it. */
must_check int standby_wait(struct daemon *d, struct fault *why);
/* We are to end: the loop is stopped when the meted that stands by has the sockets and all calls
 * are answered, or that has taken too long. False: the loop is to be stopped now. */
must_check bool standby_precede(struct daemon *d);
/* kubernetes.c: the kubelet has no call and no connection here any more. */
void standby_finished(struct daemon *d);
/* Closes the watches; the loop goes on. */
void standby_close(struct daemon *d);
/* Once the loop has ended. */
void standby_free(struct daemon *d);
