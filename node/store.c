/* SPDX-License-Identifier: Apache-2.0 */
#include "node/store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MFD_HUGE_2MB
#define MFD_HUGE_2MB (21u << 26)
#endif

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct store {
	struct stores *stores;
	struct list segments; /* by offset */
	struct list ended;
	uint64_t size, used;
	int fd;
	bool closing;
};

static void start(struct stores *stores);

/* ---- the host -------------------------------------------------------------------------------- */

/* Reads "MemAvailable:   123 kB"; 0: it is not there. */
static uint64_t memory_info(const char *key)
{
	owned(fclose) FILE *file = fopen("/proc/meminfo", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, key, strlen(key)) == 0)
			return strtoull(line + strlen(key), NULL, 10) * 1024;
	}
	return 0;
}

uint64_t stores_usual_budget(void)
{
	return memory_info("MemAvailable:") / 2;
}

/* Bytes in free huge pages. */
static uint64_t huge_bytes(void)
{
	owned(fclose) FILE *file =
		fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	char line[32];

	if (!file || !fgets(line, sizeof(line), file))
		return 0;
	return strtoull(line, NULL, 10) * STORE_GRAIN;
}

/* ---- on the worker --------------------------------------------------------------------------- */

/* Faults pages in through a mapping that is aligned for huge pages and requests them: fallocate()
 * would use them only if the administrator enabled them everywhere. Failures do not matter. */
static void fault_huge(int fd, uint64_t offset, uint64_t bytes)
{
	uint8_t *area =
		mmap(NULL, bytes + STORE_GRAIN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *at;

	if (area == MAP_FAILED)
		return;
	at = area + (STORE_GRAIN - (uintptr_t)area % STORE_GRAIN) % STORE_GRAIN;
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) ==
	    at) {
		best_effort(madvise(at, bytes, MADV_HUGEPAGE));
		best_effort(madvise(at, bytes, MADV_POPULATE_WRITE));
	}
	munmap(area, bytes + STORE_GRAIN);
}

static int punch(int fd, uint64_t offset, uint64_t bytes)
{
	int r;

	do
		r = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			      (off_t)bytes);
	while (r != 0 && errno == EINTR);
	return r == 0 ? 0 : -errno;
}

/* Punches first, because a guest may have written where it had no segment yet. */
static int prepare(int fd, uint64_t offset, uint64_t bytes)
{
	int r = punch(fd, offset, bytes);

	if (r < 0)
		return r;
	fault_huge(fd, offset, bytes);
	do
		r = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
	while (r != 0 && errno == EINTR);
	return r == 0 ? 0 : -errno;
}

static void run(struct loop_work *work)
{
	struct stores *s = container_of(work, struct stores, work);

	if (s->closing)
		close(s->fd);
	else if (s->clear)
		s->error = punch(s->fd, s->offset, s->bytes);
	else
		s->error = prepare(s->fd, s->offset, s->bytes);
}

/* ---- segments -------------------------------------------------------------------------------- */

static void end_if_empty(struct store *store)
{
	if (!store->closing || !list_empty(&store->segments) || list_linked(&store->ended))
		return;
	list_append(&store->stores->ended, &store->ended);
}

/* Called when the segment has no pages left. */
static void drop(struct store_segment *segment)
{
	struct store *store = segment->store;

	store->used -= segment->bytes;
	store->stores->used_bytes -= segment->bytes;
	store->stores->leaving_bytes -= segment->bytes;
	list_remove(&segment->link);
	list_remove(&segment->job);
	free(segment);
	end_if_empty(store);
}

static struct store_segment *insert(struct store *store, struct list *before, uint64_t offset,
				    uint64_t bytes)
{
	struct store_segment *segment = calloc(1, sizeof(*segment));

	if (!segment)
		return NULL;
	segment->store = store;
	segment->offset = offset;
	segment->bytes = bytes;
	list_append(before, &segment->link);
	store->used += bytes;
	store->stores->used_bytes += bytes;
	return segment;
}

