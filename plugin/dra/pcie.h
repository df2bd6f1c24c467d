/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the PCIe root that a device is below: drivers of other kinds of devices publish it, too, so
 * that a claim can ask for a GPU and a network card that are near to each other. */
#pragma once

#include "base/macros.h"

enum { PCIE_ROOT = 24 };

/* "pci0000:16" of sysfs' ".../devices/pci0000:16/0000:16:01.0/..."; "": there is none. Pure. */
void pcie_root_in(const char *link, char ret_root[PCIE_ROOT]);

/* From /sys below `root`; `pci`: as NVML has it. "": unknown. */
void pcie_root(const char *root, const char *pci, char ret_root[PCIE_ROOT]);
