/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where memory is that has left the devices: the host's. A tenant has one sealed memory file, which
 * all its guests map, and nobody else sees. Parts of it (segments) are given out first-fit; their
 * pages are faulted and zeroed here, so that they are charged here and no guest waits for a fault,
 * and are punched out when they come back.
 *
 * Both is done on a worker, STORE_PIECE bytes at a time, whose segment is next in turn: the loop is
 * never held up, and no tenant's many segments hold up another's. What is given out, being made or
 * being cleared counts; all of that together is never more than the budget, and a tenant's never
 * more than its quota.
 *
 * A guest may write wherever it likes in the file, also where it has no segment: what it faults
 * there is its own (its control group's), is no other tenant's to see, and is punched before
 * anybody is given it.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/loop.h"

enum {
	STORE_GRAIN = 2 << 20,	/* segments are whole numbers of it, as huge pages are */
	STORE_PIECE = 16 << 20, /* is prepared or cleared at once */
};

/* Why there is no segment. */
enum {
	STORE_QUOTA = 1, /* the tenant has no more of the store */
	STORE_BUDGET,	 /* nobody has */
};

struct store;

struct stores {
	/* For reading. */
	uint64_t budget_bytes, used_bytes;
	uint64_t leaving_bytes; /* of used: given back, and not cleared yet */

	struct loop *loop;
	struct list jobs;  /* segments, one piece each in turn */
	struct list ended; /* stores of which nothing is left but the file */
	struct loop_work work;
	struct store_segment *at_work;
	struct store *closing;
	int fd, error;
	uint64_t offset, bytes;
	bool clear;
	void (*cleared)(struct stores *stores);
};

struct store_segment {
	/* For reading. */
	uint64_t offset, bytes;
	struct list owned; /* the caller's */
	void *owner;	   /* likewise */
	uint32_t id;	   /* likewise */

	struct store *store;
	struct list link; /* by offset */
	struct list job;
	uint64_t done; /* so much of it has pages */
	bool prepared, given_back;
	void (*ready)(struct store_segment *segment, int error);
};

/* `cleared`: something was given back and is cleared, so that others may have it. */
void stores_init(struct stores *stores, struct loop *loop, uint64_t budget_bytes,
		 void (*cleared)(struct stores *stores));
/* Half of what the host has free: for who said nothing. */
uint64_t stores_usual_budget(void);

/* A tenant's. It is as large as the quota at once, without a page, and never changes its size. */
must_check int store_open(struct stores *stores, uint64_t quota_bytes, struct store **ret_store);
/* It is given back with all that is in it, from whoever has it. NULL: nothing. */
void store_close(struct store *store);
/* Only the memory that knows of it: guests go on with what they have. After the loop has ended. */
void store_forget(struct store *store);

int store_fd(const struct store *store);
uint64_t store_used(const struct store *store);
uint64_t store_quota(const struct store *store);

/* 0: ready() is called from the loop, with 0 or why it could not be faulted: then the segment is
 * gone. STORE_QUOTA, STORE_BUDGET, -EINVAL: there is none. */
must_check int store_take(struct store *store, uint64_t bytes,
			  void (*ready)(struct store_segment *segment, int error),
			  struct store_segment **ret_segment);
/* At any time, once: ready() is not called any more. */
void store_give_back(struct store_segment *segment);
