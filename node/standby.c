/* SPDX-License-Identifier: Apache-2.0 */
#include "node/standby.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/handover.h"
#include "node/kubernetes.h"
#include "node/notify.h"
#include "node/place_lock.h"
#include "node/peers/door.h"

/* Of the ten that the kubelet gives a pod to end, as deploy/ has it. */
enum { PRECEDE_S = 5 };

struct standby {
	struct daemon *daemon;
	struct kubernetes *kubernetes; /* of the meted that stood by, until the loop has ended */
	struct loop_watch listener;
	struct loop_work work;
	int listener_fd, lock_fd;
	int result; /* of waiting for the lock */
	bool locked, dialled;

	/* The connection between both. A meted that stood by is told to end later, too. */
	struct loop_watch leaver, successor;
	int other_fd;
	struct loop_timer within;
};

static void path_of(const struct daemon *d, const char *name, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", d->place, name);
}

static struct standby *make(struct daemon *d)
{
	struct standby *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->daemon = d;
	s->listener_fd = s->lock_fd = s->other_fd = -1;
	d->standby = s;
	return s;
}

static void hang_up(struct standby *s)
{
	if (s->other_fd < 0)
		return;
	loop_unwatch(&s->leaver, NULL);
	loop_unwatch(&s->successor, NULL);
	close(s->other_fd);
	s->other_fd = -1;
}

/* The meted that stands by. */

static void wait_for_lock(struct loop_work *work)
{
	struct standby *s = container_of(work, struct standby, work);

	s->result = place_lock_await(s->daemon->lock_fd);
}

static void on_locked(struct loop_work *work)
{
	struct standby *s = container_of(work, struct standby, work);

	s->locked = true;
	loop_stop(&s->daemon->loop);
}

/* The other one has said what there is to take over, or has ended. */
static void on_said(struct loop_watch *watch, int events)
{
	struct standby *s = container_of(watch, struct standby, leaver);
	struct handover_sockets sockets;

	(void)events;
	if (handover_receive(watch->fd, &sockets) == 0) {
		if (kubernetes_inherit(s->daemon->kubernetes, &sockets))
			handover_confirm(watch->fd);
		handover_close(&sockets);
	}
	hang_up(s);
}

/* The other one is about to end. It waits for us to hang up. */
static void on_leaving(struct loop_watch *watch, int events)
{
	struct standby *s = container_of(watch, struct standby, listener);
	int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (fd < 0)
		return;
	/* There is one other meted, and it connects once. */
	if (s->dialled || loop_watch(&s->daemon->loop, &s->leaver, fd, LOOP_READ, on_said) < 0) {
		close(fd);
		return;
	}
	s->dialled = true;
	s->other_fd = fd;
	log_info("standby.next", "reason=\"the other meted is about to end\"");
}

static int open_all(struct standby *s, struct fault *why)
{
	struct daemon *d = s->daemon;
	char path[PLACE_MAX + 32];
	int r;

	path_of(d, "stand-by.lock", path, sizeof(path));
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0)
		return fault_set(why, -EBUSY, "%s: another meted stands by there", d->place);
	path_of(d, "stand-by.sock", path, sizeof(path));
	r = door_listen(path, 0600, geteuid(), &s->listener_fd, why);
	if (r < 0)
		return r;
	log_info("standby.waits", "reason=\"%s: another meted is running there\"", d->place);
	r = kubernetes_open(d, &d->kubernetes, why);
	if (r < 0)
		return r;
	r = loop_watch(&d->loop, &s->listener, s->listener_fd, LOOP_READ, on_leaving);
	/* Last: that thread cannot be stopped. */
	if (r == 0)
		r = loop_work(&d->loop, &s->work, wait_for_lock, on_locked);
	return r < 0 ? fault_set(why, r, "%s: %s", path, uv_strerror(r)) : 0;
}

