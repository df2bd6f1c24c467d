/* SPDX-License-Identifier: Apache-2.0 */
/* mete doctor on a node of Kubernetes: whether this machine is one, and where its files are. */
#pragma once

#include <limits.h>

#include "cli/doctor.h"

/* The path at which a file of the node is reached from here: below $METE_HOST in mete's container.
 */
const char *node_path(const char *path, char ret_path[PATH_MAX]);
/* The same for files of the kubelet and of meted: under their own path, as in meted's container, or
 * else as node_path(). */
const char *node_kubelet_path(const char *path, char ret_path[PATH_MAX]);
/* Whether this is a node, and the user may read its files. If not, the finding says so. */
bool node_may_read(struct finding *finding);
