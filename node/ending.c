/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a user's daemon that has nothing left to do. */
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>

#include "node/daemon.h"
#include "node/devices/cordon.h"
#include "node/devices/reserve.h"
#include "node/upcalls.h"

/* A `mete run` that has started us, or is about to find us, holds this lock until it is connected,
 * so that others that come and go meanwhile do not end the daemon that it waits for. */
static bool someone_starts(const struct daemon *d)
{
	char path[PATH_MAX];
	owned(close) int fd = -1;

	snprintf(path, sizeof(path), "%s/" PLACE_STARTING, d->place);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

/* A person who asked for a page or for metrics has started us: others come and go, and we stay. */
void daemon_maybe_end(struct daemon *d)
{
	if (d->options.system || d->shown || d->stopping || d->restore.waiting)
		return;
	if (!list_empty(&d->tenants.all) || !list_empty(&d->admins.all) || reserve_any(d) ||
	    cordon_any(d) || someone_starts(d))
		return;
	log_info("daemon.unneeded", "the last tenant has left");
	d->stopping = true;
	loop_stop(&d->loop);
}
