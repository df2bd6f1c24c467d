/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the simulated devices are linked: METE_SIM_LINKS, in the words of `nvidia-smi topo -m`:
 * "0-1=NV4,0-2=PIX+NV1". Pairs that are not named are linked as the models say: their NVLinks lead
 * to a switch that all share, and on PCI they are on one NUMA node.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/macros.h"

enum { LINKS_DEVICES = 64, LINKS_LEVEL_USUAL = 40 };

struct links {
	uint8_t level[LINKS_DEVICES][LINKS_DEVICES];   /* nvmlGpuTopologyLevel_t */
	uint8_t nvlinks[LINKS_DEVICES][LINKS_DEVICES]; /* that lead from one to the other */
	bool given;
};

/* `text`: NULL is "". -EINVAL: `why` has what is accepted. */
must_check int links_read(const char *text, unsigned devices, struct links *ret_links,
			  struct fault *why);
