/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver of one GPU that MIG divides into up to seven parts with a slice each, in place of
 * mig/nvml.c. It refuses what it is told to.
 */
#pragma once

#include "mig/nvml.h"

#define MIG_DRIVER_ID "GPU-1:1g.10gb:" /* then the place */

enum { MIG_DRIVER_PLACES = 7, MIG_DRIVER_NOWHERE = 99 };

/* Places; MIG_DRIVER_NOWHERE: none. */
struct mig_nvml {
	struct mig_gpu gpu;
	bool silent;	  /* it does not answer */
	uint32_t broken;  /* its compute instance cannot be made, nor its GPU instance destroyed */
	uint32_t lasting; /* cannot be destroyed */
	uint32_t used;	  /* a process is there */
	bool unsaid;	  /* it does not say on which one */
};

extern struct mig_nvml mig_driver;

/* A GPU without parts, which refuses nothing. */
void mig_driver_begin(void);
