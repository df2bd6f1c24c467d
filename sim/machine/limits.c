/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "sim/machine/device.h"
#include "sim/machine/segment.h"

enum { LIMITS_TEXT = 4096 };

static bool is_there(const char *group)
{
	return access(group, F_OK) == 0;
}

/* The row of the group on the GPU, or a free one; NULL: there is neither. */
static struct segment_limit *find_locked(uint32_t gpu, const char *group, bool makes)
{
	struct segment *segment = segment_get();
	uint32_t high = atomic_load(&segment->limits_high);
	struct segment_limit *room = NULL;

	for (uint32_t i = 0; i < high; i++) {
		struct segment_limit *it = &segment->limits[i];

		if (*it->group && !is_there(it->group))
			*it->group = '\0';
		if (!*it->group)
			room = it;
		else if (it->gpu == gpu && strcmp(it->group, group) == 0)
			return it;
	}
	if (!makes || room || high == SEGMENT_LIMITS_MAX)
		return makes ? room : NULL;
	atomic_store(&segment->limits_high, high + 1);
	return &segment->limits[high];
}

/* What is guaranteed to all other groups. */
static uint64_t guaranteed_locked(uint32_t gpu, const char *but)
{
	struct segment *segment = segment_get();
	uint64_t sum = 0;

	for (uint32_t i = 0; i < atomic_load(&segment->limits_high); i++) {
		const struct segment_limit *it = &segment->limits[i];

		if (*it->group && it->gpu == gpu && strcmp(it->group, but) != 0 &&
		    is_there(it->group))
			sum += it->soft_bytes;
	}
	return sum;
}

static bool fits_locked(uint32_t gpu, const char *group, uint64_t soft_bytes)
{
	uint64_t total = device_shape(gpu)->memory_bytes, others = guaranteed_locked(gpu, group);

	return !soft_bytes || (others <= total && soft_bytes <= total - others);
}

int limits_set(uint32_t gpu, const char *group, uint64_t soft_bytes, uint64_t hard_bytes)
{
	bool none = soft_bytes == 0 && hard_bytes == LIMITS_NONE;
	struct segment_limit *it;
	int r = 0;

	if (strlen(group) >= sizeof(it->group))
		return -ENAMETOOLONG;
	segment_lock_node();
	it = find_locked(gpu, group, !none);
	if (!fits_locked(gpu, group, soft_bytes)) {
		r = -ENOSPC;
	} else if (it && none) {
		*it->group = '\0';
	} else if (it) {
		it->gpu = gpu;
		it->soft_bytes = soft_bytes;
		it->hard_bytes = hard_bytes;
		snprintf(it->group, sizeof(it->group), "%s", group);
	} else if (!none) {
		r = -ENOSPC;
	}
	segment_unlock_node();
	return r;
}

void limits_get(uint32_t gpu, const char *group, uint64_t *ret_soft, uint64_t *ret_hard)
{
	const struct segment_limit *it;

	segment_lock_node();
	it = find_locked(gpu, group, false);
	*ret_soft = it ? it->soft_bytes : 0;
	*ret_hard = it ? it->hard_bytes : LIMITS_NONE;
	segment_unlock_node();
}

/* Whether the group is the one that a process's line for version 2 says: the path ends so. */
static bool is_of(pid_t pid, const char *group)
{
	char path[64], text[LIMITS_TEXT];
	size_t length = strlen(group), own;
	const char *line;
	ssize_t size;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	fd = pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return false;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[size > 0 ? size : 0] = '\0';
	line = cgroup_path(text, &own);
	return line && own > 1 && own < length && memcmp(group + length - own, line, own) == 0;
}

static uint64_t used_locked(uint32_t gpu, const char *group)
{
	struct segment *segment = segment_get();
	uint64_t sum = 0;

	for (uint32_t i = 0; i < segment_slots(segment); i++) {
		const struct segment_process *it = &segment->processes[i];

		if (atomic_load(&it->state) == SEGMENT_ALIVE && it->usage[gpu].used_bytes &&
		    is_of(segment_pid(it), group))
			sum += it->usage[gpu].used_bytes - it->usage[gpu].managed_bytes;
	}
	return sum;
}

uint64_t limits_used(uint32_t gpu, const char *group)
{
	uint64_t sum;

	segment_lock_node();
	sum = used_locked(gpu, group);
	segment_unlock_node();
	return sum;
}

bool limits_any(void)
{
	return atomic_load(&segment_get()->limits_high) != 0;
}

bool limits_allow_locked(uint32_t gpu, uint64_t bytes)
{
	struct segment *segment = segment_get();

	for (uint32_t i = 0; i < atomic_load(&segment->limits_high); i++) {
		const struct segment_limit *it = &segment->limits[i];
		uint64_t used;

		if (!*it->group || it->gpu != gpu || !is_of(getpid(), it->group))
			continue;
		used = used_locked(gpu, it->group);
		return used <= it->hard_bytes && bytes <= it->hard_bytes - used;
	}
	return true;
}
