/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/test.h"

struct row {
	struct loop_watch watch;
	int told, events, closed;
	void (*does)(struct row *row);
};

static struct loop loop;
static struct row one, other;

static void on_ready(struct loop_watch *watch, int events)
{
	struct row *row = container_of(watch, struct row, watch);

	row->told++;
	row->events = events;
	if (row->does)
		row->does(row);
}

static void on_closed(struct loop_watch *watch)
{
	container_of(watch, struct row, watch)->closed++;
}

static void given_a_loop(void)
{
	expect_eq(loop_init(&loop), 0);
	one = other = (struct row){0};
}

static void watch(struct row *row, int fd, int events)
{
	expect_eq(loop_watch(&loop, &row->watch, fd, events, on_ready), 0);
}

static void once(void)
{
	expect(loop_once(&loop) >= 0);
}

static int counter(unsigned int value)
{
	int fd = eventfd(value, EFD_CLOEXEC);

	expect(fd >= 0);
	return fd;
}

static void given_two_that_are_ready(void)
{
	given_a_loop();
	watch(&one, counter(1), LOOP_READ);
	watch(&other, counter(1), LOOP_READ);
}

static void end(struct row *row)
{
	loop_unwatch(&row->watch, on_closed);
	close(row->watch.fd);
}

static void then_the_loop_ends(void)
{
	expect_eq(loop_once(&loop), 0);
	loop_done(&loop);
}

static struct row *other_of(const struct row *row)
{
	return row == &one ? &other : &one;
}

static void ends_the_other(struct row *row)
{
	end(other_of(row));
	/* Not within loop_unwatch(). */
	expect_eq(other_of(row)->closed, 0);
}

TEST(a_closed_watch_is_told_nothing_that_had_come_already)
{
	given_two_that_are_ready();
	one.does = other.does = ends_the_other;
	once();
	expect_eq(one.told + other.told, 1);
	expect_eq(one.closed + other.closed, 1);
	end(one.told ? &one : &other);
	once();
	expect_eq(one.closed + other.closed, 2);
	then_the_loop_ends();
}

static void pauses_the_other_for_a_moment(struct row *row)
{
	uint64_t value;

	expect_eq(read(other_of(row)->watch.fd, &value, sizeof(value)), sizeof(value));
	loop_rewatch(&other_of(row)->watch, 0);
	loop_rewatch(&other_of(row)->watch, LOOP_READ);
}

TEST(a_watch_that_was_paused_is_told_of_words_that_are_there_then)
{
	given_two_that_are_ready();
	one.does = other.does = pauses_the_other_for_a_moment;
	once();
	expect_eq(one.told + other.told, 1);
	end(&one);
	end(&other);
	then_the_loop_ends();
}

static void another_takes_the_number(struct row *row)
{
	int fd = other_of(row)->watch.fd;

	row->does = NULL;
	end(other_of(row));
	expect_eq(fcntl(row->watch.fd, F_DUPFD, fd), fd);
	loop_unwatch(&row->watch, on_closed);
	close(row->watch.fd);
}

TEST(a_number_that_another_has_now_is_another_watch)
{
	int fd;

	given_two_that_are_ready();
	one.does = other.does = another_takes_the_number;
	fd = one.watch.fd;
	once();
	expect_eq(one.told + other.told, 1);
	expect_eq(one.closed + other.closed, 2);
	if (one.told)
		fd = other.watch.fd;
	watch(&one, fd, LOOP_READ);
	one.does = NULL;
	once();
	expect_eq(one.told + other.told, 2);
	end(&one);
	then_the_loop_ends();
}

TEST(an_error_comes_to_the_reader_and_once)
{
	int ends[2];

	given_a_loop();
	expect_eq(pipe(ends), 0);
	watch(&one, ends[1], LOOP_WRITE);
	close(ends[0]);
	once();
	expect_eq(one.told, 1);
	expect_eq(one.events, LOOP_READ);
	expect_eq(loop_once(&loop), 0);
	expect_eq(one.told, 1);
	end(&one);
	then_the_loop_ends();
}

