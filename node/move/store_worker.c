/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/store_worker.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/process_child.h"
#include "node/move/store_file.h"

enum {
	AGAIN_MS = 1000, /* while no process can be made */
	OVER_MS = 50,
};

static const uint64_t ms = 1000000;

struct store_worker {
	struct list link;
	struct store_workers *of;
	struct store_task *task; /* NULL: nobody wants to hear of it */
	struct loop_watch watch;
	uint64_t began_ns;
	pid_t pid;
	int fd;
	bool slow, late;
};

/* The message with a descriptor, and the answer, which is an int. */
union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

/* ---- in the worker --------------------------------------------------------------------------- */

/* Only system calls: it is a copy of one thread of several. */

/* A piece and its file. False: the daemon has nothing more to do. */
static bool hear(int fd, struct store_piece *ret_piece, int *ret_file)
{
	union control control = {0};
	struct iovec part = {ret_piece, sizeof(*ret_piece)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control)};
	ssize_t n;

	do
		n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*ret_piece) || header.msg_controllen < CMSG_LEN(sizeof(int)))
		return false;
	memcpy(ret_file, CMSG_DATA(&control.header), sizeof(int));
	return true;
}

noreturn_ static void serve(const struct store_workers *of, int fd, pid_t parent)
{
	struct store_piece piece;
	int file, r;

	process_child_begin(fd, parent, "mete-store");
	while (hear(fd, &piece, &file)) {
		r = of->work(file, &piece);
		close(file);
		if (send(fd, &r, sizeof(r), MSG_NOSIGNAL) < 0)
			break;
	}
	_exit(0);
}

/* ---- their lives ----------------------------------------------------------------------------- */

/* Waits for workers that have ended, which takes no time. */
static void reap(struct store_workers *w)
{
	list_for_each(link, &w->over)
	{
		struct store_worker *worker = list_entry(link, struct store_worker, link);

		if (worker->fd >= 0 || waitpid(worker->pid, NULL, WNOHANG) == 0)
			continue;
		list_remove(&worker->link);
		free(worker);
	}
}

static uint64_t slow_ns(const struct store_workers *w)
{
	return w->late_ns < STORE_SLOW_MS * ms ? w->late_ns : STORE_SLOW_MS * ms;
}

/* When to check it again; UINT64_MAX: it is late already. */
static uint64_t check_at(const struct store_worker *worker)
{
	if (worker->late)
		return UINT64_MAX;
	return worker->began_ns + (worker->slow ? worker->of->late_ns : slow_ns(worker->of));
}

static void set_timer(struct store_workers *w)
{
	uint64_t now = loop_now_ns(), at = UINT64_MAX;

	list_for_each(link, &w->busy)
	{
		uint64_t next = check_at(list_entry(link, struct store_worker, link));

		at = next < at ? next : at;
	}
	if (w->refused && at > now + AGAIN_MS * ms)
		at = now + AGAIN_MS * ms;
	if (!list_empty(&w->over) && at > now + OVER_MS * ms)
		at = now + OVER_MS * ms;
	if (at == UINT64_MAX)
		loop_disarm(&w->timer);
	else
		loop_arm(&w->timer, at > now ? at - now : 0);
}

static void on_closed(struct loop_watch *watch)
{
	struct store_worker *worker = container_of(watch, struct store_worker, watch);

	close(worker->fd);
	worker->fd = -1;
	/* Nobody is left to wait for it: its next parent will. */
	if (!worker->of)
		free(worker);
}

/* It ends once it sees that. */
static void end(struct store_worker *worker)
{
	list_remove(&worker->link);
	list_append(&worker->of->over, &worker->link);
	loop_unwatch(&worker->watch, on_closed);
}

static void on_answer(struct loop_watch *watch, int events);

static struct store_worker *make(struct store_workers *w, int *ret_error)
{
	struct store_worker *worker = calloc(1, sizeof(*worker));
	pid_t us = getpid();
	int ends[2] = {-1, -1};

	*ret_error = -ENOMEM;
	if (!worker)
		return NULL;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		goto failed;
	*worker = (struct store_worker){.of = w, .fd = ends[0]};
	if (loop_watch(w->loop, &worker->watch, ends[0], 0, on_answer) < 0)
		goto failed;
	worker->pid = fork();
	if (worker->pid == 0)
		serve(w, ends[1], us);
	*ret_error = -errno;
	close(ends[1]);
	list_append(&w->idle, &worker->link);
	if (worker->pid > 0)
		return worker;
	list_remove(&worker->link);
	worker->of = NULL;
	loop_unwatch(&worker->watch, on_closed);
	return NULL;
failed:
	*ret_error = errno ? -errno : -ENOMEM;
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	free(worker);
	return NULL;
}

/* ---- work ------------------------------------------------------------------------------------ */

