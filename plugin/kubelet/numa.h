/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the NUMA node that a device is near to; the kubelet places a container's CPUs there. */
#pragma once

#include "base/macros.h"

/* Converts NVML's "00000000:3B:00.0" to sysfs' "0000:3b:00.0". -EINVAL: it is not a PCI address.
 * Pure.
 */
must_check int numa_name(const char *pci, char ret_name[24]);

/* From /sys below `root`; -1: unknown, or the machine has only one NUMA node. */
int numa_node(const char *root, const char *pci);
