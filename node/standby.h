/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two meteds of a node during an update (--stand-by): the later one waits until the earlier one has
 * ended, however it ends, and takes its place. A meted that is told to end lets the other one get
 * ready first: it connects to the socket of the one that stands by, and waits until that connection
 * is closed.
 */
#pragma once

#include "node/daemon.h"

/* Waits for the lock, which another meted has. 0: it is ours. -EBUSY with a sentence: a third one
 * stands by. Does not return when it is told to end. The loop is run, and signals stop it. */
must_check int standby_wait(struct daemon *d, struct fault *why);
/* We are to end: the loop is stopped when the meted that stands by is ready, or has taken too long.
 * False: the loop is to be stopped now. */
must_check bool standby_precede(struct daemon *d);
/* kubernetes.c: the kubelet knows the meted that stands by. / No call of the kubelet is being
 * answered. */
void standby_succeeded(struct daemon *d);
void standby_finished(struct daemon *d);
/* Closes the watches; the loop goes on. */
void standby_close(struct daemon *d);
/* Once the loop has ended. */
void standby_free(struct daemon *d);
