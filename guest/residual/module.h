/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and libraries that take memory of unknown size: guest/residual/module.c. */
#pragma once

/* Something came that cannot be unloaded again. Returns after the daemon has measured it, and has
 * recalled the unused credit that it takes the place of. Not part of a move. -1: nothing. */
void module_came(int device);
