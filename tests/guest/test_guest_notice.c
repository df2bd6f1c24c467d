/* SPDX-License-Identifier: Apache-2.0 */
/* A wait of more than two seconds is a line on the program's standard error. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>

#include "guest/process/notice.h"
#include "tests/guest/guest_fixture.h"

enum { LONG_MS = NOTICE_AFTER_MS + 1000 };

static int lines;

static void load_heard(void)
{
	int ends[2];

	load();
	check(pipe(ends) == 0 && dup2(ends[1], 2) == 2 && close(ends[1]) == 0);
	lines = ends[0];
}

static void says(const char *what)
{
	char line[1024];
	ssize_t n = read(lines, line, sizeof(line) - 1);

	check(n > 0);
	line[n] = '\0';
	check(strncmp(line, "mete: this program ", 19) == 0);
	check(strncmp(line + 19, what, strlen(what)) == 0);
	check(strchr(line, '\n') == line + n - 1);
}

static bool says_nothing(int ms)
{
	struct pollfd line = {.fd = lines, .events = POLLIN};

	return poll(&line, 1, ms) == 0;
}

static void *launches(void *argument)
{
	check(launch() == CUDA_SUCCESS);
	return argument;
}

static void *allocates(void *argument)
{
	CUdeviceptr memory;

	check(guest_function(guest, cuMemAlloc_v2)(&memory, 1 << 20) == CUDA_SUCCESS);
	return argument;
}

static pthread_t runs(void *(*body)(void *))
{
	pthread_t thread;

	check(pthread_create(&thread, NULL, body, NULL) == 0);
	return thread;
}

/* At a closed gate. */
static pthread_t waits(void)
{
	fake_close_gate(&fake, 0);
	check(fake_wait_drained(&fake, 0, 240000));
	return runs(launches);
}

static void goes_on(pthread_t thread)
{
	fake_open_gate(&fake, 0);
	check(pthread_join(thread, NULL) == 0);
}

static void for_a_turn(void)
{
	pthread_t thread;

	load_heard();
	check(launch() == CUDA_SUCCESS);
	thread = waits();
	says("waits for its turn on the GPU; ");
	/* It waits again, and nothing is said within the minute. */
	goes_on(thread);
	thread = waits();
	check(says_nothing(LONG_MS));
	goes_on(thread);
}

TEST(a_guest_that_waits_for_a_turn_says_so_once)
{
	expect_eq(in_child(for_a_turn, NULL, 0), 0);
}

static void for_room(void)
{
	pthread_t thread;

	load_heard();
	fake_hold(&fake, 1);
	thread = runs(allocates);
	says("waits for memory of the GPU; ");
	fake_hold(&fake, 0);
	check(pthread_join(thread, NULL) == 0);
}

TEST(a_guest_that_waits_for_room_says_so)
{
	expect_eq(in_child(for_room, NULL, 0), 0);
}

/* It is named once, though the program has just said that it waits; not if it is over. */
static void for_somebody(void)
{
	pthread_t thread;

	load_heard();
	check(launch() == CUDA_SUCCESS);
	fake_hinder(&fake, "tenant 7 (x) is stuck");
	fake_hinder(&fake, "");
	thread = waits();
	says("waits for its turn on the GPU; ");
	fake_hinder(&fake, "tenant 3 (y) is stuck");
	says("waits for its turn on the GPU: tenant 3 (y) is stuck (");
	fake_hinder(&fake, "tenant 3 (y) is stuck");
	check(says_nothing(LONG_MS));
	goes_on(thread);
}

TEST(a_guest_that_waits_for_a_stuck_tenant_names_it_once)
{
	expect_eq(in_child(for_somebody, NULL, 0), 0);
}

static void not_wanted(void)
{
	pthread_t thread;

	load_heard();
	check(launch() == CUDA_SUCCESS);
	__atomic_store_n(&fake.page->quiet, 1, __ATOMIC_SEQ_CST);
	thread = waits();
	check(says_nothing(LONG_MS));
	/* Its share was changed. */
	__atomic_store_n(&fake.page->quiet, 0, __ATOMIC_SEQ_CST);
	says("waits for its turn on the GPU; ");
	goes_on(thread);
}

TEST(a_share_silences_it_and_gives_it_its_voice_back)
{
	expect_eq(in_child(not_wanted, NULL, 0), 0);
}

/* Nothing that it waits for besides comes by itself, and nobody else is to blame. */
static void suspended(void)
{
	pthread_t thread;

	load_heard();
	check(launch() == CUDA_SUCCESS);
	__atomic_store_n(&fake.page->stands, WIRE_STANDS_SUSPENDED, __ATOMIC_SEQ_CST);
	fake_hinder(&fake, "tenant 3 (y) is stuck");
	thread = waits();
	says("is suspended, until somebody resumes it; ");
	check(says_nothing(LONG_MS));
	__atomic_store_n(&fake.page->stands, WIRE_STANDS_NOT, __ATOMIC_SEQ_CST);
	says("waits for its turn on the GPU: tenant 3 (y) is stuck (");
	goes_on(thread);
}

static void halted(void)
{
	pthread_t thread;

	load_heard();
	check(launch() == CUDA_SUCCESS);
	__atomic_store_n(&fake.page->stands, WIRE_STANDS_HALTED, __ATOMIC_SEQ_CST);
	thread = waits();
	says("is suspended, as its work on the GPU did not end; ");
	goes_on(thread);
}

TEST(a_guest_that_is_suspended_says_that_and_not_what_it_waits_for)
{
	expect_eq(in_child(suspended, NULL, 0), 0);
	expect_eq(in_child(halted, NULL, 0), 0);
}

static void nobody_reads(void)
{
	char filler[4096] = {0};
	pthread_t thread;

	load_heard();
	check(launch() == CUDA_SUCCESS);
	check(fcntl(2, F_SETFL, O_NONBLOCK) == 0);
	while (write(2, filler, sizeof(filler)) > 0)
		;
	check(fcntl(2, F_SETFL, 0) == 0);
	thread = waits();
	usleep(LONG_MS * 1000);
	goes_on(thread);
}

/* A write would end it by a signal. */
static void nobody_is_there(void)
{
	pthread_t thread;

	load_heard();
	check(launch() == CUDA_SUCCESS);
	close(lines);
	thread = waits();
	usleep(LONG_MS * 1000);
	goes_on(thread);
}

TEST(standard_error_that_is_read_late_or_never_holds_up_no_guest_for_long)
{
	expect_eq(in_child(nobody_reads, NULL, 0), 0);
	expect_eq(in_child(nobody_is_there, NULL, 0), 0);
}