/* Finds the first gap for so many bytes, and the segment behind it. False: none is large enough. */
static bool find_place(struct store *store, uint64_t bytes, uint64_t *ret_offset,
		       struct list **ret_before)
{
	uint64_t offset = 0;

	list_for_each(link, &store->segments)
	{
		const struct store_segment *s = list_entry(link, struct store_segment, link);

		if (s->offset - offset >= bytes) {
			*ret_offset = offset;
			*ret_before = link;
			return true;
		}
		offset = s->offset + s->bytes;
	}
	*ret_offset = offset;
	*ret_before = &store->segments;
	return store->size - offset >= bytes;
}

int store_take(struct store *store, uint64_t bytes,
	       void (*ready)(struct store_segment *segment, int error),
	       struct store_segment **ret_segment)
{
	struct stores *s = store->stores;
	struct store_segment *segment;
	struct list *before;
	uint64_t offset;

	if (!bytes || store->closing)
		return -EINVAL;
	if (bytes > store->size - store->used)
		return STORE_QUOTA;
	bytes = (bytes + STORE_GRAIN - 1) / STORE_GRAIN * STORE_GRAIN;
	if (bytes > store->size - store->used || !find_place(store, bytes, &offset, &before))
		return STORE_QUOTA;
	if (s->used_bytes > s->budget_bytes || bytes > s->budget_bytes - s->used_bytes)
		return STORE_BUDGET;
	segment = insert(store, before, offset, bytes);
	if (!segment)
		return -ENOMEM;
	segment->ready = ready;
	list_append(&s->jobs, &segment->job);
	start(s);
	*ret_segment = segment;
	return 0;
}

