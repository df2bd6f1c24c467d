/* SPDX-License-Identifier: Apache-2.0 */
/*                                                       sim/cuda/physical_share.h
 * Physical memory that several processes hold: cuMemExportToShareableHandle() and
 * cuMemImportFromShareableHandle(). What is exported moves from the process's store into a file of
 * its own, with a trailer that tells another process what it is.
 */
#pragma once

struct physical;

/* Neither handle nor mapping of it is left. There may be others of the same memory in this process,
 * or open descriptors; it is freed when these have ended. */
void physical_share_end(struct physical *allocation);

/* Frees memory that was kept for descriptors that are closed now. */
void physical_share_tidy(void);
