/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several meteds on one device (of two users, for example) each promise all of its memory. They
 * notice each other by an abstract socket with the device's name. The first one binds it; the
 * others find it bound, connect, and stay connected. Each therefore learns when another comes and
 * goes, and the kernel tells who it is.
 *
 * Anybody may bind such a name, or connect to it. The only effect is a true message (which process
 * of which user does so); nobody is refused anything because of it.
 */
#include "node/devices/mark.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "node/daemon.h"
#include "node/devices/nvml.h"
#include "node/users/user_name.h"

enum {
	MARK_PEERS = 4,	     /* connected at a time; others wait unseen */
	MARK_REST_MS = 1000, /* between two tries */
};

struct mark_peer {
	struct mark *mark;
	struct loop_watch watch;
	int fd; /* -1: nobody */
	pid_t pid;
	uid_t uid;
};

struct mark {
	struct daemon *daemon;
	uint32_t device;
	struct loop_watch listener;
	struct loop_timer rest; /* until the next one is let in */
	bool resting;
	int listen_fd;			   /* -1: somebody else has the mark */
	struct mark_peer peer[MARK_PEERS]; /* if we do not have the mark, the first is its holder */
	uint64_t tried_ns;
};

static void take_mark(struct mark *m);

/* ---- peers ----------------------------------------------------------------------------------- */

static uint32_t count_peers(const struct mark *m)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < MARK_PEERS; i++)
		count += m->peer[i].fd >= 0;
	return count;
}

static void listen_again(struct mark *m)
{
	if (m->listener.open && !m->resting && count_peers(m) < MARK_PEERS)
		loop_rewatch(&m->listener, LOOP_READ);
}

static void on_rested(struct loop_timer *timer)
{
	struct mark *m = container_of(timer, struct mark, rest);

	m->resting = false;
	listen_again(m);
}

static void on_peer_closed(struct loop_watch *watch)
{
	struct mark_peer *p = container_of(watch, struct mark_peer, watch);

	discard_connection(&p->mark->daemon->flows.discarder, take_fd(&p->fd));
	if (p->mark->daemon->stopping)
		return;
	if (p->mark->listen_fd >= 0)
		listen_again(p->mark);
	else
		take_mark(p->mark);
}

/* It has gone, or sent something, which no meted does. */
static void on_peer(struct loop_watch *watch, int events)
{
	struct mark_peer *p = container_of(watch, struct mark_peer, watch);
	struct mark *m = p->mark;

	(void)events;
	if (daemon_may_complain(m->daemon))
		log_info("device.unshared", "device=%s pid=%d",
			 m->daemon->device[m->device].info->uuid_text, (int)p->pid);
	loop_unwatch(watch, on_peer_closed);
}

/* Takes `fd`. */
static void add_peer(struct mark *m, int fd)
{
	struct mark_peer *p = m->peer;
	struct ucred who = {0};
	socklen_t size = sizeof(who);

	while (p->fd >= 0 && p < m->peer + MARK_PEERS - 1)
		p++;
	if (p->fd >= 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 ||
	    who.pid == getpid() ||
	    loop_watch(&m->daemon->loop, &p->watch, fd, LOOP_READ, on_peer) < 0) {
		discard_connection(&m->daemon->flows.discarder, fd);
		return;
	}
	p->fd = fd;
	p->pid = who.pid;
	p->uid = who.uid;
	if (daemon_may_complain(m->daemon))
		log_warning("device.shared",
			    "device=%s pid=%d uid=%u: it holds the device's mark, as a meted does",
			    m->daemon->device[m->device].info->uuid_text, (int)p->pid,
			    (unsigned)p->uid);
}

/* One peer is accepted per interval, so that endless connecting costs us little. A lack of
 * descriptors or memory may be over by the next one. */
static void on_listener(struct loop_watch *watch, int events)
{
	struct mark *m = container_of(watch, struct mark, listener);
	int fd = accept4(m->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd >= 0)
		add_peer(m, fd);
	loop_rewatch(&m->listener, 0);
	m->resting = true;
	loop_arm(&m->rest, MARK_REST_MS * 1000000ull);
}

/* ---- the mark -------------------------------------------------------------------------------- */

