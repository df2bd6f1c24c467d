/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of the CLI: which are accepted, and which are ended to make room. */
#include "node/peers/admin_accept.h"

#include <limits.h>
#include <sys/socket.h>

#include "node/daemon.h"
#include "node/peers/admin.h"
#include "node/peers/admin_types.h"
#include "node/peers/door.h"
#include "node/peers/peer.h"
#include "node/process.h"
#include "node/users/terms.h"
#include "node/users/user.h"

/* Tells the peer why, and then ends the connection. */
static void turn_away(struct daemon *d, int fd, const struct ucred *who, const char *reason)
{
	struct wire_message message = {.code = WIRE_refused, .id = 1};
	uint8_t frame[WIRE_FRAME_MAX];

	message.refused.code = WIRE_REFUSED_FULL;
	wire_set_text(&message.refused.reason, reason);
	best_effort(
		(int)send(fd, frame, wire_encode(&message, frame), MSG_DONTWAIT | MSG_NOSIGNAL));
	discard_connection(&d->flows.discarder, fd);
	if (daemon_may_complain(d))
		log_warning("admin.turned_away", "pid=%d uid=%u reason=%s", (int)who->pid,
			    (unsigned)who->uid, log_text(reason).text);
}

/* Ends the connections of the user that has been there for the longest time without a tenant.
 * Subordinate ids count as users; thousands of them may belong to one person. */
static bool drop_a_user(struct daemon *d)
{
	const struct user *idle = NULL;

	list_for_each(link, &d->users.all)
	{
		const struct user *u = list_entry(link, struct user, link);

		if (!idle && !u->tenants && u->admins)
			idle = u;
	}
	if (!idle)
		return false;
	if (daemon_may_complain(d))
		log_warning("admin.dropped", "uid=%u reason=\"too many users\"",
			    (unsigned)idle->uid);
	list_for_each(link, &d->admins.all)
	{
		struct admin *a = list_entry(link, struct admin, link);

		if (a->user == idle)
			admin_leave(a);
	}
	return true;
}

static int find_user(struct daemon *d, uid_t uid, struct user **ret_user)
{
	int r = user_find(d, uid, ret_user);

	return r == -ENOSPC && drop_a_user(d) ? user_find(d, uid, ret_user) : r;
}

static bool has_too_many(const struct daemon *d, const struct user *u, int fd)
{
	bool crowded = d->users.count > DAEMON_USERS / 4 || fd > d->door.guest_fds / 2;

	if (!u)
		return d->admins.count == ADMIN_SESSIONS;
	return u->admins >= user_sessions(u) ||
	       (crowded && !u->tenants && u->admins >= USER_SESSIONS_CROWDED);
}

/* NULL: it is not accepted, and *reason says why. */
static struct admin *let_in(struct daemon *d, int fd, const struct ucred *who, const char **reason)
{
	struct user *user = NULL;
	struct admin *a = NULL;

	*reason = "this meted serves only its own user and root";
	if (!d->options.system && who->uid != geteuid() && who->uid != 0)
		return NULL;
	*reason = "meted has no room for another user";
	if (find_user(d, who->uid, &user) < 0)
		return NULL;
	if (user && fd > d->door.guest_fds) {
		*reason = "meted is out of file descriptors"; /* the rest is for root */
	} else {
		*reason = "too many connections of this user are open";
		a = has_too_many(d, user, fd) ? NULL : calloc(1, sizeof(*a));
	}
	if (!a) {
		user_maybe_end(user);
		return NULL;
	}
	*a = (struct admin){.daemon = d, .pid = who->pid, .uid = who->uid, .user = user};
	return a;
}

/* Its pid may belong to another process when it makes a request. */
static uint64_t started_of(const struct daemon *d, int fd)
{
	struct peer_identity who = {.pidfd = -1};
	uint64_t started;

	if (peer_identify(fd, &who) < 0)
		return 0;
	started = process_started(d->looks, who.pid);
	if (process_ended(who.pidfd))
		started = 0;
	close(who.pidfd);
	return started;
}

bool admin_accept(struct daemon *d)
{
	int fd = door_accept(d, d->admins.fd, INT_MAX);
	struct ucred who = {0};
	socklen_t size = sizeof(who);
	const char *reason;
	struct admin *a;

	if (fd == -EMFILE) {
		loop_rewatch(&d->admins.listener, 0);
		loop_arm(&d->admins.pause, DAEMON_PAUSE_MS * 1000000ull);
	}
	if (fd < 0)
		return false;
	/* The pid is 0 if the process is not visible from here. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.pid <= 0) {
		discard_connection(&d->flows.discarder, fd);
		return true;
	}
	a = let_in(d, fd, &who, &reason);
	if (!a) {
		turn_away(d, fd, &who, reason);
		return true;
	}
	a->started = started_of(d, fd);
	if (a->user)
		user_learn(a->user, fd);
	if (peer_init(&a->peer, &d->loop, a->user ? &a->user->flow : &d->admins.flow, fd,
		      &admin_class) < 0) {
		user_maybe_end(a->user);
		free(a);
		return true;
	}
	list_append(&d->admins.all, &a->link);
	if (a->user)
		a->user->admins++;
	else
		d->admins.count++;
	if (!d->restore.waiting)
		loop_disarm(&d->restore.grace);
	return true;
}
