/* SPDX-License-Identifier: Apache-2.0 */
/* The sentence in the status of a pod that waits for a GPU, with the numbers. Pure. */
#pragma once

#include "plugin/sums/amounts.h"

/* -EAGAIN. `gpus`: how many are shared out. */
int say_refusal(const struct seating_pod *pod, const struct amounts_names *names, uint32_t gpus,
		struct fault *why);
