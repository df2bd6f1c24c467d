/* SPDX-License-Identifier: Apache-2.0 */
/* The UUIDs of a node's GPUs. Pure. */
#pragma once

#include <stdint.h>

#include "sim/machine/settings.h"

/* From the model, the number and METE_SIM_SEED: the same in every run. */
void device_make_uuid(const struct settings *settings, uint32_t number, uint8_t ret_uuid[16]);
