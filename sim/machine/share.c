/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/machine/device.h"

#define NOBODY UINT32_MAX /* pays */

static bool bit(const uint64_t *bits, uint32_t slot)
{
	return bits[slot / 64] >> slot % 64 & 1;
}

static void set_bit(uint64_t *bits, uint32_t slot, bool on)
{
	bits[slot / 64] = (bits[slot / 64] & ~(1ull << slot % 64)) | (uint64_t)on << slot % 64;
}

/* ---- with the device's lock held ------------------------------------------------------------ */

static struct segment_share *find(struct segment_device *book, uint64_t id)
{
	for (uint32_t i = 0; id && i < book->shares_high; i++)
		if (book->shares[i].id == id)
			return &book->shares[i];
	return NULL;
}

/* NULL where the table is full. Its id is written last: from then on it counts. */
static struct segment_share *share_new(struct segment_device *book, uint64_t bytes, uint32_t slot,
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
	set_bit(share->holders, slot, true);
	if (i == book->shares_high)
		book->shares_high = i + 1;
	atomic_store(&share->id, id | 1);
	return share;
}

/* After holders have gone. If the process is killed in between, a sum over what has an id mends it.
 */
static void settle(struct segment_device *book, struct segment_share *share)
{
	uint64_t any = 0;

	if (share->payer != NOBODY && !bit(share->holders, share->payer))
		share->payer = NOBODY;
	for (size_t i = 0; i < ARRAY_SIZE(share->holders); i++)
		any |= share->holders[i];
	if (any)
		return;
	atomic_store(&share->id, 0);
	book->used_bytes -= share->bytes;
}

static void drop(struct segment_device *book, struct segment_share *share, uint32_t slot)
{
	set_bit(share->watching, slot, false);
	set_bit(share->holders, slot, false);
	settle(book, share);
}

void share_bury(struct segment_device *book, uint32_t slot)
{
	for (uint32_t i = 0; i < book->shares_high; i++)
		if (book->shares[i].id)
			drop(book, &book->shares[i], slot);
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

/* ---- a process's own ------------------------------------------------------------------------ */

static struct segment_device *book_of(int device)
{
	return &segment_get()->devices[device_place(device)];
}

/* Of the caller's own bytes; `pays`: they stay its own to pay. */
static int make(int device, uint64_t bytes, bool pays, uint64_t *ret_id)
{
	struct segment_process *self = segment_self();
	uint32_t slot;
	struct segment_share *share;
	struct segment_device *book;
	int r = DEVICE_FULL;

	if (!self)
		return -ENODEV;
	book = book_of(device);
	segment_lock(book);
	slot = segment_number(self);
	share = share_new(book, bytes, slot, pays ? slot : NOBODY);
	if (share) {
		/* Counted twice if killed before this, and then not at all: both are buried. */
		self->usage[device_place(device)].used_bytes -= bytes;
		*ret_id = share->id;
		r = 0;
	}
	segment_unlock(book);
	return r;
}

int share_make(int device, uint64_t bytes, uint64_t *ret_id)
{
	return make(device, bytes, true, ret_id);
}

int share_join(int device, uint64_t bytes, uint64_t *id)
{
	struct segment_process *self = segment_self();
	struct segment_share *share;
	struct segment_device *book;
	int r;

	if (!self)
		return -ENODEV;
	book = book_of(device);
	segment_lock(book);
	share = find(book, *id);
	if (share && share->bytes == bytes) {
		set_bit(share->holders, segment_number(self), true);
		set_bit(share->watching, segment_number(self), false);
		segment_unlock(book);
		return 0;
	}
	segment_unlock(book);
	r = device_take(device, bytes);
	if (r != 0)
		return r;
	r = make(device, bytes, false, id);
	if (r != 0)
		device_give(device, bytes);
	return r;
}

void share_leave(int device, uint64_t id)
{
	struct segment_process *self = segment_self();
	struct segment_share *share;

	if (!self)
		return;
	segment_lock(book_of(device));
	share = find(book_of(device), id);
	if (share)
		drop(book_of(device), share, segment_number(self));
	segment_unlock(book_of(device));
}

bool share_held(int device, uint64_t id)
{
	struct segment_process *self = segment_self();
	const struct segment_share *share;
	bool held;

	if (!self)
		return false;
	segment_lock(book_of(device));
	share = find(book_of(device), id);
	held = share && bit(share->holders, segment_number(self));
	segment_unlock(book_of(device));
	return held;
}

void share_watch(int device, uint64_t id, int fd)
{
	struct segment_process *self = segment_self();
	struct segment_share *share;
	struct stat about;

	if (!self || fstat(fd, &about) < 0)
		return;
	segment_lock(book_of(device));
	share = find(book_of(device), id);
	if (share && bit(share->holders, segment_number(self))) {
		set_bit(share->watching, segment_number(self), true);
		share->watch_inode = about.st_ino;
		share->watch_pid = self->pid;
		share->watch_namespace_id = self->namespace_id;
		share->watch_fd = fd;
	}
	segment_unlock(book_of(device));
}

int share_mark(int fd)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

bool share_marked(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* ---- others' -------------------------------------------------------------------------------- */

/* Sure that no descriptor is left? */
static bool unmarked(const struct segment_share *share, uint64_t own_namespace)
{
	char path[64];
	owned(close) int fd = -1;
	struct stat about;

	if (share->watch_namespace_id != own_namespace)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", share->watch_pid, share->watch_fd);
	/* Whatever may be there by now, opening it must not wait. */
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

	for (uint32_t d = 0; d < SETTINGS_DEVICES_MAX; d++)
		for (uint32_t i = 0; i < segment->devices[d].shares_high; i++)
			count += reap_one(&segment->devices[d], i, own_namespace);
	return count;
}
