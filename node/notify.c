/* SPDX-License-Identifier: Apache-2.0 */
#include "node/notify.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/macros.h"

void notify_send(const char *state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET");
	owned(close) int fd = -1;
	size_t length;

	if (!path || (path[0] != '/' && path[0] != '@'))
		return;
	length = strlen(path);
	if (length >= sizeof(address.sun_path))
		return;
	memcpy(address.sun_path, path, length);
	if (path[0] == '@') /* an abstract name begins with a NUL */
		address.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	best_effort(sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
			   (struct sockaddr *)&address,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)));
}

uint64_t notify_watchdog_ns(void)
{
	const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	if (!usec || !getenv("NOTIFY_SOCKET"))
		return 0;
	if (pid && strtoul(pid, NULL, 10) != (unsigned long)getpid())
		return 0;
	return strtoull(usec, NULL, 10) * 1000 / 2;
}
