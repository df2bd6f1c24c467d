/* SPDX-License-Identifier: Apache-2.0 */
/* Engines under many threads of one process: what they add up to, whatever the host's timing. */
#include "sim/machine/engine.h"

#include <pthread.h>
#include <stdlib.h>

#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/faults.h"
#include "tests/sim_folder.h"
#include "tests/test.h"

#define MS 1000000ULL

enum { THREADS = 8, ROUNDS = 40 };

static void given(const char *faults)
{
	sim_folder_make();
	setenv("METE_SIM_DEVICES", "2xH200", 1);
	setenv("METE_SIM_FAULTS", faults, 1);
	expect_eq(segment_join(), 0);
}

static void clean(void)
{
	segment_leave();
	sim_folder_remove();
}

static uint32_t self(void)
{
	return segment_number(segment_self());
}

static _Atomic uint64_t asked_ns[2];

static void *run_kernels(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	uint64_t end_ns = clock_now_ns(), before_ns;

	for (int i = 0; i < ROUNDS; i++) {
		int device = rand_r(&seed) % 2;
		uint64_t work_ns = (uint64_t)rand_r(&seed) % MS;
		uint64_t expected_ns = rand_r(&seed) % 2 ? work_ns : 0;
		struct engine_ticket ticket;

		before_ns = end_ns;
		engine_kernel_begin(device, 0, end_ns, expected_ns, &ticket);
		if (engine_kernel_end(&ticket, work_ns, &end_ns, NULL) != 0)
			return "a kernel failed";
		if (end_ns < before_ns + work_ns || end_ns > clock_now_ns())
			return "a kernel took less than its time";
		atomic_fetch_add(&asked_ns[device], work_ns);
		if (rand_r(&seed) % 4 == 0 &&
		    engine_copy(device, SEGMENT_HOST_TO_DEVICE, (uint64_t)rand_r(&seed) % 1000000,
				end_ns, &end_ns) != 0)
			return "a copy failed";
		if (device_take(device, 1000) == 0)
			device_give(device, 1000);
		if (rand_r(&seed) % 8 == 0 && engine_utilisation(device, UINT32_MAX) > 100)
			return "busier than possible";
	}
	return NULL;
}

TEST(all_that_many_threads_ask_for_is_done_and_no_more)
{
	pthread_t threads[THREADS];
	void *problem;

	given("");
	for (uintptr_t i = 0; i < THREADS; i++)
		expect_eq(pthread_create(&threads[i], NULL, run_kernels, (void *)(i + 1)), 0);
	for (int i = 0; i < THREADS; i++) {
		expect_eq(pthread_join(threads[i], &problem), 0);
		if (problem)
			printf("%s\n", (char *)problem);
		expect(problem == NULL);
	}
	for (int i = 0; i < 2; i++) {
		expect_eq(engine_busy_ns(i, self(), SEGMENT_COMPUTE), atomic_load(&asked_ns[i]));
		expect_eq(engine_device_busy_ns(i, SEGMENT_COMPUTE), atomic_load(&asked_ns[i]));
	}
	expect(engine_lateness_ns(&segment_self()->lateness, 100) > 0);
	clean();
}

TEST(a_stream_sees_exact_times_however_late_its_thread_is)
{
	uint64_t start_ns, end_ns;

	given("");
	end_ns = start_ns = clock_now_ns();
	for (int i = 0; i < 50; i++) {
		struct engine_ticket ticket;

		engine_kernel_begin(0, 0, end_ns, 0, &ticket);
		/* Between begin and end the kernel is interpreted, which takes what it takes. */
		expect_eq(engine_kernel_end(&ticket, MS / 5, &end_ns, NULL), 0);
	}
	expect_eq(end_ns - start_ns, 10 * MS);
	/* 55 MB at 55 GB/s */
	expect_eq(engine_copy(0, SEGMENT_HOST_TO_DEVICE, 55000000, end_ns, &end_ns), 0);
	expect_eq(end_ns - start_ns, 11 * MS);
	/* within the device: read and written at 4.8 TB/s in all */
	expect_eq(engine_copy(0, SEGMENT_DEVICE_TO_DEVICE, 2400000000, end_ns, &end_ns), 0);
	expect_eq(end_ns - start_ns, 12 * MS);
	/* over NVLink */
	expect_eq(engine_copy(0, SEGMENT_PEER, 450000000, end_ns, &end_ns), 0);
	expect_eq(end_ns - start_ns, 13 * MS);
	clean();
}

static void *run_one(void *arg)
{
	struct engine_ticket ticket;
	uint64_t end_ns;

	engine_kernel_begin(0, 0, clock_now_ns(), 0, &ticket);
	return (void *)(intptr_t)engine_kernel_end(&ticket, (uintptr_t)arg, &end_ns, NULL);
}

