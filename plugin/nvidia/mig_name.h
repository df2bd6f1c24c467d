/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a part of a GPU is called: its profile, as the driver has it in the part's name ("NVIDIA
 * H100 80GB HBM3 MIG 1g.10gb"), and what NVIDIA's device plugin makes of it. No profile is known
 * here. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum { MIG_NAME = 56 }; /* of a resource without its domain, with its NUL */

/* "1g.10gb+me", in the name itself; NULL: it is not the name of a part. */
const char *mig_name_profile(const char *model);

/* "mig-1g.10gb.me". False: it is no part, or has a part of a GPU instance's processors alone
 * (1c.3g.40gb), which that plugin does not offer; then "mig-". */
bool mig_name_resource(const char *model, char ret_name[MIG_NAME]);
