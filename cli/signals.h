/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of a program that waits for another one: what is sent to it is meant for that program.
 *
 * What the terminal sends (SIGINT, SIGQUIT) reaches the program by itself and is only outlived
 * here; what somebody sends to us alone is handed over. What was ignored before stays ignored, for
 * us and for the program (nohup, and jobs in the background of a script).
 */
#pragma once

#include <signal.h>

#include "base/macros.h"

enum { SIGNALS_MAX = 8 };

struct signals {
	sigset_t mask;
	struct sigaction action[SIGNALS_MAX];
};

/* From here on signals wait, until signals_release(). */
void signals_take(struct signals *ret_before);

/* In the program's process: as it was. */
void signals_give_back(const struct signals *before);

/* In ours: they go to `program` (0: nowhere) from now on. */
void signals_release(const struct signals *before, pid_t program);
