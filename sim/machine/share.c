/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/share.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/machine/device.h"

/* ---- a process's own ------------------------------------------------------------------------ */

static struct segment_device *book_of(int device)
{
	return &segment_get()->devices[device_place(device)];
}

/* For bytes of the caller; `pays`: the caller continues to pay for them. */
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
	share = share_new(book, bytes, slot, pays ? slot : SHARE_NOBODY);
	if (share) {
		/* If the process is killed before this, the bytes are counted twice until both
		 * entries are reaped. */
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
	share = share_find(book, *id);
	if (share && share->bytes == bytes) {
		share_set_bit(share->holders, segment_number(self), true);
		share_set_bit(share->watching, segment_number(self), false);
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
	share = share_find(book_of(device), id);
	if (share)
		share_drop(book_of(device), share, segment_number(self));
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
	share = share_find(book_of(device), id);
	held = share && share_bit(share->holders, segment_number(self));
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
	share = share_find(book_of(device), id);
	if (share && share_bit(share->holders, segment_number(self))) {
		share_set_bit(share->watching, segment_number(self), true);
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
