/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What devices' boards say of themselves: how busy, how warm, how hungry for power. The driver is
 * asked while somebody looks at the page, and at no other time.
 */
#pragma once

#include "node/daemon.h"

must_check int boards_open(struct daemon *d);
void boards_close(struct daemon *d);
/* Has the driver asked, unless it said something within the last second. True: it has not said
 * anything for longer, and `told` is called once it has, or when it takes too long. */
bool boards_want(struct daemon *d, void (*told)(void *owner), void *owner);
/* As it was said within the last seconds; otherwise everything is unsaid. */
struct gpu_board boards_of(const struct daemon *d, uint32_t device);
/* When it was said; 0: not yet. */
uint64_t boards_since_ns(const struct daemon *d);
