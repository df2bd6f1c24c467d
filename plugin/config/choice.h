/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several named configurations is a node's: as the config-manager beside NVIDIA's device
 * plugin (v0.20) chooses, by a label of the node. Pure.
 */
#pragma once

#include <stddef.h>

#include "base/fault.h"

#define CHOICE_LABEL	 "nvidia.com/device-plugin.config"
#define CHOICE_FALLBACKS "named,single" /* as that plugin's chart has it */

struct config_choice {
	const char *folder; /* for sentences */
	/* NULL or "": there is none, or it says nothing. */
	const char *value;     /* of the node's label */
	const char *usual;     /* $DEFAULT_CONFIG */
	const char *fallbacks; /* $FALLBACK_STRATEGIES; none: CHOICE_FALLBACKS */
	const char *const *names;
	size_t count;
};

/* *ret_name: one of the names; NULL: the empty configuration. -ENOENT or -EINVAL with a sentence.
 * The strategy "named" takes "default", and then "any", as the GPU Operator's examples have it. */
must_check int config_choose(const struct config_choice *choice, const char **ret_name,
			     struct fault *why);
