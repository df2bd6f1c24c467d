/* SPDX-License-Identifier: Apache-2.0 */
/* How meted ends: of its parts, those that others use are closed last. */
#pragma once

struct daemon;

/* After loop_run(), or where the start has failed. It does not return while the driver does not
 * answer: the process then ends by itself, with status 0, but for a meted that begins anew in its
 * place (node/missing.h). */
void daemon_stop(struct daemon *d);
