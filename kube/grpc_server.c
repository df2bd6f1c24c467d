/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's sockets. What we learned from other peers:
 *
 *  - listen() uses SOMAXCONN: if the queue is full, connect() to a Unix socket fails with EAGAIN at
 *    once, and a kubelet that restarts connects to every plugin.
 *  - The mode is set before bind(), so that others can never connect, and the umask need not be
 *    changed for all threads.
 *  - Only a socket is unlinked, and only our own: a kubelet clears its folder when it starts, and
 *    our successor may have bound its socket there since. While ours is bound, its inode is not
 *    reused.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "kube/grpc_serve.h"

enum { ACCEPT_ROUND = 16 };

static const uint64_t full_ns = 100000000; /* without free descriptors: how long to wait for one */

static void release(struct grpc_server *server)
{
	if (--server->handles > 0)
		return;
	if (server->closed)
		server->closed(server->owner);
	free(server);
}

static void on_clock_closed(struct loop_timer *timer)
{
	struct grpc_peer *peer = container_of(timer, struct grpc_peer, clock.timer);
	struct grpc_server *server = peer->server;

	free(peer);
	release(server);
}

static void leave(struct grpc_peer *peer)
{
	struct grpc_server *server = peer->server;

	list_remove(&peer->of_server);
	if (server->left && list_empty(&server->peers))
		take(server->left)(server->owner);
	grpc_clock_close(&peer->clock, on_clock_closed);
}

/* When the method is notified it may do anything, but this peer makes no more calls. */
static void on_gone(struct grpc_link *link, const char *reason)
{
	struct grpc_peer *peer = container_of(link, struct grpc_peer, link);

	(void)reason;
	while (!list_empty(&peer->calls)) {
		struct grpc_call *call = list_entry(peer->calls.next, struct grpc_call, of_peer);

		grpc_call_tell(call);
		grpc_call_free(call);
	}
	leave(peer);
}

static void end_peer(struct grpc_peer *peer, const char *reason)
{
	grpc_link_end(&peer->link, reason);
}

/* Keeps the list sorted by when the peers were last heard from. */
static void on_settled(struct grpc_link *link)
{
	struct grpc_peer *peer = container_of(link, struct grpc_peer, link);

	if (list_linked(&peer->of_server)) {
		list_remove(&peer->of_server);
		list_append(&peer->server->peers, &peer->of_server);
	}
}

static const struct grpc_link_class peer_class = {
	.callbacks = grpc_call_callbacks,
	.settled = on_settled,
	.gone = on_gone,
	.server = true,
};

static unsigned count_live(const struct grpc_server *server)
{
	unsigned live = 0;

	list_for_each(link, &server->peers) live +=
		!list_entry(link, struct grpc_peer, of_server)->link.ended;
	return live;
}

/* Closes an idle connection to make room for a new one. */
static void make_room(struct grpc_server *server)
{
	if (count_live(server) < GRPC_CONNECTIONS_MAX)
		return;
	list_for_each(link, &server->peers)
	{
		struct grpc_peer *peer = list_entry(link, struct grpc_peer, of_server);

		if (peer->link.ended || !list_empty(&peer->calls))
			continue;
		end_peer(peer, "the connection is needed for others");
		return;
	}
}

int grpc_server_take(struct grpc_server *server, int fd)
{
	struct grpc_peer *peer;
	int r;

	make_room(server);
	peer = count_live(server) < GRPC_CONNECTIONS_MAX ? calloc(1, sizeof(*peer)) : NULL;
	if (!peer) {
		close(fd);
		return -ENOMEM;
	}
	peer->server = server;
	peer->resets = GRPC_RESETS_MAX;
	list_init(&peer->calls);
	r = grpc_clock_init(server->loop, &peer->clock, grpc_call_late);
	if (r < 0) {
		free(peer);
		close(fd);
		return r;
	}
	server->handles++;
	list_append(&server->peers, &peer->of_server);
	r = grpc_link_init(&peer->link, server->loop, fd, &peer_class);
	if (r < 0)
		leave(peer);
	return r;
}

static void on_dialled(struct loop_watch *watch, int events)
{
	struct grpc_server *server = container_of(watch, struct grpc_server, listening);

	(void)events;
	for (int i = 0; i < ACCEPT_ROUND; i++) {
		int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			best_effort(grpc_server_take(server, fd));
			continue;
		}
		/* Without descriptors or memory the socket stays readable; this must not become
		 * a busy loop. */
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			loop_rewatch(&server->listening, 0);
			loop_arm(&server->soon, full_ns);
		}
		return;
	}
}

