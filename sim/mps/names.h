/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protocol 3 of the stand-in's daemon (driver 615 and newer): servers with names, and namespaces of
 * theirs, each with a folder and a socket of its own and limits for its clients
 * (docs.nvidia.com/deploy/mps, "MPS v3 Interface" and "MPS v3 Namespaces"). What the documents do
 * not say is as NVIDIA has measured it with driver 615 (kai-scheduler/kai-gpu-fractioning, mpsns):
 * limits do not change, and a namespace does not go, while it has clients; only the daemon's user
 * changes anything.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

enum { NAMES_MAX = 128, NAMES_NONE = -1 };

/* A command, "MODULE VERB ...", of this user. Writes its answer; one that begins with '!' says what
 * is wrong. */
void names_command(const char *line, uid_t who, char *answer);

/* Of each namespace's socket; -1: there is no such namespace. */
int names_socket(int name);

/* What a client gets that comes by this namespace's socket, or by the daemon's own. */
void names_join(int name, char *answer);
