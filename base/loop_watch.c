/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BATCH = 1024 }; /* as many as libuv asks for */

static short wanted(const struct loop_watch *watch, uint32_t events)
{
	short came =
		(short)((events & EPOLLIN ? LOOP_READ : 0) | (events & EPOLLOUT ? LOOP_WRITE : 0));

	came &= watch->events;
	/* Who reads or writes finds the end. */
	return came || !(events & EPOLLHUP) ? came : watch->events;
}

static void tell(struct loop_watch *watch, uint32_t events)
{
	short came = wanted(watch, events);

	if (events & EPOLLERR) {
		/* The reader finds the error; it is not a third kind of event, and comes once. */
		loop_rewatch(watch, 0);
		came = LOOP_READ;
	}
	if (came)
		watch->ready(watch, came);
}

static void on_events(uv_poll_t *poll, int status, int events)
{
	struct loop *loop = container_of(poll, struct loop, poll);
	struct epoll_event batch[BATCH];

	(void)status;
	(void)events;
	loop->batch = batch;
	loop->batched = epoll_wait(loop->epoll, batch, BATCH, 0);
	for (int i = 0; i < loop->batched; i++) {
		if (batch[i].data.ptr)
			tell(batch[i].data.ptr, batch[i].events);
	}
	loop->batched = 0;
}

/* What has come of the descriptor and was not told yet: nobody waits for it any more. */
static void forget(struct loop *loop, const struct loop_watch *watch)
{
	for (int i = 0; i < loop->batched; i++) {
		if (loop->batch[i].data.ptr == watch)
			loop->batch[i].data.ptr = NULL;
	}
}

static void count(struct loop *loop, int more)
{
	loop->watched += more;
	/* A loop in which nothing is watched ends. */
	if (!loop->watched)
		uv_poll_stop(&loop->poll);
	else if (loop->watched == more)
		uv_poll_start(&loop->poll, UV_READABLE, on_events);
}

static int set(struct loop_watch *watch, int events)
{
	struct epoll_event event = {.events = (events & LOOP_READ ? EPOLLIN : 0u) |
					      (events & LOOP_WRITE ? EPOLLOUT : 0u),
				    .data.ptr = watch};
	int operation = !events ? EPOLL_CTL_DEL : watch->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (!events)
		forget(watch->loop, watch);
	if (epoll_ctl(watch->loop->epoll, operation, watch->fd, &event) < 0)
		return -1;
	if (operation != EPOLL_CTL_MOD)
		count(watch->loop, events ? 1 : -1);
	watch->events = (short)events;
	return 0;
}

void loop_rewatch(struct loop_watch *watch, int events)
{
	/* As libuv does: somebody would wait for ever for what is not watched. */
	if (watch->open && events != watch->events && set(watch, events) < 0)
		abort();
}

int loop_watch(struct loop *loop, struct loop_watch *watch, int fd, int events,
	       void (*ready)(struct loop_watch *watch, int events))
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	*watch = (struct loop_watch){.loop = loop, .ready = ready, .fd = fd};
	if (events && set(watch, events) < 0)
		return -errno;
	watch->open = true;
	return 0;
}

static void on_closer(uv_handle_t *handle)
{
	struct loop *loop = container_of((uv_idle_t *)handle, struct loop, closer);
	struct loop_watch *watch = loop->closed;

	loop->closed = NULL;
	while (watch) {
		struct loop_watch *next = watch->next;

		if (watch->closed)
			watch->closed(watch);
		watch = next;
	}
}

void loop_unwatch(struct loop_watch *watch, void (*closed)(struct loop_watch *watch))
{
	struct loop *loop = watch->loop;

	if (!watch->open)
		return;
	loop_rewatch(watch, 0);
	watch->open = false;
	watch->closed = closed;
	if (!loop->closed) {
		uv_idle_init(&loop->uv, &loop->closer);
		uv_close((uv_handle_t *)&loop->closer, on_closer);
	}
	watch->next = loop->closed;
	loop->closed = watch;
}

int loop_watches_open(struct loop *loop)
{
	int r;

	loop->closed = NULL;
	loop->watched = loop->batched = 0;
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll < 0)
		return -errno;
	r = uv_poll_init(&loop->uv, &loop->poll, loop->epoll);
	if (r < 0)
		close(loop->epoll);
	return r;
}

void loop_watches_close(struct loop *loop)
{
	uv_close((uv_handle_t *)&loop->poll, NULL);
	close(loop->epoll);
}
