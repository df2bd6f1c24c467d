/* SPDX-License-Identifier: Apache-2.0 */
#include "base/notices.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "base/hash.h"
#include "base/log.h"

static int poll_instead(struct notices *n)
{
	static const struct itimerspec each_second = {{1, 0}, {1, 0}};
	static bool told;

	n->polled = true;
	n->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (n->fd < 0)
		return -errno;
	best_effort(timerfd_settime(n->fd, 0, &each_second, NULL));
	if (!told)
		log_warning("files.polled",
			    "reason=\"no inotify is left for this user: files are looked at each "
			    "second (fs.inotify.max_user_instances, max_user_watches)\"");
	told = true;
	return 0;
}

int notices_open(struct notices *n)
{
	*n = (struct notices){.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
	return n->fd >= 0 ? 0 : poll_instead(n);
}

int notices_add(const struct notices *n, const char *folder, uint32_t events)
{
	struct stat there;

	if (n->polled)
		return stat(folder, &there) == 0 ? 0 : -errno;
	return inotify_add_watch(n->fd, folder, events) < 0 ? -errno : 0;
}

uint64_t notices_stamp(uint64_t stamp, const char *path)
{
	struct stat there;

	if (stat(path, &there) != 0)
		return hash_add(stamp, 0);
	stamp = hash_bytes(stamp, &there.st_dev, sizeof(there.st_dev));
	stamp = hash_bytes(stamp, &there.st_ino, sizeof(there.st_ino));
	stamp = hash_bytes(stamp, &there.st_size, sizeof(there.st_size));
	stamp = hash_bytes(stamp, &there.st_mtim, sizeof(there.st_mtim));
	return hash_bytes(stamp, &there.st_ctim, sizeof(there.st_ctim));
}

bool notices_ticked(struct notices *n, uint64_t stamp)
{
	uint64_t ticks, was = n->was;

	best_effort((int)read(n->fd, &ticks, sizeof(ticks)));
	n->was = stamp;
	return stamp != was;
}