TEST(more_work_than_tickets_waits_for_them)
{
	enum { CROWD = SEGMENT_TICKETS_MAX + 40 };
	static pthread_t threads[CROWD];
	pthread_attr_t small;
	void *result;

	given("");
	expect_eq(pthread_attr_init(&small), 0);
	expect_eq(pthread_attr_setstacksize(&small, 256 << 10), 0);
	for (int i = 0; i < CROWD; i++)
		expect_eq(pthread_create(&threads[i], &small, run_one, (void *)(uintptr_t)(MS / 2)),
			  0);
	for (int i = 0; i < CROWD; i++) {
		expect_eq(pthread_join(threads[i], &result), 0);
		expect_eq((intptr_t)result, 0);
	}
	expect_eq(engine_busy_ns(0, self(), SEGMENT_COMPUTE), CROWD * MS / 2);
	pthread_attr_destroy(&small);
	clean();
}

static _Atomic uint32_t cancel;

static void *hang(void *unused_)
{
	struct engine_ticket ticket;
	(void)unused_;

	engine_kernel_begin(0, 0, clock_now_ns(), 0, &ticket);
	ticket.cancel = &cancel;
	return (void *)(intptr_t)engine_kernel_end(&ticket, ENGINE_FOR_EVER, NULL, NULL);
}

TEST(a_kernel_that_hangs_can_be_cancelled)
{
	struct engine_ticket ticket;
	pthread_t thread;
	uint64_t end_ns;
	void *result;

	given("");
	expect_eq(pthread_create(&thread, NULL, hang, NULL), 0);
	while (!engine_busy_ns(0, self(), SEGMENT_COMPUTE))
		expect_eq(clock_wait_until(clock_now_ns() + MS, NULL, 0), 0);
	atomic_store(&cancel, 1);
	engine_cancel(0);
	expect_eq(pthread_join(thread, &result), 0);
	expect_eq((intptr_t)result, ENGINE_CANCELLED);
	engine_kernel_begin(0, 0, clock_now_ns(), 0, &ticket);
	expect_eq(engine_kernel_end(&ticket, MS, &end_ns, NULL), 0);
	clean();
}

/* p99 of so many on time and so many late. */
static uint64_t before_last(uint64_t early, uint64_t late)
{
	struct segment_lateness lateness = {0};

	atomic_store(&lateness.counts[1], early);
	atomic_store(&lateness.counts[40], late);
	return engine_lateness_ns(&lateness, 99);
}

static void *spend(void *arg)
{
	for (int i = 0; i < 100; i++)
		clock_spend((uintptr_t)arg);
	return NULL;
}

TEST(lateness_is_told_to_within_a_quarter)
{
	struct segment_lateness lateness = {0};

	expect_eq(engine_lateness_ns(&lateness, 99), 0);
	for (size_t i = 0; i < SEGMENT_LATENESS_BUCKETS; i++) {
		uint64_t bound, before;

		memset(&lateness, 0, sizeof(lateness));
		atomic_store(&lateness.counts[i], 1);
		bound = engine_lateness_ns(&lateness, 99);
		if (i) {
			memset(&lateness, 0, sizeof(lateness));
			atomic_store(&lateness.counts[i - 1], 1);
			before = engine_lateness_ns(&lateness, 99);
			expect(bound > before);
			expect(bound * 4 <= before * 5);
		}
	}
	expect_eq(before_last(99, 1), 1280);
	expect(before_last(98, 2) > 1280);
}

TEST(small_costs_add_up_to_their_sum)
{
	uint64_t start_ns, passed_ns;

	given("");
	start_ns = clock_now_ns();
	spend((void *)(uintptr_t)20000);
	passed_ns = clock_now_ns() - start_ns;
	/* All but the last, which may still be owed, and what an earlier test's was overpaid. */
	expect(passed_ns >= 2 * MS - 50000 - 200000);
	clean();
}

TEST(faults_come_at_their_time_and_are_felt_where_they_belong)
{
	given("oom@2, launch@3:1, ecc@5, xid=31@1, ecc-corrected@2+");
	expect_eq(faults_at(FAULTS_ALLOCATION, 0), FAULTS_NONE);
	expect_eq(faults_at(FAULTS_ALLOCATION, 1), FAULTS_OUT_OF_MEMORY);
	expect_eq(faults_at(FAULTS_ALLOCATION, 0), FAULTS_NONE);
	expect_eq(faults_at(FAULTS_KERNEL, 1), FAULTS_NONE); /* and an Xid */
	expect_eq(faults_at(FAULTS_KERNEL, 1), FAULTS_NONE);
	expect_eq(faults_at(FAULTS_KERNEL, 1), FAULTS_LAUNCH_FAILED);
	expect_eq(faults_at(FAULTS_KERNEL, 0), FAULTS_NONE);
	expect_eq(faults_at(FAULTS_KERNEL, 0), FAULTS_ECC);
	expect_eq(segment_get()->devices[1].events[0].kind, SEGMENT_XID);
	expect_eq(segment_get()->devices[1].events[0].value, 31);
	expect_eq(segment_get()->devices[0].ecc_uncorrected, 1);
	expect_eq(segment_get()->devices[0].ecc_corrected, 2);
	expect_eq(segment_get()->devices[1].ecc_corrected, 2);
	expect_eq(faults_at(FAULTS_CALL, -1), FAULTS_NONE);
	clean();
}