void store_give_back(struct store_segment *segment)
{
	struct stores *s = segment->store->stores;

	segment->given_back = true;
	s->leaving_bytes += segment->bytes;
	list_remove(&segment->owned);
	/* A segment at work is examined when its current piece is done. */
	if (s->at_work != segment && !list_linked(&segment->job))
		list_append(&s->jobs, &segment->job);
	start(s);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static uint64_t piece(uint64_t left)
{
	return left < STORE_PIECE ? left : STORE_PIECE;
}

static void finish_prepare(struct stores *s, struct store_segment *segment)
{
	int error = s->error;

	/* A piece that failed may have some pages. */
	segment->done += s->bytes;
	if (segment->given_back || (error == 0 && segment->done < segment->bytes)) {
		list_append(&s->jobs, &segment->job);
		return;
	}
	segment->prepared = true;
	if (error < 0) {
		log_error("store.failed", "bytes=%" PRIu64 " reason=%s", segment->bytes,
			  log_text(strerror(-error)).text);
		segment->given_back = true;
		s->leaving_bytes += segment->bytes;
		list_remove(&segment->owned);
		list_append(&s->jobs, &segment->job);
	}
	segment->ready(segment, error);
}

static void finish_clear(struct stores *s, struct store_segment *segment)
{
	/* The pages go away with the file, and nobody gets them unpunched. */
	if (s->error < 0)
		log_error("store.unpunched", "bytes=%" PRIu64 " reason=%s", s->bytes,
			  log_text(strerror(-s->error)).text);
	segment->done -= s->bytes;
	if (segment->done) {
		list_append(&s->jobs, &segment->job);
		return;
	}
	drop(segment);
	s->cleared(s);
}

static void finished(struct loop_work *work)
{
	struct stores *s = container_of(work, struct stores, work);
	struct store_segment *segment = take(s->at_work);

	if (s->closing) {
		free(take(s->closing));
	} else if (s->clear) {
		finish_clear(s, segment);
	} else {
		finish_prepare(s, segment);
	}
	start(s);
}

/* Chooses what the worker does next; false: nothing. */
static bool choose(struct stores *s)
{
	struct store_segment *segment;

	if (!list_empty(&s->ended)) {
		s->closing = list_entry(s->ended.next, struct store, ended);
		list_remove(&s->closing->ended);
		s->fd = s->closing->fd;
		return true;
	}
	if (list_empty(&s->jobs))
		return false;
	segment = list_entry(s->jobs.next, struct store_segment, job);
	list_remove(&segment->job);
	s->at_work = segment;
	s->fd = segment->store->fd;
	s->clear = segment->given_back;
	if (s->clear) {
		/* Clears from the end. */
		s->bytes = piece(segment->done);
		s->offset = segment->offset + segment->done - s->bytes;
	} else {
		s->bytes = piece(segment->bytes - segment->done);
		s->offset = segment->offset + segment->done;
	}
	return true;
}

static void start(struct stores *s)
{
	while (!s->work.busy && choose(s)) {
		if (s->clear && s->at_work && !s->bytes) {
			drop(take(s->at_work));
			s->cleared(s);
			continue;
		}
		if (loop_work(s->loop, &s->work, run, finished) < 0) {
			/* This does not happen in libuv. It would be slow, but correct. */
			run(&s->work);
			finished(&s->work);
			return;
		}
	}
}

/* ---- stores ---------------------------------------------------------------------------------- */

void stores_init(struct stores *stores, struct loop *loop, uint64_t budget_bytes,
		 void (*cleared)(struct stores *stores))
{
	*stores = (struct stores){.loop = loop, .budget_bytes = budget_bytes, .cleared = cleared};
	list_init(&stores->jobs);
	list_init(&stores->ended);
}

/* Takes `fd`. */
static int make(struct stores *stores, int fd, uint64_t size, struct store **ret_store)
{
	struct store *store = calloc(1, sizeof(*store));

	if (!store) {
		close(fd);
		return -ENOMEM;
	}
	store->stores = stores;
	store->fd = fd;
	store->size = size;
	list_init(&store->segments);
	*ret_store = store;
	return 0;
}

static int make_file(uint64_t size, unsigned more)
{
	owned(close) int fd = memfd_create("mete-store", MFD_CLOEXEC | MFD_ALLOW_SEALING | more);

	if (fd < 0 || ftruncate(fd, (off_t)size) != 0 || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
		return -errno;
	return take_fd(&fd);
}

int store_open(struct stores *stores, uint64_t quota_bytes, struct store **ret_store)
{
	uint64_t size = quota_bytes / STORE_GRAIN * STORE_GRAIN;
	int fd = -ENOMEM;

	if (!size)
		return -ENOSPC;
	if (size > INT64_MAX)
		size = INT64_MAX / STORE_GRAIN * STORE_GRAIN;
	/* All or none: if the huge pages ran out halfway, we could not continue. */
	if (huge_bytes() >= size)
		fd = make_file(size, MFD_HUGETLB | MFD_HUGE_2MB);
	if (fd < 0)
		fd = make_file(size, 0);
	return fd < 0 ? fd : make(stores, fd, size, ret_store);
}

void store_close(struct store *store)
{
	if (!store || store->closing)
		return;
	store->closing = true;
	list_for_each(link, &store->segments)
	{
		struct store_segment *s = list_entry(link, struct store_segment, link);

		if (!s->given_back)
			store_give_back(s);
	}
	end_if_empty(store);
	start(store->stores);
}

void store_forget(struct store *store)
{
	if (!store)
		return;
	list_for_each(link, &store->segments)
	{
		struct store_segment *s = list_entry(link, struct store_segment, link);

		list_remove(&s->owned);
		list_remove(&s->job);
		free(s);
	}
	list_remove(&store->ended);
	close(store->fd);
	free(store);
}

int store_fd(const struct store *store)
{
	return store->fd;
}

uint64_t store_used(const struct store *store)
{
	return store->used;
}

uint64_t store_quota(const struct store *store)
{
	return store->size;
}
