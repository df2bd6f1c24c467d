/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
	BATCH = 1024, /* as many as libuv asks for */
	ROWS = 256,   /* by which the table grows: descriptors are the lowest that are free */
};

static short wanted(const struct loop_watch *watch, uint32_t events)
{
	short came =
		(short)((events & EPOLLIN ? LOOP_READ : 0) | (events & EPOLLOUT ? LOOP_WRITE : 0));

	came &= watch->events;
	/* The owner finds the end when it reads or writes. */
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

static uint64_t key_of(const struct loop_watch *watch)
{
	return (uint64_t)watch->serial << 32 | (uint32_t)watch->fd;
}

/* NULL: it is watched no more. Then it was paused or closed since the event came; or its descriptor
 * was closed first, and a process that was forked a moment ago still has it. */
static struct loop_watch *find(const struct loop *loop, uint64_t key)
{
	struct loop_watch *watch = loop->by_fd[(uint32_t)key];

	return watch && key_of(watch) == key ? watch : NULL;
}

static void on_events(uv_poll_t *poll, int status, int events)
{
	struct loop *loop = container_of(poll, struct loop, poll);
	struct epoll_event batch[BATCH];
	int batched = epoll_wait(loop->epoll, batch, BATCH, 0);

	(void)status;
	(void)events;
	for (int i = 0; i < batched; i++) {
		struct loop_watch *watch = find(loop, batch[i].data.u64);

		if (watch)
			tell(watch, batch[i].events);
	}
}

/* Room for its row, and a number that no event has yet. */
static int enter(struct loop *loop, struct loop_watch *watch)
{
	size_t rows = (size_t)loop->rows, more = ((size_t)watch->fd / ROWS + 1) * ROWS;
	struct loop_watch **by_fd;

	watch->serial = ++loop->serial;
	if ((size_t)watch->fd < rows)
		return 0;
	by_fd = realloc(loop->by_fd, more * sizeof(struct loop_watch *));
	if (!by_fd)
		return -1;
	memset(by_fd + rows, 0, (more - rows) * sizeof(struct loop_watch *));
	loop->by_fd = by_fd;
	loop->rows = (int)more;
	return 0;
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
	struct loop *loop = watch->loop;
	struct epoll_event event = {.events = (events & LOOP_READ ? EPOLLIN : 0u) |
					      (events & LOOP_WRITE ? EPOLLOUT : 0u)};
	bool more = !watch->events;

	if (more && enter(loop, watch) < 0)
		return -1;
	event.data.u64 = key_of(watch);
	if (epoll_ctl(loop->epoll, more ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, watch->fd, &event) < 0)
		return -1;
	watch->events = (short)events;
	loop->by_fd[watch->fd] = watch;
	if (more)
		count(loop, 1);
	return 0;
}

static void unset(struct loop_watch *watch)
{
	struct loop *loop = watch->loop;

	watch->events = 0;
	/* libcurl says that it closes a descriptor when it has: then this does nothing, or the
	 * number is another's already. */
	if (loop->by_fd[watch->fd] == watch) {
		epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
		loop->by_fd[watch->fd] = NULL;
	}
	count(loop, -1);
}

void loop_rewatch(struct loop_watch *watch, int events)
{
	if (!watch->open || events == watch->events)
		return;
	if (!events)
		unset(watch);
	else if (set(watch, events) < 0)
		abort(); /* as libuv does: its owner would wait for ever for an event that is not
			    watched */
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
	loop->by_fd = NULL;
	loop->rows = loop->watched = 0;
	loop->serial = 0;
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
	free(loop->by_fd);
	/* A signal that is kept may come while the loop is done. */
	loop->by_fd = NULL;
	loop->rows = 0;
	loop->epoll = -1;
}