static bool tell(const struct store_worker *worker, int file, const struct store_piece *piece)
{
	union control control = {0};
	struct iovec part = {(void *)piece, sizeof(*piece)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control)};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &file, sizeof(int));
	return sendmsg(worker->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*piece);
}

static struct store_worker *some_worker(struct store_workers *w, int *ret_error)
{
	if (list_empty(&w->idle))
		return make(w, ret_error);
	return list_entry(w->idle.next, struct store_worker, link);
}

int store_workers_begin(struct store_workers *w, struct store_task *task, int fd,
			const struct store_piece *piece)
{
	struct store_worker *worker;
	int r = -EAGAIN;

	reap(w);
	if (w->at_work >= STORE_AT_WORK)
		return -EAGAIN;
	/* One that was idle may have been killed. */
	while ((worker = some_worker(w, &r)) && !tell(worker, fd, piece))
		end(worker);
	w->refused = !worker;
	if (worker) {
		list_remove(&worker->link);
		list_append(&w->busy, &worker->link);
		worker->task = task;
		task->worker = worker;
		worker->slow = worker->late = false;
		worker->began_ns = loop_now_ns();
		w->at_work++;
		loop_rewatch(&worker->watch, LOOP_READ);
	}
	set_timer(w);
	return worker ? 0 : r;
}

void store_workers_forget(struct store_task *task)
{
	if (task->worker)
		task->worker->task = NULL;
	task->worker = NULL;
}

static uint32_t count_idle(const struct store_workers *w)
{
	uint32_t count = 0;

	list_for_each(link, (struct list *)&w->idle) count++;
	return count;
}

static void on_answer(struct loop_watch *watch, int events)
{
	struct store_worker *worker = container_of(watch, struct store_worker, watch);
	struct store_task *task = take(worker->task);
	struct store_workers *w = worker->of;
	bool lives;
	int answer;

	(void)events;
	lives = recv(worker->fd, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer);
	w->at_work -= !worker->slow;
	if (lives && count_idle(w) < STORE_IDLE) {
		list_remove(&worker->link);
		list_prepend(&w->idle, &worker->link);
		/* The loop need not run for it. */
		loop_rewatch(&worker->watch, 0);
	} else {
		end(worker);
	}
	if (task) {
		task->worker = NULL;
		task->finished(task, lives ? answer : -ECHILD);
	}
	w->freed(w);
	set_timer(w);
}

/* Slow, then late. */
static void delay(struct store_worker *worker)
{
	if (worker->slow) {
		worker->late = true;
		if (worker->task)
			worker->task->late(worker->task);
		return;
	}
	worker->slow = true;
	worker->of->at_work--;
	if (worker->task)
		worker->task->slow(worker->task);
}

static void on_timer(struct loop_timer *timer)
{
	struct store_workers *w = container_of(timer, struct store_workers, timer);
	uint64_t now = loop_now_ns();

	reap(w);
	w->refused = false;
	list_for_each(link, &w->busy)
	{
		struct store_worker *worker = list_entry(link, struct store_worker, link);

		if (check_at(worker) <= now)
			delay(worker);
		if (check_at(worker) <= now)
			delay(worker);
	}
	w->freed(w);
	set_timer(w);
}

void store_workers_leave(struct store_workers *w, int fd)
{
	const struct store_piece piece = {.verb = STORE_CLOSE};
	int r;

	if (!w->last && (w->last = some_worker(w, &r))) {
		list_remove(&w->last->link);
		list_append(&w->busy, &w->last->link);
		w->last->slow = w->last->late = true; /* its answers are not waited for */
	}
	if (w->last)
		best_effort(tell(w->last, fd, &piece));
	close(fd);
}

/* ---------------------------------------------------------------------------------------------- */

int store_workers_init(struct store_workers *w, struct loop *loop, uint64_t late_ns,
		       int (*work)(int fd, const struct store_piece *piece),
		       void (*freed)(struct store_workers *workers))
{
	*w = (struct store_workers){.loop = loop, .work = work, .freed = freed, .late_ns = late_ns};
	list_init(&w->idle);
	list_init(&w->busy);
	list_init(&w->over);
	return loop_timer_init(loop, &w->timer, on_timer);
}

static void part_from(struct list *list)
{
	while (!list_empty(list)) {
		struct store_worker *worker = list_entry(list->next, struct store_worker, link);

		list_remove(&worker->link);
		worker->of = NULL;
		if (worker->fd < 0)
			free(worker);
		else
			loop_unwatch(&worker->watch, on_closed);
	}
}

void store_workers_close(struct store_workers *w)
{
	if (!w->timer.open)
		return;
	part_from(&w->idle);
	part_from(&w->busy);
	part_from(&w->over);
	loop_timer_close(&w->timer, NULL);
}
