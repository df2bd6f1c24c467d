/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs `mete pick` takes: GPUtil's criteria, applied to NVML's figures. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"
#include "core/share/share.h"

enum { PICK_GPUS = 64 };

enum pick_order { PICK_FIRST, PICK_LAST, PICK_RANDOM, PICK_LOAD, PICK_MEMORY, PICK_MEMORY_FREE };

struct pick_gpu {
	unsigned index;
	char uuid[96];
	double load, memory;		   /* in use, 0 .. 1; NaN: the driver does not say */
	uint64_t memory_bytes, free_bytes; /* of memory, where `memory` is not NaN */
};

struct pick_criteria {
	enum pick_order order;
	unsigned limit;
	double max_load, max_memory;	 /* less than this must be in use */
	struct share_amount memory_free; /* at least this must be free */
	bool include_nan;		 /* GPUs that do not say count as free */
	const char *exclude; /* indices and UUIDs with commas between them; NULL: none */
};

/* -EINVAL, and the sentence says what is accepted. */
must_check int pick_parse_order(const char *text, enum pick_order *ret_order, struct fault *why);

/* Checks a list of GPUs to exclude: `count` GPUs exist, of which `size` could be asked. -EINVAL,
 * and the sentence says what is accepted: an entry is neither an index nor a UUID, or names no GPU
 * of this machine. */
must_check int pick_check_exclude(const char *list, const struct pick_gpu *gpus, size_t size,
				  size_t count, struct fault *why);

/* The GPUs that qualify, best first, as places in `gpus`: all of them, as the caller applies the
 * limit. `random` is called once per GPU for PICK_RANDOM, else never. */
size_t pick_choose(const struct pick_gpu *gpus, size_t size, const struct pick_criteria *criteria,
		   uint64_t (*random)(void), size_t ret_chosen[PICK_GPUS]);

/* Why those that are not excluded do not qualify, with their indices: "load not below 50 %
 * (--max-load): 0,2; ...". "": all of them do. Cut where there is no room. */
void pick_say_unfit(const struct pick_criteria *criteria, const struct pick_gpu *gpus, size_t size,
		    char *ret_text, size_t room);

/* How many are not excluded. */
must_check size_t pick_left(const struct pick_criteria *criteria, const struct pick_gpu *gpus,
			    size_t size);
