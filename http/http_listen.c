/* SPDX-License-Identifier: Apache-2.0 */
#include "http/http_listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/un.h>

#include "base/socket.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

static const char accepted[] = "accepted: 127.0.0.1:9400, [::1]:9400, :9400 or unix:/path/of.sock";

static int read_port(const char *text, in_port_t *ret_port)
{
	char *end;
	unsigned long port;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	port = strtoul(text, &end, 10);
	if (*end || port > 65535)
		return -EINVAL;
	*ret_port = htons((in_port_t)port);
	return 0;
}

static int read_path(const char *text, struct http_address *address, struct fault *why)
{
	struct sockaddr_un *name = (struct sockaddr_un *)&address->name;

	if (strlen(text) >= sizeof(name->sun_path))
		return fault_set(why, -EINVAL,
				 "'%.120s': the path of a socket has at most %zu bytes", text,
				 sizeof(name->sun_path) - 1);
	name->sun_family = AF_UNIX;
	strcpy(name->sun_path, text);
	address->size = sizeof(*name);
	return 0;
}

static int read_host(char *host, in_port_t port, struct http_address *address)
{
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&address->name;
	struct sockaddr_in *four = (struct sockaddr_in *)&address->name;
	size_t length = strlen(host);
	int r;

	if (*host && *host != '[') {
		four->sin_family = AF_INET;
		four->sin_port = port;
		address->size = sizeof(*four);
		return inet_pton(AF_INET, host, &four->sin_addr) == 1 ? 0 : -EINVAL;
	}
	six->sin6_family = AF_INET6;
	six->sin6_port = port;
	address->size = sizeof(*six);
	address->any = !*host;
	if (!*host)
		return 0; /* all zero is "any" */
	if (host[length - 1] != ']')
		return -EINVAL;
	host[length - 1] = 0;
	r = inet_pton(AF_INET6, host + 1, &six->sin6_addr);
	return r == 1 ? 0 : -EINVAL;
}

int http_address_read(const char *text, struct http_address *ret_address, struct fault *why)
{
	struct http_address address = {0};
	const char *colon = strrchr(text, ':');
	char host[64];
	in_port_t port = 0;
	int r = 0;

	if (*text == '/') {
		r = read_path(text, &address, why);
		if (r == 0)
			*ret_address = address;
		return r;
	}
	if (strncmp(text, "unix:", 5) == 0)
		return fault_set(why, -EINVAL, "'%.120s': a socket's path begins with /; %s", text,
				 accepted);
	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return fault_set(why, -EINVAL, "'%.120s' is not an address with a port; %s", text,
				 accepted);
	if (read_port(colon + 1, &port) < 0)
		return fault_set(why, -EINVAL, "'%.120s': '%.20s' is not a port; %s", text,
				 colon + 1, accepted);
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = 0;
	if (read_host(host, port, &address) < 0)
		return fault_set(why, -EINVAL, "'%.120s': '%.*s' is not an IP address; %s", text,
				 (int)(colon - text), text, accepted);
	*ret_address = address;
	return 0;
}

/* Removes the file of a dead process's socket, which refuses connections. A socket on which
 * a process listens stays. */
static int clear_path(const struct sockaddr_un *name)
{
	struct stat about;
	int r;

	if (lstat(name->sun_path, &about) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(about.st_mode))
		return -EEXIST;
	r = socket_answers(name->sun_path);
	if (r == 0)
		return -EADDRINUSE;
	if (r != -ECONNREFUSED && r != -ENOENT)
		return r;
	return unlink(name->sun_path) == 0 || errno == ENOENT ? 0 : -errno;
}

static int open_socket(const struct http_address *address, mode_t mode, bool *ret_no_family)
{
	int on = 1, off = 0, both = !address->any;
	owned(close) int fd =
		socket(address->name.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*ret_no_family = fd < 0 && errno == EAFNOSUPPORT;
	if (fd < 0)
		return -errno;
	if (address->name.ss_family == AF_UNIX) {
		int r = clear_path((const struct sockaddr_un *)&address->name);

		if (r < 0)
			return r;
		fchmod(fd, mode); /* before bind(), so that others could never connect */
		/* Whoever read them would close them, which takes as long as their sender likes
		 * (base/discard.h). Older kernels do not know it. */
		setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	}
	if (address->name.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof(both));
	if (bind(fd, (const struct sockaddr *)&address->name, address->size) != 0) {
		*ret_no_family = errno == EADDRNOTAVAIL;
		return -errno;
	}
	/* Now, against our umask; nobody can connect before listen(). */
	if (address->name.ss_family == AF_UNIX &&
	    chmod(((const struct sockaddr_un *)&address->name)->sun_path, mode) != 0)
		return -errno;
	return listen(fd, SOMAXCONN) == 0 ? take_fd(&fd) : -errno;
}

int http_listen(const struct http_address *address, const char *text, mode_t mode,
		struct stat *ret_own, struct fault *why)
{
	bool no_family = false;
	int fd = open_socket(address, mode, &no_family);

	if (fd < 0 && no_family && address->any) { /* a machine without IPv6 */
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&address->name;
		struct http_address four = {.size = sizeof(struct sockaddr_in)};
		struct sockaddr_in *name = (struct sockaddr_in *)&four.name;

		name->sin_family = AF_INET;
		name->sin_port = six->sin6_port;
		fd = open_socket(&four, mode, &no_family);
	}
	if (fd == -EEXIST)
		return fault_set(why, fd, "'%.120s' exists and is not a socket", text);
	if (fd < 0)
		return fault_set(why, fd, "'%.120s': %s", text, strerror(-fd));
	*ret_own = (struct stat){0};
	if (address->name.ss_family == AF_UNIX)
		best_effort(lstat(((const struct sockaddr_un *)&address->name)->sun_path, ret_own));
	return fd;
}

void http_unlisten(const struct http_address *address, const struct stat *own)
{
	const struct sockaddr_un *name = (const struct sockaddr_un *)&address->name;
	struct stat now;

	if (address->name.ss_family != AF_UNIX || !own->st_ino)
		return;
	if (lstat(name->sun_path, &now) == 0 && now.st_ino == own->st_ino &&
	    now.st_dev == own->st_dev)
		unlink(name->sun_path);
}
