/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of MIG that are made for claims: kube-scheduler gives a claim a place (a device of
 * ResourceSlices), and the part is made there before the claim is prepared. */
#pragma once

#include <cjson/cJSON.h>

#include "plugin/nvidia/parts.h"

struct dra;

/* The places of the claim where a part is still to be made, into `ask`. None if the claim is
 * another one or has no devices, which preparing it says. */
void places_find(const struct dra *dra, const cJSON *object, const char *uid,
		 struct parts_ask *ask);

/* Is the device a part of ours that no claim has, while none is made any more? The thread may be
 * removing it just now, and would not make it anew. */
bool places_goes(const struct dra *dra, uint32_t device);
