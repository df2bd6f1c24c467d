/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One loop, one thread: libuv behind a few verbs. Watches, timers and works are members of the
 * object that they serve; container_of() leads back to it.
 *
 * Closing inside any callback is legal, its own included. A closed watch calls back no more; its
 * memory may be freed once `closed` was called, which happens from the loop, never from
 * loop_unwatch() itself. Closing what is not open does nothing, and calls nobody.
 */
#pragma once

#include <stdbool.h>

/* A field of libuv's is called like one of our macros. */
#pragma push_macro("unused")
#undef unused
#include <uv.h>
#pragma pop_macro("unused")

#include "base/macros.h"

struct loop {
	uv_loop_t uv;
};

must_check int loop_init(struct loop *loop);
void loop_run(struct loop *loop); /* until loop_stop(), or until nothing is watched */
void loop_stop(struct loop *loop);
void loop_done(struct loop *loop); /* everything must have been closed; runs the last callbacks */

/* Monotonic, exact (not the loop's cached time). */
uint64_t loop_now_ns(void);

enum { LOOP_READ = UV_READABLE, LOOP_WRITE = UV_WRITABLE };

struct loop_watch {
	union { /* only one is in use */
		uv_handle_t handle;
		uv_poll_t poll;
	};
	void (*ready)(struct loop_watch *watch, int events);
	void (*closed)(struct loop_watch *watch);
	int fd; /* borrowed: closed by whoever opened it, after loop_unwatch() */
	int open;
};

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
/* Once, not before `delay_ns` has passed; replaces what was armed. */
void loop_arm(struct loop_timer *timer, uint64_t delay_ns);
void loop_disarm(struct loop_timer *timer);
void loop_timer_close(struct loop_timer *timer, void (*closed)(struct loop_timer *timer));

/* A timer of nanoseconds, at a time of loop_now_ns()'s clock: a timerfd. Others are libuv's, of
 * milliseconds. due() may be called too early where the alarm was set anew a moment ago. */
struct loop_alarm {
	struct loop_watch watch;
	void (*due)(struct loop_alarm *alarm);
	uint64_t at_ns;
	bool fired; /* and was not set since: it must be, or it goes on firing */
	int fd;
};

must_check int loop_alarm_init(struct loop *loop, struct loop_alarm *alarm,
			       void (*due)(struct loop_alarm *alarm));
/* Once; replaces what was set. UINT64_MAX: never. */
void loop_alarm_set(struct loop_alarm *alarm, uint64_t at_ns);
void loop_alarm_close(struct loop_alarm *alarm);

/* Called each time that the loop goes round, after all events of that round. */
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

/* What blocks runs on a worker thread and comes back as an event. `work` touches nothing that the
 * loop's thread may touch meanwhile. One at a time per struct. */
struct loop_work {
	uv_work_t request;
	void (*work)(struct loop_work *work);
	void (*finished)(struct loop_work *work);
	int busy;
};

must_check int loop_work(struct loop *loop, struct loop_work *work,
			 void (*run)(struct loop_work *work),
			 void (*finished)(struct loop_work *work));
