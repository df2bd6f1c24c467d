/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and libraries that take memory of unknown size: guest/residual/module.c. */
#pragma once

/* Code was loaded that cannot be unloaded again. Returns after the daemon has measured it, and has
 * recalled the unused credit whose place it takes. Not part of a change. -1: nothing. */
void module_came(int device);
