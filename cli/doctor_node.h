/* SPDX-License-Identifier: Apache-2.0 */
/* mete doctor on a node of Kubernetes: where the node's files are, and whether it is one. */
#pragma once

#include <limits.h>

#include "cli/doctor.h"

/* A path of the node as it is seen from here: below $METE_HOST in mete's container. */
const char *node_path(const char *path, char ret_path[PATH_MAX]);
/* Whether this is a node, and the user may look. If not, the finding says so. */
bool node_may_look(struct finding *finding);
