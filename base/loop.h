/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One event loop in one thread: libuv behind a few functions. Watches, timers and works are members
 * of the object that they serve; container_of() leads back to it.
 *
 * Descriptors are watched in one epoll of the loop's own, which libuv watches: a handle of libuv's
 * takes 160 bytes, and a tenant has five descriptors (decision 145).
 *
 * Closing is allowed inside any callback, including the watch's own. A closed watch makes no
 * further callbacks. Its memory may be freed once `closed` has been called; the loop calls it,
 * never loop_unwatch() itself. Closing a watch that is not open does nothing and calls nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A field of libuv has the name of one of our macros. */
#pragma push_macro("unused")
#undef unused
#include <uv.h>
#pragma pop_macro("unused")

#include "base/macros.h"

struct loop_watch;

struct loop {
	uv_loop_t uv;
	uv_poll_t poll;	  /* of `epoll` */
	uv_idle_t closer; /* its closing is that of all watches in `closed` */
	struct loop_watch *closed;
	struct loop_watch **by_fd; /* `rows` of them; NULL: nobody watches it */
	int epoll, watched, rows;
	uint32_t serial; /* of the last watch that began or went on */
};

must_check int loop_init(struct loop *loop);
void loop_run(struct loop *loop); /* until loop_stop(), or until nothing is watched */
void loop_stop(struct loop *loop);
must_check int loop_once(struct loop *loop); /* waits for one event; 0: nothing is watched */
void loop_poll(struct loop *loop);	     /* what has happened by now */
void loop_done(struct loop *loop); /* everything must have been closed; runs the last callbacks */

/* Monotonic, exact (not the loop's cached time). */
uint64_t loop_now_ns(void);

enum { LOOP_READ = UV_READABLE, LOOP_WRITE = UV_WRITABLE };

struct loop_watch {
	struct loop *loop;
	struct loop_watch *next; /* of those that are being closed */
	void (*ready)(struct loop_watch *watch, int events);
	void (*closed)(struct loop_watch *watch);
	int fd; /* borrowed: closed by its owner, after loop_unwatch() */
	uint32_t serial;
	short events;
	bool open;
};

/* Makes the descriptor non-blocking. It is watched once at most: -EEXIST. */
must_check int loop_watch(struct loop *loop, struct loop_watch *watch, int fd, int events,
			  void (*ready)(struct loop_watch *watch, int events));

/* Watches for other events; 0 pauses it. */
void loop_rewatch(struct loop_watch *watch, int events);

void loop_unwatch(struct loop_watch *watch, void (*closed)(struct loop_watch *watch));

struct loop_timer {
	uv_timer_t timer;
	void (*due)(struct loop_timer *timer);
	void (*closed)(struct loop_timer *timer);
	int open;
};

must_check int loop_timer_init(struct loop *loop, struct loop_timer *timer,
			       void (*due)(struct loop_timer *timer));
/* Fires once, not before `delay_ns` has passed. Replaces an earlier setting. */
void loop_arm(struct loop_timer *timer, uint64_t delay_ns);
void loop_disarm(struct loop_timer *timer);
/* It was armed, and neither disarmed nor due since. In its own due() it is not. */
bool loop_is_armed(const struct loop_timer *timer);
void loop_timer_close(struct loop_timer *timer, void (*closed)(struct loop_timer *timer));

/* A timer with nanosecond resolution, set to a time of loop_now_ns()'s clock; it uses a timerfd.
 * The other timers are libuv's, with millisecond resolution. due() may be called too early if
 * the alarm was just set again. */
struct loop_alarm {
	struct loop_watch watch;
	void (*due)(struct loop_alarm *alarm);
	uint64_t at_ns;
	bool fired; /* and was not set since; it must be set, or it keeps firing */
	int fd;
};

must_check int loop_alarm_init(struct loop *loop, struct loop_alarm *alarm,
			       void (*due)(struct loop_alarm *alarm));
/* Fires once. Replaces an earlier setting. UINT64_MAX: never. */
void loop_alarm_set(struct loop_alarm *alarm, uint64_t at_ns);
void loop_alarm_close(struct loop_alarm *alarm);

/* Called once per iteration of the loop, after all events of that iteration. */
struct loop_after {
	uv_check_t check;
	void (*round)(struct loop_after *after);
	int open;
};

must_check int loop_after(struct loop *loop, struct loop_after *after,
			  void (*round)(struct loop_after *after));
void loop_after_close(struct loop_after *after);

struct loop_signal {
	uv_signal_t signal;
	void (*came)(struct loop_signal *signal);
	int open;
};

must_check int loop_signal(struct loop *loop, struct loop_signal *signal, int number,
			   void (*came)(struct loop_signal *signal));
void loop_signal_close(struct loop_signal *signal);
/* Instead of closing it, of a process that is about to end: the loop can be done, and the signal
 * goes on being caught until the process has ended. Closing gives it back its default action. The
 * memory of `signal` and of its loop must stay. */
void loop_signal_keep(struct loop_signal *signal);

/* Runs blocking work on a worker thread and reports its end as an event. `work` must not touch
 * anything that the loop's thread may touch at the same time. One at a time per struct. */
struct loop_work {
	uv_work_t request;
	void (*work)(struct loop_work *work);
	void (*finished)(struct loop_work *work);
	int busy;
};

must_check int loop_work(struct loop *loop, struct loop_work *work,
			 void (*run)(struct loop_work *work),
			 void (*finished)(struct loop_work *work));
/* Any of the loop's. */
bool loop_is_working(const struct loop *loop);
