/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CDI files of the driver as it is, for the strategies cdi-annotations and cdi-cri of NVIDIA's
 * device plugin (v0.20). Vendor, classes and devices have that plugin's names.
 */
#pragma once

#include "plugin/plugin.h"

#define DRIVER_CDI_VENDOR "k8s.device-plugin.nvidia.com"
#define DRIVER_CDI_IMEX	  "/dev/nvidia-caps-imex-channels/channel0"

enum { DRIVER_CDI_CLASSES = 4 }; /* beside "gpu" */

const char *driver_cdi_class(size_t index);  /* "gds" */
const char *driver_cdi_device(size_t index); /* "all" */
/* Do containers get that class's device? */
bool driver_cdi_uses(const struct plugin *p, size_t index);
/* Does the configuration name the IMEX channel, and is it there? */
bool driver_cdi_has_imex(const struct plugin *p);

/* Writes the files, if a strategy needs them. Classes of which this node has no device have none,
 * which is logged; a channel that is required must be there. On failure there is a sentence, and
 * some files may have been written. */
must_check int driver_cdi_settle(struct plugin *p, struct fault *why);
