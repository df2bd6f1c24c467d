/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPU's board reports about itself. */
#pragma once

enum { BOARD_UNSAID = -1 }; /* it does not */

struct gpu_board {
	int load_percent; /* the part of the last sample's time in which a kernel ran */
	int celsius;
	int watts, watts_most; /* now, and the most that the board may take */
	int mhz;	       /* of its multiprocessors */
};

static inline struct gpu_board board_unsaid(void)
{
	return (struct gpu_board){BOARD_UNSAID, BOARD_UNSAID, BOARD_UNSAID, BOARD_UNSAID,
				  BOARD_UNSAID};
}
