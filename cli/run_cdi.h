/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mete run --cdi`: while the program runs, containers may have its share, too, as the CDI device
 * mete.dev/share=NAME. Containers are started by an engine's daemon, not by the program: they
 * cannot inherit the share, and get it by a file that container runtimes read. Decision 124.
 */
#pragma once

#include "base/fault.h"
#include "cli/cli.h"
#include "cli/driver.h"
#include "wire/wire.h"

struct run_cdi {
	const char *folder, *name; /* borrowed from the command line; NULL: nothing was written */
};

/* Checks the options of the command line. Fails with a sentence about them. */
must_check int run_cdi_check(const struct cli_call *call, struct fault *why);

/* Writes the file for the tenant that was made. Does nothing without --cdi. The tenant's devices
 * are those of CUDA_VISIBLE_DEVICES, which visible_show() has set. -errno: no file is there. */
must_check int run_cdi_write(const struct cli_call *call, const struct driver *driver,
			     const struct wire_tenant_made *made, struct run_cdi *ret_cdi,
			     struct fault *why);

/* Removes it, once. Containers that have started keep what they were given. */
void run_cdi_remove(struct run_cdi *cdi);
static inline void run_cdi_remove_owned(struct run_cdi *cdi)
{
	run_cdi_remove(cdi);
}
