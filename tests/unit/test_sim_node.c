/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a meted serves the simulated machine that this program is on. */
#include "cli/sim_node.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

/* A process with that METE_SIM_DIR, or no environment at all, which waits to be killed. */
static pid_t start_on(const char *folder)
{
	char variable[64];
	int ready[2];
	pid_t pid;

	snprintf(variable, sizeof(variable), "METE_SIM_DIR=%s", folder ? folder : "");
	assert_return_code(pipe2(ready, O_CLOEXEC), errno);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execle("/bin/sleep", "sleep", "infinity", NULL,
		       (char *[]){folder ? variable : NULL, NULL});
		_exit(127);
	}
	assert_return_code(pid, errno);
	close(ready[1]);
	/* Ends when exec has closed the other end: from then on the environment is the new one. */
	assert_int_equal(read(ready[0], &(char){0}, 1), 0);
	close(ready[0]);
	return pid;
}

TEST(a_meted_on_another_simulated_machine_is_refused)
{
	pid_t pid = start_on("/mete-elsewhere");
	struct fault why;

	setenv("METE_SIM_DIR", "/mete-here", 1);
	assert_int_equal(sim_node_check((uint32_t)pid, &why), -EXDEV);
	setenv("METE_SIM_DIR", "/mete-elsewhere", 1);
	assert_int_equal(sim_node_check((uint32_t)pid, &why), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* As that of a process that ends while its environment is read. */
TEST(a_meted_that_shows_no_environment_is_not_refused)
{
	pid_t pid = start_on(NULL);
	struct fault why;

	setenv("METE_SIM_DIR", "/mete-here", 1);
	assert_int_equal(sim_node_check((uint32_t)pid, &why), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
