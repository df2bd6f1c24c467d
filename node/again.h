/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meted begins again as it was started: the same process, by execve(). A signal that comes while
 * one meted ends and the next one has not begun to listen is the next one's: it is neither lost nor
 * does it do what it does by default, which would be to kill.
 */
#pragma once

#include "node/daemon.h"

/* Before we end: signals that have come are followed, after which we may be told to end, and those
 * that come from now on wait. */
void again_hold(struct daemon *d);
/* Executes the same program with the same arguments in our place. -errno: that failed. */
must_check int again_begin(char **argv);
/* Signals that a former meted has held come now: those that end us, then all of them. Harmless if
 * none was held. */
void again_listen_to_ends(void);
void again_listen(void);
