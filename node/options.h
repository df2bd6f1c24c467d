/* SPDX-License-Identifier: Apache-2.0 */
/* meted's command line. Refuses what it does not know, with one sentence. */
#pragma once

#include "base/fault.h"
#include "base/log.h"

struct options {
	int user, system, help, version;
	const char *dir;    /* borrowed from argv; NULL: the usual place */
	const char *driver; /* borrowed from argv; NULL: the loader's */
	uint64_t reserve_bytes, context_bytes, grace_ns;
	enum log_level log_level;
};

must_check int options_parse(int argc, char **argv, struct options *ret_options, struct fault *why);

void options_help(FILE *out);
