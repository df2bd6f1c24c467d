/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words for a control daemon, which NVIDIA's program passes on. Protocol 2 is a shell, whose
 * exit status says nothing. Protocol 3, of driver 615 and newer, has a command for each step, a
 * server with a name (MPS_SERVER), and namespaces: each has a folder and limits of its own.
 */
#pragma once

#include <stdbool.h>

#include "core/mps.h"

struct mps_daemon;

#define MPS_SERVER "m" /* it is in each socket's path, which has 107 bytes at most */

enum {
	MPS_ROOT_NAMES = 34, /* the longest root below which a namespace's socket has a path */
};

struct mps_protocol {
	const char *version;
	/* Sets the words and the input of its run; the program itself is the first word. */
	void (*say)(struct mps_daemon *daemon, enum mps_command command);
	/* The command that has run went well, as its output says. */
	bool (*heard)(const struct mps_daemon *daemon);
};

extern const struct mps_protocol mps_protocol_older, mps_protocol_newer;
/* A namespace of the newer one: it is asked for, made, limited and deleted as a daemon is. */
extern const struct mps_protocol mps_protocol_namespace;
