/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                        mig/export.h
 * What the GPUs are, in the format of mig-parted: a file from which they can be made so again.
 * GPUs that are alike share a row; `devices: all` where these are all GPUs of their models; and
 * models are named only where there are several.
 */
#pragma once

#include "mig/nvml.h"

/* `label`: the configuration's name. */
must_check int mig_export(const struct mig_nvml *nvml, FILE *out, const char *label, bool json,
			  struct fault *why);
