/* SPDX-License-Identifier: Apache-2.0 */
/* This node's labels of GPU feature discovery (features.h). */
#pragma once

#include "kube/json.h"
#include "plugin/plugin.h"

/* An object of labels, or NULL: the configuration wants none, there is no whole GPU, or no
 * memory. */
cJSON *node_features(const struct plugin *p);
/* Does the node have all of them? The time of the labels does not count. `wanted` NULL: yes. */
bool node_features_shown(const cJSON *wanted, const cJSON *labels);

/* NVIDIA's own feature discovery may write the same labels, and other values: then two programs
 * would change the node for ever. All zero: none has been noticed. */
struct features_rival {
	cJSON *wanted;	 /* owned: the labels that were wanted last */
	bool shown;	 /* the node has had them since another program wrote */
	uint32_t undone; /* how often another program has changed them */
	bool yields;	 /* it is left to them, until something else is wanted */
};

/* The node's labels are these now. True: from now on they are left to the other program, and
 * `ret_what` says so. A program that only removes labels is no rival. */
must_check bool features_rival_look(struct features_rival *rival, const cJSON *wanted,
				    const cJSON *labels, struct fault *ret_what);
void features_rival_done(struct features_rival *rival);
