/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library is loaded into a context at its first use there, and takes memory from then on for its
 * code and data. When the library is loaded, guest/residual/module.c puts it into the current
 * context. Calls that name a part of it load it into other contexts; the first such call in each
 * context is measured. If the first use in a context is a launch, meted's regular measurement finds
 * it (docs/decisions/0056).
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "cuda/types.h"

/* Was a library's first use in a context measured? This may be forgotten, and it is then
 * measured again. */
must_check bool libraries_seen(const void *library, CUcontext context);
void libraries_note(const void *library, CUcontext context);

/* A library was unloaded, or this is a child of fork(): its handle may belong to another
 * library. */
void libraries_unloaded(void);
