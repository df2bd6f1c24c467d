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
