/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This node in the API server. Its labels select among the configuration's `nodes`. With opaque ids
 * its status has the sums of memory and time that mete's scheduler shares out. If the configuration
 * wants them, it has labels about its GPUs.
 */
#pragma once

#include "plugin/plugin.h"

must_check int nodes_open(struct plugin *p, struct nodes **ret_nodes, struct fault *why);
/* At an orderly end: removes mete's own annotation that the node's GPUs are mete's. False: nothing
 * was requested; otherwise left() follows soon, and the request must not be dropped before. NULL:
 * false. */
bool nodes_leave(const struct nodes *nodes,
		 void (*left)(void *owner, int status, const char *problem, const cJSON *object));
/* NULL: does nothing. */
void nodes_close(struct nodes *nodes);
/* The devices or their health have changed: updates the sums in the node's status. NULL: does
 * nothing. */
void nodes_changed(struct nodes *nodes);
/* Whether its labels have been seen. NULL: no. */
bool nodes_known(const struct nodes *nodes);
/* Rereads the configuration for the current labels. NULL: there are none. */
void nodes_reload(struct nodes *nodes, struct plugin *p);
