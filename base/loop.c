/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"
#include "base/loop_watch.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

int loop_init(struct loop *loop)
{
	int r = uv_loop_init(&loop->uv);

	if (r < 0)
		return r;
	r = loop_watches_open(loop);
	if (r < 0)
		uv_loop_close(&loop->uv);
	return r;
}

void loop_run(struct loop *loop)
{
	uv_run(&loop->uv, UV_RUN_DEFAULT);
}

int loop_once(struct loop *loop)
{
	return uv_run(&loop->uv, UV_RUN_ONCE);
}

void loop_poll(struct loop *loop)
{
	uv_run(&loop->uv, UV_RUN_NOWAIT);
}

void loop_stop(struct loop *loop)
{
	uv_stop(&loop->uv);
}

void loop_done(struct loop *loop)
{
	/* The loop calls close callbacks, so it must run once more. */
	while (uv_run(&loop->uv, UV_RUN_ONCE) != 0) {
	}
	loop_watches_close(loop);
	uv_run(&loop->uv, UV_RUN_NOWAIT);
	uv_loop_close(&loop->uv);
}

uint64_t loop_now_ns(void)
{
	return uv_hrtime();
}

static void on_timer(uv_timer_t *timer)
{
	struct loop_timer *t = container_of(timer, struct loop_timer, timer);

	t->due(t);
}

int loop_timer_init(struct loop *loop, struct loop_timer *timer,
		    void (*due)(struct loop_timer *timer))
{
	int r = uv_timer_init(&loop->uv, &timer->timer);

	if (r < 0)
		return r;
	timer->due = due;
	timer->open = 1;
	return 0;
}

void loop_arm(struct loop_timer *timer, uint64_t delay_ns)
{
	if (!timer->open)
		return;
	/* libuv counts from its cached time, in whole milliseconds, of which one may
	 * have passed. */
	uv_update_time(timer->timer.loop);
	uv_timer_start(&timer->timer, on_timer, (delay_ns + 999999) / 1000000 + 1, 0);
}

void loop_disarm(struct loop_timer *timer)
{
	if (timer->open)
		uv_timer_stop(&timer->timer);
}

bool loop_is_armed(const struct loop_timer *timer)
{
	return timer->open && uv_is_active((const uv_handle_t *)&timer->timer);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct loop_timer *timer = container_of((uv_timer_t *)handle, struct loop_timer, timer);

	if (timer->closed)
		timer->closed(timer);
}

void loop_timer_close(struct loop_timer *timer, void (*closed)(struct loop_timer *timer))
{
	if (!timer->open)
		return;
	timer->open = 0;
	timer->closed = closed;
	uv_close((uv_handle_t *)&timer->timer, on_timer_closed);
}

static void on_alarm(struct loop_watch *watch, int events)
{
	struct loop_alarm *alarm = container_of(watch, struct loop_alarm, watch);

	(void)events;
	/* It may have been set again since it was due: then it fires too early, once. Setting it
	 * also clears what read() would. */
	alarm->fired = true;
	alarm->due(alarm);
	if (alarm->fired)
		loop_alarm_set(alarm, UINT64_MAX);
}

int loop_alarm_init(struct loop *loop, struct loop_alarm *alarm,
		    void (*due)(struct loop_alarm *alarm))
{
	int r;

	alarm->due = due;
	alarm->at_ns = UINT64_MAX;
	alarm->fired = false;
	alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (alarm->fd < 0)
		return -errno;
	r = loop_watch(loop, &alarm->watch, alarm->fd, LOOP_READ, on_alarm);
	if (r < 0)
		close(alarm->fd);
	return r;
}

void loop_alarm_set(struct loop_alarm *alarm, uint64_t at_ns)
{
	struct itimerspec when = {0};

	if (!alarm->watch.open || (at_ns == alarm->at_ns && !alarm->fired))
		return;
	alarm->at_ns = at_ns;
	alarm->fired = false;
	if (at_ns != UINT64_MAX) {
		when.it_value.tv_sec = (time_t)(at_ns / 1000000000);
		when.it_value.tv_nsec = (long)(at_ns % 1000000000);
		if (!at_ns)
			when.it_value.tv_nsec = 1; /* all zero would be never */
	}
	timerfd_settime(alarm->fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_alarm_closed(struct loop_watch *watch)
{
	close(container_of(watch, struct loop_alarm, watch)->fd);
}

void loop_alarm_close(struct loop_alarm *alarm)
{
	loop_unwatch(&alarm->watch, on_alarm_closed);
}

static void on_check(uv_check_t *check)
{
	struct loop_after *after = container_of(check, struct loop_after, check);

	after->round(after);
}

int loop_after(struct loop *loop, struct loop_after *after, void (*round)(struct loop_after *after))
{
	int r = uv_check_init(&loop->uv, &after->check);

	if (r < 0)
		return r;
	after->round = round;
	after->open = 1;
	return uv_check_start(&after->check, on_check);
}

void loop_after_close(struct loop_after *after)
{
	if (after->open)
		uv_close((uv_handle_t *)&after->check, NULL);
	after->open = 0;
}

static void on_signal(uv_signal_t *signal, int number)
{
	struct loop_signal *s = container_of(signal, struct loop_signal, signal);

	(void)number;
	s->came(s);
}

int loop_signal(struct loop *loop, struct loop_signal *signal, int number,
		void (*came)(struct loop_signal *signal))
{
	int r = uv_signal_init(&loop->uv, &signal->signal);

	if (r < 0)
		return r;
	signal->came = came;
	signal->open = 1;
	return uv_signal_start(&signal->signal, on_signal, number);
}

void loop_signal_close(struct loop_signal *signal)
{
	if (signal->open)
		uv_close((uv_handle_t *)&signal->signal, NULL);
	signal->open = 0;
}

void loop_signal_keep(struct loop_signal *signal)
{
	if (signal->open)
		uv_unref((uv_handle_t *)&signal->signal);
}

static void on_work(uv_work_t *request)
{
	struct loop_work *work = container_of(request, struct loop_work, request);

	work->work(work);
}

static void on_finished(uv_work_t *request, int status)
{
	struct loop_work *work = container_of(request, struct loop_work, request);

	(void)status;
	work->busy = 0;
	work->finished(work);
}

bool loop_is_working(const struct loop *loop)
{
	return loop->uv.active_reqs.count > 0; /* we make no other requests of libuv's */
}

int loop_work(struct loop *loop, struct loop_work *work, void (*run)(struct loop_work *work),
	      void (*finished)(struct loop_work *work))
{
	int r;

	work->work = run;
	work->finished = finished;
	work->busy = 1;
	r = uv_queue_work(&loop->uv, &work->request, on_work, on_finished);
	if (r < 0)
		work->busy = 0;
	return r;
}