TEST(a_watch_that_waits_for_words_is_told_that_none_will_come)
{
	int ends[2];

	given_a_loop();
	expect_eq(pipe(ends), 0);
	watch(&one, ends[0], LOOP_READ);
	close(ends[1]);
	once();
	expect_eq(one.told, 1);
	expect_eq(one.events, LOOP_READ);
	end(&one);
	then_the_loop_ends();
}

TEST(all_watches_that_are_ready_are_told_and_each_of_its_own_events)
{
	static struct row many[100];

	given_a_loop();
	for (int i = 0; i < 100; i++) {
		many[i] = (struct row){0};
		watch(&many[i], counter(1), i % 2 ? LOOP_READ : LOOP_WRITE);
	}
	once();
	for (int i = 0; i < 100; i++) {
		expect_eq(many[i].told, 1);
		expect_eq(many[i].events, i % 2 ? LOOP_READ : LOOP_WRITE);
		end(&many[i]);
	}
	then_the_loop_ends();
	for (int i = 0; i < 100; i++)
		expect_eq(many[i].closed, 1);
}

TEST(a_paused_watch_keeps_no_loop_running_and_goes_on_later)
{
	given_a_loop();
	watch(&one, counter(1), 0);
	expect_eq(loop_once(&loop), 0);
	expect_eq(one.told, 0);
	loop_rewatch(&one.watch, LOOP_READ);
	once();
	expect_eq(one.told, 1);
	end(&one);
	then_the_loop_ends();
}

TEST(a_descriptor_that_cannot_be_watched_is_refused)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	given_a_loop();
	watch(&one, counter(0), LOOP_READ);
	expect_eq(loop_watch(&loop, &other.watch, one.watch.fd, LOOP_READ, on_ready), -EEXIST);
	expect_eq(loop_watch(&loop, &other.watch, file, LOOP_READ, on_ready), -EPERM);
	expect_eq(loop_watch(&loop, &other.watch, -1, LOOP_READ, on_ready), -EBADF);
	loop_unwatch(&other.watch, on_closed); /* it is not open: nothing happens */
	close(file);
	end(&one);
	then_the_loop_ends();
	expect_eq(other.closed, 0);
}

TEST(a_descriptor_closed_before_it_was_unwatched_is_gone_though_a_copy_is_open)
{
	int kept;

	given_two_that_are_ready();
	kept = dup(one.watch.fd); /* as a process has that was just forked */
	close(one.watch.fd);
	loop_unwatch(&one.watch, on_closed);
	for (int i = 0; i < 3; i++)
		once();
	expect_eq(one.told, 0);
	expect_eq(one.closed, 1);
	expect_eq(other.told, 3);
	close(kept);
	end(&other);
	then_the_loop_ends();
}

static struct loop_timer timer;
static int due;
static bool armed_when_due;

static void on_due(struct loop_timer *it)
{
	due++;
	armed_when_due = loop_is_armed(it);
}

TEST(a_timer_is_armed_until_it_is_due_disarmed_or_closed)
{
	given_a_loop();
	due = 0;
	timer = (struct loop_timer){0};
	expect(!loop_is_armed(&timer));
	expect_eq(loop_timer_init(&loop, &timer, on_due), 0);
	expect(!loop_is_armed(&timer));
	loop_arm(&timer, 0);
	expect(loop_is_armed(&timer));
	while (!due)
		once();
	expect(!armed_when_due && !loop_is_armed(&timer));
	loop_arm(&timer, 1000000000000);
	expect(loop_is_armed(&timer));
	loop_disarm(&timer);
	expect(!loop_is_armed(&timer));
	loop_arm(&timer, 1000000000000);
	loop_timer_close(&timer, NULL);
	expect(!loop_is_armed(&timer));
	loop_arm(&timer, 0);
	expect(!loop_is_armed(&timer));
	loop_done(&loop);
}