/* From now on no meted can tell us that it is about to end. */
static void stop_listening(struct standby *s)
{
	char path[PLACE_MAX + 32];

	if (s->listener_fd >= 0) {
		path_of(s->daemon, "stand-by.sock", path, sizeof(path));
		unlink(path);
		loop_unwatch(&s->listener, NULL);
		close(s->listener_fd);
		s->listener_fd = -1;
	}
	/* Last: the next meted that has it makes that socket anew. */
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	s->lock_fd = -1;
}

static void end_plugin(struct standby *s)
{
	struct daemon *d = s->daemon;

	kubernetes_close(d->kubernetes);
	while (kubernetes_is_leaving(d->kubernetes) && loop_once(&d->loop))
		;
	s->kubernetes = take(d->kubernetes);
}

int standby_wait(struct daemon *d, struct fault *why)
{
	struct standby *s = make(d);
	int r;

	d->stands_by = true;
	r = s ? open_all(s, why) : fault_set(why, -ENOMEM, "out of memory");
	if (r < 0)
		return r;
	notify_send("READY=1");
	loop_run(&d->loop);
	stop_listening(s);
	d->stopping |= !s->locked;
	end_plugin(s);
	/* A thread still waits for the lock; or it came when we had been told to end. */
	if (d->stopping)
		_exit(0);
	hang_up(s);
	d->stands_by = false;
	if (s->result < 0)
		return fault_set(why, s->result, "%s: the lock: %s", d->place,
				 strerror(-s->result));
	log_info("standby.over", "reason=\"the other meted has ended\"");
	return 0;
}

/* The meted that is to end. */

static void finish(struct standby *s)
{
	bool given;

	if (s->other_fd < 0)
		return;
	given = handover_confirmed(s->other_fd);
	hang_up(s);
	if (!kubernetes_finish(s->daemon->kubernetes, given))
		loop_stop(&s->daemon->loop);
}

void standby_finished(struct daemon *d)
{
	loop_stop(&d->loop);
}

static void on_ready(struct loop_watch *watch, int events)
{
	(void)events;
	finish(container_of(watch, struct standby, successor));
}

static void on_late(struct loop_timer *timer)
{
	loop_stop(&container_of(timer, struct standby, within)->daemon->loop);
}

static int dial(const struct daemon *d)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	owned(close) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	path_of(d, "stand-by.sock", address.sun_path, sizeof(address.sun_path));
	return fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0
		       ? take_fd(&fd)
		       : -1;
}

/* If it is not sent, who stands by is not heard from before our time is over. */
static void give(const struct standby *s)
{
	struct handover_sockets sockets = {.of = ""};
	bool any = kubernetes_give(s->daemon->kubernetes, &sockets);

	best_effort(handover_send(s->other_fd, any ? &sockets : NULL));
}

bool standby_precede(struct daemon *d)
{
	int fd = d->stands_by ? -1 : dial(d);
	struct standby *s;

	if (fd < 0)
		return false;
	s = d->standby ? d->standby : make(d);
	/* It was told to end twice. */
	if (!s || s->other_fd >= 0 || s->within.open ||
	    loop_timer_init(&d->loop, &s->within, on_late) < 0) {
		close(fd);
		return false;
	}
	if (loop_watch(&d->loop, &s->successor, fd, LOOP_READ, on_ready) < 0) {
		close(fd);
		return false;
	}
	s->other_fd = fd;
	give(s);
	loop_arm(&s->within, PRECEDE_S * 1000000000ull);
	log_info("daemon.precedes", "reason=\"another meted stands by: it gets ready first\"");
	return true;
}

void standby_close(struct daemon *d)
{
	struct standby *s = d->standby;

	if (!s)
		return;
	stop_listening(s);
	hang_up(s);
	loop_timer_close(&s->within, NULL);
}

void standby_free(struct daemon *d)
{
	struct standby *s = take(d->standby);

	if (!s)
		return;
	kubernetes_free(s->kubernetes);
	free(s);
}
