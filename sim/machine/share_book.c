/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/share_book.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

bool share_bit(const uint64_t *bits, uint32_t slot)
{
	return bits[slot / 64] >> slot % 64 & 1;
}

void share_set_bit(uint64_t *bits, uint32_t slot, bool on)
{
	bits[slot / 64] = (bits[slot / 64] & ~(1ull << slot % 64)) | (uint64_t)on << slot % 64;
}

struct segment_share *share_find(struct segment_device *book, uint64_t id)
{
	for (uint32_t i = 0; id && i < book->shares_high; i++)
		if (book->shares[i].id == id)
			return &book->shares[i];
	return NULL;
}

/* NULL if the table is full. The id is written last: from then on the share counts. */
struct segment_share *share_new(struct segment_device *book, uint64_t bytes, uint32_t slot,
				uint32_t payer)
{
	struct segment_share *share;
	uint64_t id = 0;
	uint32_t i = 0;

	while (i < book->shares_high && book->shares[i].id)
		i++;
	if (i == SEGMENT_SHARES_MAX || getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return NULL;
	share = &book->shares[i];
	memset(share, 0, sizeof(*share));
	share->bytes = bytes;
	share->payer = payer;
	share_set_bit(share->holders, slot, true);
	if (i == book->shares_high)
		book->shares_high = i + 1;
	atomic_store(&share->id, id | 1);
	return share;
}

/* To be called after holders have gone. If the process is killed in between, a sum over all shares
 * mends it. */
static void settle(struct segment_device *book, struct segment_share *share)
{
	uint64_t any = 0;

	if (share->payer != SHARE_NOBODY && !share_bit(share->holders, share->payer))
		share->payer = SHARE_NOBODY;
	for (size_t i = 0; i < ARRAY_SIZE(share->holders); i++)
		any |= share->holders[i];
	if (any)
		return;
	atomic_store(&share->id, 0);
	book->used_bytes -= share->bytes;
}

void share_drop(struct segment_device *book, struct segment_share *share, uint32_t slot)
{
	share_set_bit(share->watching, slot, false);
	share_set_bit(share->holders, slot, false);
	settle(book, share);
}

void share_bury(struct segment_device *book, uint32_t slot)
{
	for (uint32_t i = 0; i < book->shares_high; i++)
		if (book->shares[i].id)
			share_drop(book, &book->shares[i], slot);
}

uint64_t share_sum(const struct segment_device *book)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < book->shares_high; i++)
		if (book->shares[i].id)
			bytes += book->shares[i].bytes;
	return bytes;
}

uint64_t share_paid_by(const struct segment_device *book, uint32_t slot)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < book->shares_high; i++)
		if (book->shares[i].id && book->shares[i].payer == slot)
			bytes += book->shares[i].bytes;
	return bytes;
}

bool share_marked(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* ---- others' -------------------------------------------------------------------------------- */

/* Is it certain that no descriptor is left? */
static bool unmarked(const struct segment_share *share, uint64_t own_namespace)
{
	char path[64];
	owned(close) int fd = -1;
	struct stat about;

	if (share->watch_namespace_id != own_namespace)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", share->watch_pid, share->watch_fd);
	/* The descriptor may be another file by now: opening it must not block. */
	fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd >= 0 && fstat(fd, &about) == 0 && about.st_ino == share->watch_inode &&
	       !share_marked(fd);
}

static bool is_watched(const struct segment_share *share)
{
	uint64_t any = 0;

	for (size_t i = 0; i < ARRAY_SIZE(share->watching); i++)
		any |= share->watching[i];
	return share->id && any;
}

static unsigned reap_one(struct segment_device *book, uint32_t i, uint64_t own_namespace)
{
	struct segment_share *share = &book->shares[i], seen;
	unsigned count = 0;

	if (!atomic_load(&share->id))
		return 0;
	segment_lock(book);
	seen = *share;
	segment_unlock(book);
	if (!is_watched(&seen) || !unmarked(&seen, own_namespace))
		return 0;
	segment_lock(book);
	if (share->id == seen.id) {
		for (size_t k = 0; k < ARRAY_SIZE(share->holders); k++) {
			share->holders[k] &= ~(share->watching[k] & seen.watching[k]);
			share->watching[k] &= ~seen.watching[k];
		}
		settle(book, share);
		count = 1;
	}
	segment_unlock(book);
	return count;
}

unsigned share_reap(struct segment *segment, uint64_t own_namespace)
{
	unsigned count = 0;

	for (uint32_t d = 0; d < segment_places(segment); d++)
		for (uint32_t i = 0; i < segment->devices[d].shares_high; i++)
			count += reap_one(&segment->devices[d], i, own_namespace);
	return count;
}
