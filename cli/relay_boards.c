/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/relay_boards.h"

#include <stdlib.h>
#include <string.h>

enum { BUSY_MOST = 1024 /* processes of a device */ };

/* The newest sample that was read of that board; NULL: too many boards. */
static uint64_t *since(struct relay_boards *boards, const wire_text *name)
{
	unsigned i = 0;

	while (i < boards->count && strcmp(boards->board[i].name.text, name->text) != 0)
		i++;
	if (i == RELAY_BOARDS)
		return NULL;
	if (i == boards->count)
		boards->board[boards->count++].name = *name;
	return &boards->board[i].since_us;
}

static int put_samples(struct relay_boards *boards, const struct wire_message *asked,
		       uint64_t *ret_rows)
{
	owned(free) struct gpus_busy *busy = calloc(BUSY_MOST, sizeof(*busy));
	uint64_t *since_us = since(boards, &asked->board_ask.name);
	size_t n;

	*ret_rows = 0;
	if (!busy || !since_us || !boards->gpus)
		return 0;
	n = gpus_busy(boards->gpus, asked->board_ask.name.text, since_us, busy, BUSY_MOST);
	for (size_t i = 0; i < n; i++) {
		struct wire_message row = {.code = WIRE_sample_row, .id = asked->id};

		row.sample_row.pid = busy[i].pid;
		row.sample_row.percent = busy[i].percent;
		if (relay_put(&row))
			return 1;
	}
	*ret_rows = n;
	return 0;
}

int relay_boards_answer(struct relay_boards *boards, const struct wire_message *asked)
{
	struct wire_message row = {.code = WIRE_board_row, .id = asked->id};
	struct wire_message end = {.code = WIRE_end, .id = asked->id};
	struct gpu_board gauges;
	struct fault why;

	if (!boards->asked)
		best_effort(gpus_open(&boards->gpus, &why));
	boards->asked = true;
	gauges = gpus_gauges(boards->gpus, asked->board_ask.name.text);
	row.board_row.load = (uint32_t)gauges.load_percent;
	row.board_row.celsius = (uint32_t)gauges.celsius;
	row.board_row.watts = (uint32_t)gauges.watts;
	row.board_row.watts_most = (uint32_t)gauges.watts_most;
	row.board_row.mhz = (uint32_t)gauges.mhz;
	return relay_put(&row) || put_samples(boards, asked, &end.end.rows) || relay_put(&end);
}

void relay_boards_done(struct relay_boards *boards)
{
	gpus_close(boards->gpus);
}
