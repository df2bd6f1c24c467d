/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces of work on stores: which one is next, and what follows when a worker has done it.
 * Where segments lie, and who may have one, is said in node/move/store.c. */
#pragma once

#include "node/move/store.h"

struct store {
	struct stores *stores;
	struct list segments; /* by offset */
	struct list jobs;     /* segments that take turns, one piece at a time */
	struct list due, slow, held, all;
	struct store_task task;
	struct store_segment *at_work; /* NULL: its file is being closed, or nothing */
	uint64_t bytes;		       /* of the piece at work */
	uint64_t size, used;
	struct store_owner owner;
	int fd;
	bool closing, closed, clear, failing;
};

/* Sets what its workers' news does. */
void store_work_of(struct store *store);
/* It takes its turn among others if it has work that nobody does yet. */
void store_become_due(struct store *store);
/* The segment is to be cleared, whether it was given out or not. */
void store_take_back(struct store_segment *segment);
/* Gives work to the workers that are free. */
void stores_start(struct stores *stores);
