/* SPDX-License-Identifier: Apache-2.0 */
/* mete sim: the simulator describes itself (sim/ is not linked into the product's programs). */
#include <string.h>

#include "cli/cli.h"
#include "cli/driver.h"

int sim_main(const struct cli_call *call)
{
	char program[PATH_MAX + 16];
	struct driver driver;
	struct fault why;

	if (call->argc)
		return cli_complain(call, CLI_USAGE, "'%s': sim takes no arguments", call->argv[0]);
	if (driver_find(&driver, &why) < 0)
		return cli_fail(call, 1, &why);
	if (!driver.simulated)
		return cli_complain(call, 1, "%s is a real driver: there is nothing simulated here",
				    driver.cuda);
	snprintf(program, sizeof(program), "%s/../mete-sim", driver.folder);
	/* It looks at the simulated node through that same driver's libraries. */
	if (setenv("METE_DRIVER", driver.folder, 1) != 0)
		return cli_complain(call, 1, "out of memory");
	execl(program, program, cli_value(call, "settings") ? "--settings" : NULL, (char *)NULL);
	return cli_complain(call, 1, "%s: %s", program, strerror(errno));
}
