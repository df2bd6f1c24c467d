/* SPDX-License-Identifier: Apache-2.0 */
#include "node/daemon.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static const uint64_t second_ns = 1000000000;

enum {
	COMPLAINTS_BURST = 50,
	COMPLAINTS_PER_SECOND = 2,
};

bool daemon_may_complain(struct daemon *d)
{
	uint64_t now = loop_now_ns();
	uint64_t earned = (now - d->complaint_ns) / (second_ns / COMPLAINTS_PER_SECOND);

	if (earned) {
		d->complaint_tokens += earned;
		if (d->complaint_tokens > COMPLAINTS_BURST)
			d->complaint_tokens = COMPLAINTS_BURST;
		d->complaint_ns = now;
	}
	if (!d->complaint_tokens)
		return false;
	d->complaint_tokens--;
	if (!d->complaint_tokens)
		log_warning("daemon.quiet", "too many complaints about peers: some are left out");
	return true;
}

int daemon_find_device(struct daemon *d, const char *name, uint32_t *ret_index)
{
	uint8_t uuid[16];
	char *end;
	unsigned long number;

	if (nvml_parse_uuid(name, uuid) == 0) {
		for (uint32_t i = 0; i < d->devices; i++) {
			if (memcmp(uuid, d->device[i].info->uuid, sizeof(uuid)) == 0) {
				*ret_index = i;
				return 0;
			}
		}
		return -ENOENT;
	}
	if (name[0] < '0' || name[0] > '9')
		return -ENOENT;
	number = strtoul(name, &end, 10);
	if (*end || number >= d->devices)
		return -ENOENT;
	*ret_index = (uint32_t)number;
	return 0;
}

int daemon_listen(const char *path, unsigned mode, int *ret_fd, struct fault *why)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	owned(close) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t before;
	int r;

	if (fd < 0)
		return fault_set(why, -errno, "no socket: %s", strerror(errno));
	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
	    (int)sizeof(address.sun_path))
		return fault_set(why, -ENAMETOOLONG, "%s: too long for a socket's path", path);
	/* We hold the lock: whoever bound it before is gone. */
	unlink(path);
	before = umask(0777 &
		       ~mode); /* one thread so far touches files: the mode is there at once */
	r = bind(fd, (struct sockaddr *)&address, sizeof(address));
	umask(before);
	if (r != 0 || listen(fd, 512) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	*ret_fd = take_fd(&fd);
	return 0;
}

int daemon_accept(struct daemon *d, int listen_fd)
{
	int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		return fd;
	if ((errno == EMFILE || errno == ENFILE) && daemon_may_complain(d))
		log_error("daemon.full", "no more descriptors: connections wait");
	return -errno;
}

void daemon_maybe_end(struct daemon *d)
{
	if (d->options.system || d->stopping || d->restoring)
		return;
	if (!list_empty(&d->tenants) || !list_empty(&d->admins) || reserve_any(d))
		return;
	log_info("daemon.unneeded", "the last tenant has left");
	d->stopping = true;
	loop_stop(&d->loop);
}
