/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of this machine's boards, for a `mete top` elsewhere.
 */
#pragma once

#include "cli/gpus.h"
#include "wire/wire.h"

enum { RELAY_BOARDS = 64 };

/* All zero: nobody has asked yet. */
struct relay_boards {
	struct gpus *gpus; /* NULL: there is no management library */
	bool asked;	   /* whether there is one */
	struct {
		wire_text name;
		uint64_t since_us; /* the newest sample that was read */
	} board[RELAY_BOARDS];
	unsigned count;
};

/* Answers a BOARD_ASK. 1: nobody reads the answer. */
int relay_boards_answer(struct relay_boards *boards, const struct wire_message *asked);
void relay_boards_done(struct relay_boards *boards);

/* Writes a frame to standard output; 1: nobody reads it. */
int relay_put(const struct wire_message *message);
