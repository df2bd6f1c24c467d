/* SPDX-License-Identifier: Apache-2.0 */
/* Charges an allocation in advance, and finds bytes for it if there is no credit left. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/credit/credit.h"

/* Moves bytes from credit to allocated. Returns CUDA_SUCCESS or CUDA_ERROR_OUT_OF_MEMORY. Before it
 * fails, it takes back memory that our own pools do not need. CREDIT_WAIT is CREDIT_ASK while a
 * capture is open. */
must_check CUresult memory_charge(int device, uint64_t bytes, enum credit_how how);

/* The same; returns as credit_take() does. */
must_check int memory_charge_outcome(int device, uint64_t bytes, enum credit_how how);

/* Would the daemon refuse so much more, as far as its page says? */
must_check bool memory_seems_short(int device, uint64_t bytes);

/* CUDA_SUCCESS if the device is the tenant's, or does not exist (the driver refuses that);
 * otherwise the result that the call must return. */
must_check CUresult memory_refuse_device(CUdevice ordinal);

/* Whole blocks. */
uint64_t memory_round(uint64_t bytes);
