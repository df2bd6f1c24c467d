/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/event_share.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/machine/clock.h"
#include "sim/machine/segment.h"
#include "sim/cuda/stream_core.h"

#define SHARE_MAGIC 0x6d65746565766e74ull
#define CHECK_NS    100000000u /* how often a waiting thread checks for dead processes */

enum { PAGE_BYTES = 4096 };

/* Any process that has the handle may write anything here: no value is trusted as an address. */
struct page {
	_Atomic uint64_t magic;
	_Atomic uint64_t last, reached, time_ns;
	_Atomic uint32_t wakes; /* a futex */
	/* The process that recorded it last: its slot of the segment, and its identity. */
	_Atomic uint32_t slot;
	_Atomic uint64_t start_ticks;
};

struct event_share {
	atomic_uint refs;
	int fd; /* owned */
	struct page *page;
};

/* Takes the descriptor over, on failure too. */
static struct event_share *map(int fd)
{
	struct event_share *share = calloc(1, sizeof(*share));
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (!share || page == MAP_FAILED) {
		if (page != MAP_FAILED)
			munmap(page, PAGE_BYTES);
		free(share);
		close(fd);
		return NULL;
	}
	atomic_init(&share->refs, 1);
	share->fd = fd;
	share->page = page;
	return share;
}

struct event_share *event_share_new(void)
{
	int fd = memfd_create("mete-sim-event", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct event_share *share;

	if (fd < 0)
		return NULL;
	/* No other process can make it shorter than what is mapped. */
	if (ftruncate(fd, PAGE_BYTES) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		close(fd);
		return NULL;
	}
	share = map(fd);
	if (share)
		atomic_store(&share->page->magic, SHARE_MAGIC);
	return share;
}

struct event_share *event_share_open(pid_t pid, int fd)
{
	struct event_share *share;
	struct stat about;
	char path[64];
	int own, seals;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	own = open(path, O_RDWR | O_CLOEXEC);
	if (own < 0)
		return NULL;
	seals = fcntl(own, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(own, &about) < 0 ||
	    about.st_size != PAGE_BYTES) {
		close(own);
		return NULL;
	}
	share = map(own);
	if (share && atomic_load(&share->page->magic) != SHARE_MAGIC) {
		event_share_unref(share);
		return NULL;
	}
	return share;
}

struct event_share *event_share_ref(struct event_share *share)
{
	atomic_fetch_add(&share->refs, 1);
	return share;
}

void event_share_unref(struct event_share *share)
{
	if (!share || atomic_fetch_sub(&share->refs, 1) != 1)
		return;
	munmap(share->page, PAGE_BYTES);
	close(share->fd);
	free(share);
}

int event_share_fd(const struct event_share *share)
{
	return share->fd;
}

uint64_t event_share_issue(struct event_share *share)
{
	struct segment_process *self = segment_self();

	if (self) {
		atomic_store(&share->page->slot, segment_number(self));
		atomic_store(&share->page->start_ticks, self->start_ticks);
	}
	return atomic_fetch_add(&share->page->last, 1) + 1;
}

uint64_t event_share_last(const struct event_share *share)
{
	return atomic_load(&share->page->last);
}

static void raise(_Atomic uint64_t *to, uint64_t value)
{
	uint64_t before = atomic_load(to);

	while (before < value && !atomic_compare_exchange_weak(to, &before, value))
		;
}

void event_share_reach(struct event_share *share, uint64_t ticket, uint64_t time_ns)
{
	raise(&share->page->time_ns, time_ns);
	raise(&share->page->reached, ticket);
	clock_wake(&share->page->wakes);
}

/* No process is left that could reach it. */
static bool is_orphan(const struct page *page)
{
	const struct segment *segment = segment_get();
	uint32_t slot = atomic_load(&page->slot);

	return slot >= segment_slots(segment) ||
	       atomic_load(&segment->processes[slot].state) != SEGMENT_ALIVE ||
	       segment->processes[slot].start_ticks != atomic_load(&page->start_ticks);
}

bool event_share_reached(struct event_share *share, uint64_t ticket, uint64_t *ret_time_ns)
{
	bool reached = atomic_load(&share->page->reached) >= ticket;

	if (!reached && is_orphan(share->page)) {
		event_share_reach(share, event_share_last(share), 0);
		reached = true;
	}
	*ret_time_ns = atomic_load(&share->page->time_ns);
	return reached;
}

bool event_share_wait(struct event_share *share, uint64_t ticket, const struct stream_set *waiter,
		      uint64_t *ret_time_ns)
{
	for (;;) {
		uint32_t before = atomic_load(&share->page->wakes);

		if (event_share_reached(share, ticket, ret_time_ns))
			return true;
		if (waiter && stream_set_ending(waiter))
			return false;
		if (clock_wait_until(clock_now_ns() + CHECK_NS, &share->page->wakes, before) == 0)
			(void)segment_reap();
	}
}
