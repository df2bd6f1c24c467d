/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What devices take of a GPU that MIG has divided, as counters of ResourceSlices (KEP-4815): each
 * slice of its memory is a counter of one, its slices of computing are one counter, and so are its
 * engines of each kind where parts can be made: some profiles exclude each other by them. Of the
 * devices that are described, two that need the same slice, as the whole GPU and a part of it do,
 * are not given out together. A GPU of which no part is described is not counted.
 *
 * Counted once for a device, however many claims share it. Pure.
 */
#pragma once

#include "plugin/dra/slices.h"

enum {
	COUNTERS_SETS_MAX = 8, /* of a slice */
	COUNTERS_GPUS_MAX = 64,
	/* A set has 32 counters at most: these, computing's, and engines'. */
	COUNTERS_MEMORY_MAX = 31 - MIG_ENGINES,
	COUNTERS_OLD_S = 600, /* after which the server may have another version */
};

struct counters {
	size_t gpus;
	/* A part of each GPU, or a place of one: it says what the GPU has. */
	const struct slices_device *part[COUNTERS_GPUS_MAX];
};

/* Is it a part, or a place of one, whose GPU a set of counters describes? */
bool counters_can_count(const struct slices_device *d);
/* The GPUs that are counted; their devices are borrowed. */
void counters_find(const struct slices_device *devices, size_t count, struct counters *ret);
/* Into a device's description, if its GPU is counted. False: out of memory. */
must_check bool counters_consume(cJSON *device, const struct counters *c,
				 const struct slices_device *d);
/* The sets of `count` GPUs from `first` on, into a slice's spec. False: out of memory. */
must_check bool counters_add_sets(cJSON *spec, const struct counters *c, size_t first,
				  size_t count);
/* Does kube-scheduler of this version ("v1.37.0") count a device once that several claims share?
 * Before 1.37 it does not always, and refuses parts that are free (kubernetes/kubernetes#140433,
 * #139034). An unknown version is none that does. */
bool counters_are_right(const char *version);
/* Does a slice have counters: sets of them, or a device that consumes some? */
bool counters_are_in(const cJSON *slice);

/* The API server, as far as counters depend on it. Its version may change while meted runs. */
struct counters_server {
	char version[32]; /* "v1.37.0"; "": unknown */
	bool answered;	  /* it has said, or cannot say, which it is */
	bool drops;	  /* the counters that were written */
	uint64_t due_ns;  /* when it is to be asked for its version */
};

/* It has answered; NULL or "": not with a version. Returns true if that is another one than before.
 * What it has dropped, it may keep now. */
bool counters_told(struct counters_server *server, const char *version, uint64_t now_ns);
