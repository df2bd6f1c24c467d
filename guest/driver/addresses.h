/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which function of the driver is at an address: what symbols_find() answers, the other way round.
 *
 * When the driver is opened, only its addresses are noted, and functions that share one are found.
 * The function of an address, which takes a comparison of names, is found at the first question:
 * most programs ask for few. Any number of threads may ask, and signal handlers, and children of
 * fork(): there is no lock, and all find the same.
 */
#pragma once

#include "guest/driver/symbols.h"

enum {
	ADDRESSES_MAX = 1536, /* symbols of a driver; NVIDIA's have about 700 */
};

/* Forgets everything: before a driver is opened. */
void addresses_clear(void);

/* Notes every function of the object, of which there are ADDRESSES_MAX symbols at most. 0; -1 after
 * reporting two functions at one address that must differ. */
must_check int addresses_take(const struct symbols *symbols);

/* Notes one, for objects that are not searched by symbols_find(). 0; -1 likewise. */
must_check int addresses_add(const void *address, unsigned row);

/* The row of cuda/api.def of the function at this address, or -1. */
int addresses_row(const void *address);