/* Sends the last frames. This cannot be done in grpc_server_close(), which a method
 * may call inside nghttp2. */
static void close_peers(struct grpc_server *server)
{
	list_for_each(link, &server->peers)
	{
		struct grpc_peer *peer = list_entry(link, struct grpc_peer, of_server);

		grpc_link_finish(&peer->link, "the server is closing");
	}
}

static void on_listening_closed(struct loop_watch *watch)
{
	struct grpc_server *server = container_of(watch, struct grpc_server, listening);

	close(server->fd);
	release(server);
}

static void on_soon_closed(struct loop_timer *timer)
{
	release(container_of(timer, struct grpc_server, soon));
}

static void on_soon(struct loop_timer *timer)
{
	struct grpc_server *server = container_of(timer, struct grpc_server, soon);

	if (!server->closing) {
		loop_rewatch(&server->listening, LOOP_READ);
		return;
	}
	close_peers(server);
	loop_timer_close(&server->soon, on_soon_closed);
}

static bool is_ours(const struct grpc_server *server)
{
	struct stat about;

	return lstat(server->path, &about) == 0 && about.st_dev == server->device &&
	       about.st_ino == server->inode;
}

bool grpc_server_is_reachable(const struct grpc_server *server)
{
	return is_ours(server);
}

void grpc_server_hold(struct grpc_server *server)
{
	loop_disarm(&server->soon);
	loop_rewatch(&server->listening, 0);
}

void grpc_server_go_on(struct grpc_server *server, void *owner)
{
	server->owner = owner;
	loop_rewatch(&server->listening, LOOP_READ);
}

int grpc_server_socket(const struct grpc_server *server)
{
	return server->fd;
}

const char *grpc_server_path(const struct grpc_server *server)
{
	return server->path;
}

/* As HTTP/2 has it (RFC 9113, 6.8): the caller is told to make no more calls here, and then asked
 * whether it has heard (grpc_call.c). Until it has, all that it begins is served. */
static void take_leave(struct grpc_peer *peer)
{
	if (nghttp2_submit_shutdown_notice(peer->link.session) != 0)
		grpc_link_end(&peer->link, "out of memory");
	grpc_link_wake(&peer->link);
}

bool grpc_server_leave(struct grpc_server *server, bool given, void (*left)(void *owner))
{
	grpc_server_hold(server);
	server->given |= given;
	if (list_empty(&server->peers))
		return false;
	server->left = left;
	list_for_each(link, &server->peers)
	{
		struct grpc_peer *peer = list_entry(link, struct grpc_peer, of_server);

		peer->leaving = true;
		if (!peer->link.ended)
			take_leave(peer);
	}
	return true;
}

static void end_calls(struct grpc_peer *peer)
{
	list_for_each(link, &peer->calls)
	{
		struct grpc_call *call = list_entry(link, struct grpc_call, of_peer);

		if (peer->server->given)
			grpc_call_refuse(call);
		grpc_call_finish(call, GRPC_UNAVAILABLE, "the server is closing");
	}
}

static void say_goodbye(struct grpc_peer *peer)
{
	end_calls(peer);
	best_effort(
		nghttp2_submit_goaway(peer->link.session, NGHTTP2_FLAG_NONE,
				      nghttp2_session_get_last_proc_stream_id(peer->link.session),
				      NGHTTP2_NO_ERROR, NULL, 0));
	peer->link.deaf = true;
}

void grpc_server_close(struct grpc_server *server, void (*closed)(void *owner))
{
	if (!server || server->closing)
		return;
	server->closing = true;
	server->closed = closed;
	server->count = 0; /* the methods are borrowed, and may be freed soon */
	server->left = NULL;
	if (!server->given && is_ours(server))
		unlink(server->path);
	list_for_each(link, &server->peers)
	{
		struct grpc_peer *peer = list_entry(link, struct grpc_peer, of_server);

		if (!peer->link.ended)
			say_goodbye(peer);
	}
	loop_arm(&server->soon, 0);
	loop_unwatch(&server->listening, on_listening_closed);
}

