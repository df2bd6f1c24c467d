/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library is in a context when it was first used there, and takes memory from then on: its code
 * and its data. At its load it is put into the current context (guest/module.c); into further ones
 * it comes by the calls that name something of it. The first of them in a context is measured. One
 * whose first use in a context is a launch is found when meted looks (docs/decisions/0056).
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "cuda/types.h"

/* Was a library's first use in a context measured? It may be forgotten, and measured again. */
must_check bool libraries_seen(const void *library, CUcontext context);
void libraries_note(const void *library, CUcontext context);

/* One was unloaded, or this is a child of fork(): its handle may be another library's. */
void libraries_unloaded(void);
