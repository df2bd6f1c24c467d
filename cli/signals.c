/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/signals.h"

#include <stdbool.h>

static const int handled[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
			      SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};

_Static_assert(ARRAY_SIZE(handled) == SIGNALS_MAX, "room for what was there before");

static volatile sig_atomic_t arg_program; /* for the handler */

static void hand_over(int signal, siginfo_t *from, void *context)
{
	/* Above 0: sent by the kernel, to the terminal's whole foreground group. */
	bool terminal = (signal == SIGINT || signal == SIGQUIT) && from->si_code > 0;
	int saved = errno;

	(void)context;
	if (arg_program > 0 && !terminal)
		kill(arg_program, signal);
	errno = saved;
}

void signals_take(struct signals *ret_before)
{
	struct sigaction ours = {.sa_sigaction = hand_over, .sa_flags = SA_SIGINFO};
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &ret_before->mask);
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++) {
		sigaction(handled[i], NULL, &ret_before->action[i]);
		if (ret_before->action[i].sa_handler != SIG_IGN)
			sigaction(handled[i], &ours, NULL);
	}
}

void signals_give_back(const struct signals *before)
{
	for (size_t i = 0; i < ARRAY_SIZE(handled); i++)
		sigaction(handled[i], &before->action[i], NULL);
	sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

void signals_release(const struct signals *before, pid_t program)
{
	arg_program = program;
	sigprocmask(SIG_SETMASK, &before->mask, NULL);
}