/* Removes an existing socket. Its owner has died, or will notice that its path is gone. */
static int clear_place(const char *path, struct fault *why)
{
	struct stat about;

	if (lstat(path, &about) != 0)
		return errno == ENOENT ? 0
				       : fault_set(why, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISSOCK(about.st_mode))
		return fault_set(why, -EEXIST, "%s: it exists and is not a socket", path);
	if (unlink(path) != 0 && errno != ENOENT)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

static int listen_at(const char *path, unsigned mode, int *ret_fd, struct fault *why)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	owned(close) int fd = -1;
	int r;

	if (strlen(path) >= sizeof(address.sun_path))
		return fault_set(why, -ENAMETOOLONG, "%s: a socket's path has at most %zu bytes",
				 path, sizeof(address.sun_path) - 1);
	memcpy(address.sun_path, path, strlen(path));
	r = clear_place(path, why);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || fchmod(fd, mode) != 0 ||
	    bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	if (listen(fd, SOMAXCONN) != 0) {
		r = fault_set(why, -errno, "%s: %s", path, strerror(errno));
		unlink(path);
		return r;
	}
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Takes over `fd`. */
static int start(struct grpc_server *server, int fd)
{
	owned(close) int place = fd;
	struct stat about;
	int r;

	if (lstat(server->path, &about) != 0)
		return -errno;
	server->device = about.st_dev;
	server->inode = about.st_ino;
	r = loop_watch(server->loop, &server->listening, fd, LOOP_READ, on_dialled);
	if (r < 0)
		return r;
	server->handles++;
	server->fd = take_fd(&place);
	return 0;
}

static struct grpc_server *make(struct loop *loop, const char *path,
				const struct grpc_method *methods, size_t count, void *owner)
{
	struct grpc_server *server = calloc(1, sizeof(*server) + strlen(path) + 1);

	if (!server || loop_timer_init(loop, &server->soon, on_soon) < 0) {
		free(server);
		return NULL;
	}
	memcpy(server->path, path, strlen(path));
	server->loop = loop;
	server->methods = methods;
	server->count = count;
	server->owner = owner;
	server->handles = 1;
	list_init(&server->peers);
	return server;
}

int grpc_server_open(struct loop *loop, const char *path, unsigned mode,
		     const struct grpc_method *methods, size_t count, void *owner,
		     struct grpc_server **ret_server, struct fault *why)
{
	struct grpc_server *server;
	int fd = -1, r = listen_at(path, mode, &fd, why);

	if (r < 0)
		return r;
	server = make(loop, path, methods, count, owner);
	if (!server) {
		unlink(path);
		close(fd);
		return fault_set(why, -ENOMEM, "%s: out of memory", path);
	}
	r = start(server, fd);
	if (r < 0) {
		unlink(path);
		loop_timer_close(&server->soon, on_soon_closed);
		return fault_set(why, r, "%s: %s", path, strerror(-r));
	}
	*ret_server = server;
	return 0;
}

/* Where a socket that another process has bound and listens on can be reached. */
static int find_place(int fd, const char *within, struct sockaddr_un *ret_address,
		      struct fault *why)
{
	socklen_t size = sizeof(*ret_address), int_size = sizeof(int);
	int listens = 0;
	struct stat about;

	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (getsockname(fd, (struct sockaddr *)ret_address, &size) != 0 ||
	    ret_address->sun_family != AF_UNIX || size > sizeof(*ret_address) ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_size) != 0 || !listens)
		return fault_set(why, -EBADF, "it is not a socket that listens at a path");
	if (lstat(ret_address->sun_path, &about) != 0 || !S_ISSOCK(about.st_mode))
		return fault_set(why, -EBADF, "%s: its file is gone", ret_address->sun_path);
	if (strncmp(ret_address->sun_path, within, strlen(within)) != 0)
		return fault_set(why, -EBADF, "%s: it is not in %s", ret_address->sun_path, within);
	return 0;
}

int grpc_server_inherit(struct loop *loop, int socket, const char *within,
			const struct grpc_method *methods, size_t count, void *owner,
			struct grpc_server **ret_server, struct fault *why)
{
	struct sockaddr_un address;
	struct grpc_server *server;
	int fd, r = find_place(socket, within, &address, why);

	if (r < 0)
		return r;
	fd = fcntl(socket, F_DUPFD_CLOEXEC, 0);
	server = fd >= 0 ? make(loop, address.sun_path, methods, count, owner) : NULL;
	if (!server) {
		close(fd);
		return fault_set(why, -ENOMEM, "%s: no memory or descriptors", address.sun_path);
	}
	r = start(server, fd);
	if (r < 0) {
		loop_timer_close(&server->soon, on_soon_closed);
		return fault_set(why, r, "%s: %s", address.sun_path, strerror(-r));
	}
	grpc_server_hold(server);
	*ret_server = server;
	return 0;
}
