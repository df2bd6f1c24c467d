/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves, for other processes: the lender's side. */
#include "guest/movable/movable_lend.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include <sys/socket.h>

#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/link/link.h"
#include "guest/movable/movable.h"
#include "guest/movable/movable_object.h"
#include "guest/process/parts.h"

enum {
	CALLS = 16,
	READS_MS = 2000, /* a caller that reads nothing for so long gets no more */
};

static const char magic[8] = "mete-ipc";

struct call {
	uint64_t area;
	int fd;
};

static struct {
	struct futex_lock lock;
	_Atomic uint32_t named;	      /* `name` is valid; it does not change */
	_Atomic uint32_t unconfirmed; /* meted has not confirmed the name */
	_Atomic uint32_t count;	      /* of calls */
	uint8_t name[16];
	struct call call[CALLS]; /* first in, first out */
} lend;

bool lend_is_handle(const CUipcMemHandle_v1 *handle)
{
	return memcmp(handle, magic, sizeof(magic)) == 0;
}

bool lend_own_name(uint8_t ret_name[16])
{
	if (!atomic_load(&lend.named))
		return false;
	memcpy(ret_name, lend.name, sizeof(lend.name));
	return true;
}

/* ---- the name -------------------------------------------------------------------------------- */

static bool state_name(struct wire_message *ret_message)
{
	ret_message->code = WIRE_lend;
	return lend_own_name(ret_message->lend.name.byte);
}

int lend_tell(parts_send *send)
{
	struct wire_message message;

	return state_name(&message) ? send(&message) : 0;
}

static int write_lend(struct link_word *word, struct wire_message *message)
{
	(void)word;
	return state_name(message) ? 0 : LINK_MOOT;
}

/* Tells meted the name. If that fails now, the next daemon is told. */
static void confirm_name(void)
{
	struct link_word word = {write_lend, NULL};
	struct wire_answer answer;

	if (link_ask(&word, LINK_AT_ONCE, NULL, &answer) == 0 && answer.code == WIRE_done)
		atomic_store(&lend.unconfirmed, 0);
}

static bool invent_name(void)
{
	int saved = errno;
	bool invented = true;

	futex_lock_take(&lend.lock);
	if (!atomic_load(&lend.named)) {
		invented = syscall(SYS_getrandom, lend.name, sizeof(lend.name), 0) ==
			   (long)sizeof(lend.name);
		atomic_store(&lend.unconfirmed, invented);
		atomic_store(&lend.named, invented);
	}
	futex_lock_give(&lend.lock);
	errno = saved;
	return invented;
}

CUresult lend_name(uint64_t address, CUipcMemHandle_v1 *ret_handle)
{
	struct lend_handle handle = {.reserved = 0};
	struct movable_seen seen;
	struct movable_area *area;
	bool found;

	if (!movable_.about.requestedHandleTypes)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!ret_handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!invent_name())
		return CUDA_ERROR_OPERATING_SYSTEM;
	if (!movable_pin(address, WIRE_UNMOVABLE_SHARED))
		return CUDA_ERROR_INVALID_VALUE;
	futex_lock_take(&movable_.lock);
	area = movable_around(address);
	found = area && movable_area_find(area, address, &seen);
	if (found) {
		handle.area = area->id;
		handle.area_bytes = area->bytes;
		handle.offset = seen.base - area->base;
		handle.bytes = seen.bytes;
	}
	futex_lock_give(&movable_.lock);
	if (!found)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(handle.magic, magic, sizeof(magic));
	memcpy(handle.lender, lend.name, sizeof(lend.name));
	if (atomic_load(&lend.unconfirmed))
		confirm_name();
	memcpy(ret_handle, &handle, sizeof(handle));
	return CUDA_SUCCESS;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void called(const struct wire_channel *channel, int fd)
{
	uint32_t count;

	futex_lock_take(&lend.lock);
	count = atomic_load(&lend.count);
	if (count < CALLS) {
		lend.call[count] = (struct call){channel->area, fd};
		atomic_store(&lend.count, count + 1);
		fd = -1;
	}
	futex_lock_give(&lend.lock);
	if (fd >= 0)
		close(fd);
	else
		movable_kick();
}

void lend_heard(const struct wire_message *message, int *fd)
{
	if (message->code != WIRE_channel || *fd < 0)
		return;
	called(&message->channel, *fd);
	*fd = -1;
}

static bool next_call(struct call *ret_call)
{
	uint32_t count;

	if (!atomic_load(&lend.count))
		return false;
	futex_lock_take(&lend.lock);
	count = atomic_load(&lend.count);
	if (count) {
		*ret_call = lend.call[0];
		memmove(&lend.call[0], &lend.call[1], (count - 1) * sizeof(lend.call[0]));
		atomic_store(&lend.count, count - 1);
	}
	futex_lock_give(&lend.lock);
	return count != 0;
}

/* Block `index` of the area, if that was lent. */
static bool block_of(uint64_t id, uint32_t index, uint64_t *ret_address, struct lend_part *ret_part)
{
	const struct movable_area *area = NULL;
	bool found;

	futex_lock_take(&movable_.lock);
	for (size_t i = 0; i < movable_.areas.count && !area; i++)
		if (movable_area_at(i)->id == id)
			area = movable_area_at(i);
	found = area && (area->why & WIRE_UNMOVABLE_SHARED) && index < area->count;
	if (found) {
		*ret_address = area->block[index].address;
		*ret_part = (struct lend_part){*ret_address - area->base, area->block[index].bytes};
	}
	futex_lock_give(&movable_.lock);
	return found;
}

static bool send_part(int channel, const struct lend_part *part, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.room = {0}};
	struct iovec content = {(void *)part, sizeof(*part)};
	struct msghdr message = {.msg_iov = &content,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control.room)};
	struct pollfd room = {.fd = channel, .events = POLLOUT};
	struct timespec limit = {READS_MS / 1000, 0};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	while (syscall(SYS_sendmsg, channel, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		if (errno != EAGAIN || ppoll(&room, 1, &limit, NULL) <= 0)
			return false;
	return true;
}

static bool send_block(int channel, uint64_t address, const struct lend_part *part)
{
	CUmemGenericAllocationHandle handle;
	CUresult r =
		driver_call(real(cuMemRetainAllocationHandle)(&handle, (void *)(uintptr_t)address));
	bool sent = false;
	int fd = -1;

	if (r != CUDA_SUCCESS)
		return false;
	r = driver_call(real(cuMemExportToShareableHandle)(
		&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	best_effort(driver_call(real(cuMemRelease)(handle)));
	if (r == CUDA_SUCCESS) {
		sent = send_part(channel, part, fd);
		close(fd);
	}
	return sent;
}

/* The parts tell the caller when it has all. */
bool lend_step(void)
{
	int saved = errno;
	struct lend_part part;
	struct call call;
	uint64_t address;

	if (!next_call(&call))
		return false;
	/* Noted first, so that a thread that frees the area from here on sees that it is lent. */
	if (!debt_add(call.area, call.fd)) {
		close(call.fd);
		return true;
	}
	for (uint32_t i = 0; block_of(call.area, i, &address, &part); i++)
		if (!send_block(call.fd, address, &part))
			break;
	/* A caller that has not got all parts sees the end of the channel, and closes its own. */
	best_effort((int)syscall(SYS_shutdown, call.fd, SHUT_WR));
	errno = saved;
	return true;
}

void lend_forget(void)
{
	for (uint32_t i = 0; i < atomic_load(&lend.count); i++)
		close(lend.call[i].fd);
	memset(&lend, 0, sizeof(lend));
}
