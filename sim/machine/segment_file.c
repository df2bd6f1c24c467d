/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/segment_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "sim/machine/clock.h"
#include "sim/machine/device_id.h"
#include "sim/machine/parts.h"
#include "sim/machine/segment_mutex.h"
#include "sim/machine/segment_process.h"

/* Changes with every layout, so that another build's segment is not mistaken for ours. */
static uint64_t segment_layout(void)
{
	const uint64_t sizes[] = {
		7, /* changed by hand when a meaning changes but no size does */
		sizeof(struct segment),
		sizeof(struct settings),
		sizeof(struct segment_device),
		sizeof(struct segment_process),
		sizeof(struct segment_usage),
		sizeof(struct segment_share),
		sizeof(pthread_mutex_t),
		offsetof(struct segment_device, engines),
	};
	uint64_t hash = HASH_BEGIN;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		hash = hash_add(hash, sizes[i]);
	return hash;
}

static int segment_fill(struct segment *segment, const struct settings *settings)
{
	int r;

	segment->layout = segment_layout();
	segment->settings = *settings;
	r = segment_mutex_init(&segment->mutex);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < SEGMENT_PLACES; i++) {
		r = segment_mutex_init(&segment->devices[i].mutex);
		if (r < 0)
			return r;
		if (i < SETTINGS_DEVICES_MAX)
			device_make_uuid(settings, i, segment->devices[i].uuid);
		segment->devices[i].engines.next_ticket = 1;
		segment->devices[i].engines.at_ns = clock_now_ns();
	}
	parts_fill(segment);
	return 0;
}

/* Few of its pages are touched, here and there: what a disk's file system reads in advance around
 * each of them are zeros, 128 KiB at a time, and cost more than all else of a process's start. */
static struct segment *segment_map(int fd)
{
	struct segment *segment =
		mmap(NULL, sizeof(*segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (segment == MAP_FAILED)
		return NULL;
	(void)madvise(segment, sizeof(*segment), MADV_RANDOM);
	return segment;
}

/* Makes a nameless file, which gets the name when it is complete: a process that dies meanwhile
 * leaves nothing behind. */
int segment_make(const char *path, mode_t mode, const struct settings *settings, int *ret_fd,
		 struct segment **ret_segment)
{
	char fresh[SETTINGS_PATH_MAX + 32];
	owned(close) int fd = -1;
	struct segment *segment;
	int r;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	if (unlink(fresh) < 0 && errno != ENOENT)
		return -errno;
	fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, mode) < 0 || ftruncate(fd, sizeof(*segment)) < 0)
		return -errno;
	segment = segment_map(fd);
	if (!segment)
		return -errno;
	r = segment_fill(segment, settings);
	if (r == 0 && rename(fresh, path) < 0)
		r = -errno;
	if (r < 0) {
		munmap(segment, sizeof(*segment));
		return r;
	}
	*ret_fd = take_fd(&fd);
	*ret_segment = segment;
	return 0;
}

/* Does a living process use it? */
static bool anybody(struct segment *segment, uint64_t namespace_id, int fd)
{
	for (uint32_t i = 0; i < segment_slots(segment); i++) {
		const struct segment_process *process = &segment->processes[i];
		struct segment_identity identity = {process->pid, process->start_ticks,
						    process->namespace_id};

		if (atomic_load(&process->state) == SEGMENT_ALIVE &&
		    !segment_process_dead(&identity, namespace_id, fd, i))
			return true;
	}
	return false;
}

/* The size is checked before it is believed: a file cut short would be a SIGBUS. */
int segment_find(const char *path, uint64_t namespace_id, int *ret_fd, struct segment **ret_segment)
{
	owned(close) int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct segment *segment;
	struct stat status;
	int r = 0;

	if (fd < 0)
		return errno == ENOENT ? 1 : -errno;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (status.st_size != sizeof(*segment)) {
		/* The segment of another build. Each of its processes holds a lock in the file. */
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

		if (fcntl(fd, F_OFD_GETLK, &lock) < 0)
			return -errno;
		return lock.l_type == F_UNLCK ? 1 : -EPROTO;
	}
	segment = segment_map(fd);
	if (!segment)
		return -errno;
	if (segment->layout != segment_layout()) {
		struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

		r = fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK ? 1 : -EPROTO;
	} else if (!anybody(segment, namespace_id, fd)) {
		r = 1;
	}
	if (r != 0) {
		munmap(segment, sizeof(*segment));
		return r;
	}
	*ret_fd = take_fd(&fd);
	*ret_segment = segment;
	return 0;
}
