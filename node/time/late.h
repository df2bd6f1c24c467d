/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate that closes for memory to leave, and that nobody waits for who would run: as long as its
 * processes get no processor, a late drain says nothing of the work. See decisions/0151.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

struct daemon;
struct tenant_device;

/* Its gate has begun to close. */
void late_begins(struct tenant_device *at);

/* Is it to be looked at again later, instead of being judged now? */
must_check bool late_is_excused(struct tenant_device *at, uint64_t now_ns);

/* Tells `judge` of those whose time has come. */
void late_tick(struct daemon *d, uint64_t now_ns,
	       void (*judge)(struct tenant_device *at, uint64_t now_ns));
