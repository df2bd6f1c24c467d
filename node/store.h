/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds memory that has left the devices, in host memory. A tenant has one sealed memory file,
 * which all its guests map and nobody else sees. Its parts (segments) are allocated first-fit. The
 * daemon faults in and zeroes their pages, so that they are charged to the daemon and no guest
 * waits for a fault, and punches them out when they are returned.
 *
 * A worker does both, STORE_PIECE bytes at a time, and takes the segments in turn. So the loop is
 * never blocked, and a tenant's many segments do not delay another tenant's. Segments count while
 * they are given out, being made or being cleared. Together they never exceed the budget, and a
 * tenant's never exceed its quota.
 *
 * A guest may write anywhere in the file, even where it has no segment. What it faults there is
 * charged to its own control group, is visible to no other tenant, and is punched before it becomes
 * part of a segment.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/loop.h"

enum {
	STORE_GRAIN = 2 << 20,	/* segments are multiples of it, as huge pages are */
	STORE_PIECE = 16 << 20, /* prepared or cleared at a time */
};

/* Why there is no segment. */
enum {
	STORE_QUOTA = 1, /* the tenant's part of the store is used up */
	STORE_BUDGET,	 /* the whole store is used up */
};

struct store;

struct stores {
	/* For reading. */
	uint64_t budget_bytes, used_bytes;
	uint64_t leaving_bytes; /* part of used: given back, but not cleared yet */

	struct loop *loop;
	struct list jobs;  /* segments that take turns, one piece at a time */
	struct list ended; /* stores that have only the file left */
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
	uint64_t done; /* how much of it has pages */
	bool prepared, given_back;
	void (*ready)(struct store_segment *segment, int error);
};

/* cleared() is called when a segment that was given back has been cleared and is available to
 * others. */
void stores_init(struct stores *stores, struct loop *loop, uint64_t budget_bytes,
		 void (*cleared)(struct stores *stores));
/* The default budget: half of the host's available memory. */
uint64_t stores_usual_budget(void);

/* Opens a tenant's store. The file has the quota's size from the start, without any pages, and
 * never changes its size. */
must_check int store_open(struct stores *stores, uint64_t quota_bytes, struct store **ret_store);
/* Takes back the store with all its segments, whoever has them. NULL: does nothing. */
void store_close(struct store *store);
/* Frees only the daemon's record of it: guests keep what they have. Call it after the loop has
 * ended. */
void store_forget(struct store *store);

int store_fd(const struct store *store);
uint64_t store_used(const struct store *store);
uint64_t store_quota(const struct store *store);

/* 0: the loop will call ready() with 0, or with the error if the pages could not be faulted in; the
 * segment is then gone. STORE_QUOTA, STORE_BUDGET, -EINVAL: there is no segment. */
must_check int store_take(struct store *store, uint64_t bytes,
			  void (*ready)(struct store_segment *segment, int error),
			  struct store_segment **ret_segment);
/* Call it at any time, but once. ready() is not called after it. */
void store_give_back(struct store_segment *segment);
