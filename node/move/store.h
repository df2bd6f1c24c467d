/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds memory that has left the devices, in host memory. A tenant has one sealed memory file,
 * which all its guests map and nobody else sees. Its parts (segments) are allocated first-fit. The
 * daemon faults in and zeroes their pages, so that they are charged to the daemon and no guest
 * waits for a fault, and punches them out when they are returned.
 *
 * Workers do both (node/move/store_worker.h), STORE_PIECE bytes at a time, one worker for a store:
 * so the loop is never blocked, a store's many segments delay no other store's, and a tenant that
 * holds the lock of its own file holds up nobody else. A user's stores whose pieces are slow are
 * bounded: its further ones wait. A store whose piece takes longer than STORE_LATE_MS is held: its
 * waiting asks are refused, and it gets no segments until its worker has come back.
 *
 * Segments count while they are given out, being made or being cleared. Together they never exceed
 * the budget, a tenant's never its quota, and a device gets none beyond its part. So tenants of one
 * device take nothing that those of another were promised.
 *
 * A guest may write anywhere in the file, even where it has no segment. What it faults there is
 * charged to its own control group, is visible to no other tenant, and is punched before it becomes
 * part of a segment.
 */
#pragma once

#include "node/move/store_worker.h"

enum {
	STORE_PIECE = 16 << 20, /* prepared or cleared at a time */
	STORE_LATE_MS = 10000,
	STORE_SLOW_OF_USER = 64, /* stores of a user that may be slow, but not held */
	STORE_HELD_OF_USER = 64, /* stores of a user that may be held; it gets no more then */
	STORE_HELD_MOST = 256,	 /* likewise of all users */
};

/* Why there is no segment. */
enum {
	STORE_QUOTA = 1, /* the tenant's part of the store is used up */
	STORE_BUDGET,	 /* the whole store is used up, or the device's part */
};

/* A device's part of the store. The caller sets the budget, at any time, also below what is used;
 * the rest is for reading. */
struct store_part {
	uint64_t budget_bytes, used_bytes;
	uint64_t leaving_bytes; /* part of used: given back, but not cleared yet */
	uint64_t lost_bytes;	/* part of leaving: of stores that are held, for an unknown time */
};

struct store;

struct stores {
	/* For reading. */
	uint64_t budget_bytes, used_bytes;

	struct store_workers workers;
	struct list due;  /* stores with work, in turn */
	struct list slow; /* stores whose worker is slow, or late: */
	struct list held; /* late */
	struct list all;
	void (*cleared)(struct stores *stores);
	bool starting;
};

struct store_segment {
	/* For reading. */
	uint64_t offset, bytes;
	struct list owned; /* the caller's */
	void *owner;	   /* likewise */
	uint32_t id;	   /* likewise */

	struct store *store;
	struct store_part *part;
	struct list link; /* by offset */
	struct list job;
	uint64_t done; /* how much of it has pages */
	bool known;    /* to its taker: store_take() is over */
	bool prepared, given_back;
	void (*ready)(struct store_segment *segment, int error);
};

/* Whose store it is. */
struct store_owner {
	uint32_t tenant;
	uid_t user;
};

/* cleared() is called when a segment that was given back has been cleared and is available to
 * others. `late_ns`: STORE_LATE_MS, but in tests. */
must_check int stores_init(struct stores *stores, struct loop *loop, uint64_t budget_bytes,
			   uint64_t late_ns, void (*cleared)(struct stores *stores));
/* Waits for nobody, and forgets all stores. The loop runs once more. Not open: does nothing. */
void stores_close(struct stores *stores);
/* Memory that is not in these stores counts, or does so no longer: both until it is taken back. */
static inline void stores_count(struct stores *stores, struct store_part *part, uint64_t bytes)
{
	stores->used_bytes += bytes;
	part->used_bytes += bytes;
}

static inline void stores_uncount(struct stores *stores, struct store_part *part, uint64_t bytes)
{
	stores->used_bytes -= bytes;
	part->used_bytes -= bytes;
}

/* Opens a tenant's store. The file has the quota's size from the start, without any pages, and
 * never changes its size. -EBUSY: too many are held. */
must_check int store_open(struct stores *stores, uint64_t quota_bytes,
			  const struct store_owner *owner, struct store **ret_store);
/* Takes back the store with all its segments. NULL: does nothing. */
void store_close(struct store *store);
/* Frees only the daemon's record of it: guests keep what they have. Call it after the loop has
 * ended. */
void store_forget(struct store *store);

int store_fd(const struct store *store);
uint64_t store_used(const struct store *store);
uint64_t store_quota(const struct store *store);
bool store_is_held(const struct store *store);

/* The part is borrowed until the segment has been cleared.
 * 0: the loop will call ready() with 0, or with the error if the pages could not be faulted in
 * (-EBUSY: in time); the segment is then gone. STORE_QUOTA, STORE_BUDGET, -EBUSY (the store is
 * held), -EINVAL: there is no segment. */
must_check int store_take(struct store *store, struct store_part *part, uint64_t bytes,
			  void (*ready)(struct store_segment *segment, int error),
			  struct store_segment **ret_segment);
/* Call it at any time, but once. ready() is not called after it. */
void store_give_back(struct store_segment *segment);
