/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of a program that waits for another one: they are meant for that other program.
 *
 * The terminal's signals (SIGINT, SIGQUIT) reach the program by themselves, and are only survived
 * here; a signal that is sent to us alone is passed on. Signals that were ignored before stay
 * ignored, for us and for the program (nohup, and jobs in the background of a script).
 */
#pragma once

#include <signal.h>

#include "base/macros.h"

enum { SIGNALS_MAX = 8 };

struct signals {
	sigset_t mask;
	struct sigaction action[SIGNALS_MAX];
};

/* Blocks the signals until signals_release(). */
void signals_take(struct signals *ret_before);

/* In the program's process: restores the former state. */
void signals_give_back(const struct signals *before);

/* In our process: from now on they go to `program` (0: nowhere). */
void signals_release(const struct signals *before, pid_t program);
