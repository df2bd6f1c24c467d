/* SPDX-License-Identifier: Apache-2.0 */
/* For the page's host in tests: a machine whose boards say nothing of themselves. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/board.h"

struct daemon;

static bool want_boards(struct daemon *d, void (*told)(void *owner), void *owner)
{
	(void)d;
	(void)told;
	(void)owner;
	return false;
}

static struct gpu_board board(const struct daemon *d, uint32_t index)
{
	(void)d;
	(void)index;
	return board_unsaid();
}

static uint64_t boards_since_ns(const struct daemon *d)
{
	(void)d;
	return 0;
}
