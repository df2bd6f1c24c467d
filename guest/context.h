/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of class CONTEXT. What contexts, modules and libraries take of a device's memory is not
 * known before it is measured: the daemon is asked before a context is made (it reserves an
 * estimate) and told whenever something of the kind came or went (it measures then).
 */
#pragma once

#include "cuda/types.h"

/* Tells the daemon to measure the residual of a device again: a module or the like came or went.
 * -1: nothing to tell. */
void context_settle(int device);
/* Likewise, of all devices: on which it was is not known. */
void context_settle_all(void);

/* In a child of fork(): nobody makes a primary context. */
void context_forget(void);

/* In a child of fork(): nobody loads a module. */
void module_forget(void);
