/* SPDX-License-Identifier: Apache-2.0 */
/* The edits that make a container a tenant, as a part of another answer to Allocate. */
#pragma once

#include "plugin/plugin.h"

struct allocate_edits;
struct V1beta1__ContainerAllocateResponse;

enum { ALLOCATE_NAME = 128 };

void allocate_edits_free(struct allocate_edits *edits);
OWNED_POINTER(struct allocate_edits, allocate_edits_free)

/* With CDI the name of a device (*ret_edits is NULL then); without, `row` gets mounts, device files
 * and environment, which belong to *ret_edits. */
must_check int allocate_tenant(const struct serving *s,
			       const struct V1beta1__ContainerAllocateRequest *said,
			       struct allocate_edits **ret_edits, char ret_name[ALLOCATE_NAME],
			       struct V1beta1__ContainerAllocateResponse *row, struct fault *why);
