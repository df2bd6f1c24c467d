/* SPDX-License-Identifier: Apache-2.0 */
/* A store's file whose lock a tenant holds, and processes that wait for it. */
#include "tests/unit/store_fixture.h"

/* ---- a file whose lock is held --------------------------------------------------------------- */

/* Holds the lock of a file by writing a page to it that does not come. */
struct holder {
	pthread_t thread;
	void *page;
	int uffd, fd;
};

static void *hold(void *argument)
{
	const struct holder *holder = argument;

	best_effort(pwrite(holder->fd, holder->page, 4096, 0));
	return NULL;
}

/* False: it cannot be done here. */
static bool holds(struct holder *holder, int fd)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range.len = 4096, .mode = UFFDIO_REGISTER_MODE_MISSING};
	struct uffd_msg asked;

	*holder = (struct holder){.fd = fd};
	holder->uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (holder->uffd < 0 || ioctl(holder->uffd, UFFDIO_API, &api) != 0)
		return false;
	holder->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(holder->page != MAP_FAILED);
	range.range.start = (uintptr_t)holder->page;
	expect_eq(ioctl(holder->uffd, UFFDIO_REGISTER, &range), 0);
	expect_eq(pthread_create(&holder->thread, NULL, hold, holder), 0);
	expect_eq(read(holder->uffd, &asked, sizeof(asked)), sizeof(asked));
	return true;
}

static void lets_go(struct holder *holder)
{
	struct uffdio_zeropage zero = {.range = {(uintptr_t)holder->page, 4096}};

	expect_eq(ioctl(holder->uffd, UFFDIO_ZEROPAGE, &zero), 0);
	pthread_join(holder->thread, NULL);
	munmap(holder->page, 4096);
	close(holder->uffd);
}

/* Workers under way are late from now on. */
static void let_time_pass(void)
{
	w.stores.workers.late_ns = 0;
	loop_arm(&w.stores.workers.timer, 0);
	while (list_empty(&w.stores.held))
		expect(loop_once(&w.loop));
	w.stores.workers.late_ns = UINT64_MAX / 2;
}

TEST(a_tenant_that_holds_its_files_lock_holds_up_no_other_and_is_refused_until_it_lets_go)
{
	struct store *first, *second;
	struct store_segment *its;
	struct holder holder;

	begin(64 * GRAIN);
	first = a_store(32 * GRAIN);
	second = a_store(32 * GRAIN);
	if (!holds(&holder, store_fd(first)))
		test_skip("the kernel lets nobody handle page faults; run it as root");
	take_bytes(first, GRAIN);
	take_bytes(first, GRAIN);
	its = take_bytes(second, 8 * GRAIN);
	while (!w.ready)
		expect(loop_once(&w.loop));
	expect(its->prepared);
	let_time_pass();
	/* Both are refused, and all further ones at once. */
	expect_eq(w.failed, 2);
	expect_eq(w.error, -EBUSY);
	expect(store_is_held(first) && !store_is_held(second));
	expect_eq(refusal(first, GRAIN), -EBUSY);
	store_give_back(its);
	while (store_used(second))
		expect(loop_once(&w.loop));
	/* Its memory counts, and is not waited for. */
	expect_eq(w.stores.used_bytes, store_used(first));
	expect_eq(w.part.lost_bytes, w.part.leaving_bytes);
	lets_go(&holder);
	settle();
	expect(!store_is_held(first));
	expect_eq(store_used(first), 0);
	take_bytes(first, GRAIN);
	settle();
	expect_eq(w.ready, 2);
	store_close(first);
	store_close(second);
	end();
}

TEST(a_daemon_ends_although_a_files_lock_is_held)
{
	struct store *store;
	struct holder holder;
	int file;

	begin(64 * GRAIN);
	store = a_store(32 * GRAIN);
	file = dup(store_fd(store));
	if (!holds(&holder, file))
		test_skip("the kernel lets nobody handle page faults; run it as root");
	take_bytes(store, GRAIN);
	store_close(store); /* its tenant has left, and is waited for */
	let_time_pass();
	expect(w.part.lost_bytes);
	stores_close(&w.stores);
	loop_done(&w.loop);
	lets_go(&holder);
	close(file);
}

TEST(a_users_slow_stores_are_bounded_and_another_users_go_on)
{
	enum { HELD = STORE_SLOW_OF_USER + STORE_AT_WORK };
	static struct store *held[HELD];
	static struct holder holders[HELD];
	struct store *other;

	begin((HELD + 1) * GRAIN);
	for (int i = 0; i < HELD; i++) {
		held[i] = a_store_of(1, GRAIN);
		if (!holds(&holders[i], store_fd(held[i])))
			test_skip("the kernel lets nobody handle page faults; run it as root");
		take_bytes(held[i], GRAIN);
	}
	while (w.stores.workers.at_work || list_empty(&w.stores.due))
		expect(loop_once(&w.loop));
	/* One waits at least, for which there would be a worker. */
	other = a_store_of(2, GRAIN);
	take_bytes(other, GRAIN);
	while (!w.ready)
		expect(loop_once(&w.loop));
	expect(!list_empty(&w.stores.due));
	for (int i = 0; i < HELD; i++)
		lets_go(&holders[i]);
	settle();
	expect_eq(w.ready, HELD + 1);
	for (int i = 0; i < HELD; i++)
		store_close(held[i]);
	store_close(other);
	end();
}

TEST(more_stores_than_workers_are_served)
{
	struct store *stores[3 * STORE_AT_WORK];

	begin(64 * GRAIN);
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		stores[i] = a_store(2 * GRAIN);
		take_bytes(stores[i], GRAIN);
		expect(w.stores.workers.at_work <= STORE_AT_WORK);
	}
	settle();
	expect_eq(w.ready, ARRAY_SIZE(stores));
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++)
		store_close(stores[i]);
	end();
}
