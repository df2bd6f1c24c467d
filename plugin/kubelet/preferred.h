/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the best of the free ids for a container, for GetPreferredAllocation. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum { PREFERRED_DEVICES = 64 };

enum preferred_way {
	/* As many different devices as ids, if possible; among the devices, the one with the
	 * least, or the most, taken first. */
	PREFERRED_SPREAD,
	PREFERRED_PACK,
	/* Like NVIDIA's plugin: at each step the device with the least, or the most, taken; ids
	 * chosen in earlier steps count as taken. */
	PREFERRED_DISTRIBUTED,
	PREFERRED_PACKED,
};

struct preferred_id {
	const char *id;
	uint32_t device;
};

struct preferred_device {
	uint32_t taken; /* its places that others hold */
};

/* Puts `size` of the ids into `ret`, always including the first `must` of `ids`. Returns how
 * many; fewer than `size` if there are not enough. `size` and `must` may have any value. */
size_t preferred_choose(const struct preferred_id *ids, size_t count, size_t must,
			const struct preferred_device *devices, enum preferred_way way, size_t size,
			const char **ret);
