/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network adapters reach memory of the GPU by themselves, at physical addresses, once it was
 * registered with them (GPUDirect RDMA). Registrations pass us by; but who registers has one of
 * /dev/infiniband open. The mover looks before anything leaves, while all is on the device. From
 * then on nothing of the process moves: it may register at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "guest/movable_mover.h"
#include "guest/state.h"

struct entry { /* of getdents64() */
	uint64_t inode;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

static bool leads_there(int folder, const char *name)
{
	char target[256];
	long n = syscall(SYS_readlinkat, folder, name, target, sizeof(target) - 1);

	if (n <= 0)
		return false;
	target[n] = '\0';
	return strstr(target, "/dev/infiniband/") != NULL;
}

static bool has_one_open(void)
{
	long folder = syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	bool found = false;
	char block[2048] __attribute__((aligned(8)));
	long n;

	if (folder < 0)
		return false;
	while (!found && (n = syscall(SYS_getdents64, folder, block, sizeof(block))) > 0)
		for (long at = 0; at < n && !found;) {
			const struct entry *entry = (const struct entry *)&block[at];

			found = leads_there((int)folder, entry->name);
			at += entry->bytes;
		}
	syscall(SYS_close, folder);
	return found;
}

static bool is_due(void)
{
	bool due;

	futex_lock_take(&movable_.lock);
	due = movable_leaves_more() && movable_.resident && movable_.out == 0 &&
	      movable_.leaves == 0 && movable_.enters == 0;
	futex_lock_give(&movable_.lock);
	return due;
}

bool movable_found_reached(void)
{
	int saved = errno;

	if (movable_mover.lowered || !is_due() || !has_one_open()) {
		errno = saved;
		return false;
	}
	errno = saved;
	movable_no_more();
	futex_lock_take(&movable_.lock);
	for (size_t i = 0; i < movable_.areas.count; i++)
		if (movable_is_here(movable_area_at(i)))
			movable_fix(movable_area_at(i), WIRE_UNMOVABLE_PROCESS);
	futex_lock_give(&movable_.lock);
	return true;
}
