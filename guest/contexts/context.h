/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of class CONTEXT. The memory that contexts, modules and libraries take is unknown until
 * it is measured. The guest asks the daemon before a context is created (the daemon reserves an
 * estimate), and tells it whenever something of this kind came or went (the daemon then measures).
 */
#pragma once

#include "cuda/types.h"

/* Tells the daemon to measure the residual of a device again: a module or the like came or went.
 * -1: nothing to tell. */
void context_settle(int device);
/* The same for all devices, if the device is unknown. */
void context_settle_all(void);

/* Something came that cannot be unloaded again. Returns after the daemon has measured it, and has
 * recalled the unused credit that it takes the place of. Not part of a move. */
void module_came(int device);