/* Simulated devices have the same names on all nodes: the folder identifies the node. */
static void name_node(char *text, size_t size)
{
	const char *folder = getenv("METE_SIM_DIR");
	char usual[64];
	struct stat there;

	snprintf(usual, sizeof(usual), "/dev/shm/mete-sim-%u", (unsigned)getuid());
	if (stat(folder && *folder ? folder : usual, &there) == 0)
		snprintf(text, size, "/%llx:%llx", (unsigned long long)there.st_dev,
			 (unsigned long long)there.st_ino);
}

static socklen_t name_mark(const struct mark *m, struct sockaddr_un *ret_address)
{
	const struct nvml_device *info = m->daemon->device[m->device].info;
	char file[32], node[64] = "";
	struct stat there;

	snprintf(file, sizeof(file), "/dev/nvidia%d", info->minor);
	if (info->minor < 0 || stat(file, &there) != 0 || !S_ISCHR(there.st_mode))
		name_node(node, sizeof(node));
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(ret_address->sun_path + 1,
					    sizeof(ret_address->sun_path) - 1, "mete/%.60s%.40s",
					    info->uuid_text, node));
}

static int try_mark(struct mark *m)
{
	owned(close) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	socklen_t size = name_mark(m, &address);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, size) == 0) {
		if (listen(fd, MARK_PEERS) != 0 ||
		    loop_watch(&m->daemon->loop, &m->listener, fd, LOOP_READ, on_listener) < 0)
			return -ENOMEM;
		m->listen_fd = take_fd(&fd);
		return 0;
	}
	if (connect(fd, (struct sockaddr *)&address, size) != 0)
		return -errno;
	add_peer(m, take_fd(&fd));
	return 0;
}

/* Rarely: the mark's holder may accept and drop connections all the time. */
static void take_mark(struct mark *m)
{
	uint64_t now = loop_now_ns();

	if (m->listen_fd >= 0 || m->peer[0].fd >= 0 || m->peer[0].watch.open ||
	    (m->tried_ns && now - m->tried_ns < MARK_REST_MS * 1000000ull))
		return;
	m->tried_ns = now;
	best_effort(try_mark(m));
}

void mark_again(struct daemon *d)
{
	for (uint32_t i = 0; d->marks && i < d->devices; i++)
		take_mark(&d->marks[i]);
}

int mark_open(struct daemon *d)
{
	d->marks = calloc(d->places + 1, sizeof(*d->marks));
	if (!d->marks)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->places; i++) {
		struct mark *m = &d->marks[i];

		m->daemon = d;
		m->device = i;
		m->listen_fd = -1;
		for (uint32_t n = 0; n < MARK_PEERS; n++)
			m->peer[n] = (struct mark_peer){.mark = m, .fd = -1};
		/* This never fails in libuv. */
		best_effort(loop_timer_init(&d->loop, &m->rest, on_rested));
	}
	mark_again(d);
	return 0;
}

static void on_listener_closed(struct loop_watch *watch)
{
	struct mark *m = container_of(watch, struct mark, listener);

	discard_listener(&m->daemon->flows.discarder, take_fd(&m->listen_fd));
}

/* The loop uses the memory until it has ended. */
void mark_close(struct daemon *d)
{
	for (uint32_t i = 0; d->marks && i < d->places; i++) {
		struct mark *m = &d->marks[i];

		loop_unwatch(&m->listener, on_listener_closed);
		loop_timer_close(&m->rest, NULL);
		for (uint32_t n = 0; n < MARK_PEERS; n++)
			loop_unwatch(&m->peer[n].watch, on_peer_closed);
	}
}

void mark_trouble(const struct daemon *d, char *text, size_t size)
{
	for (uint32_t i = 0; d->marks && i < d->devices; i++) {
		for (uint32_t n = 0; n < MARK_PEERS; n++) {
			const struct mark_peer *p = &d->marks[i].peer[n];
			size_t used = strlen(text);

			if (p->fd < 0 || used + 1 >= size)
				continue;
			snprintf(text + used, size - used,
				 "process %d (user %s) holds the mark of GPU %u: if it is another "
				 "meted, both promise its memory\n",
				 (int)p->pid, user_name(p->uid).text, i);
		}
	}
}
