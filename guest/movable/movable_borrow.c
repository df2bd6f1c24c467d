/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that moves, of other processes: the borrower's side. */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/socket.h>

#include "guest/credit/blocks.h"
#include "guest/credit/ranges.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/driver_lock.h"
#include "guest/link/link.h"
#include "guest/movable/movable_lend.h"
#include "guest/process/parts.h"

enum {
	ANSWER_MS = 10000, /* as long as meted may take to answer */
	AGAIN_MS = 50,
	RECORD_BYTES = 4096,
};

/* An opened handle: one page. */
struct borrowed {
	struct lend_handle handle;
	uint64_t base, owner; /* of the mapping; a context */
	uint32_t opened;      /* how often */
	int channel;	      /* to the lender, which sees by it that this is open */
};

/* Indexed by the whole mapping. The lock is held while one is opened or closed, so that two threads
 * that open the same handle get the same address. */
static struct {
	struct driver_lock lock;
	_Atomic uint32_t count;
	struct ranges maps;
} borrow;

static struct borrowed *at(const struct range *range)
{
	return (struct borrowed *)(uintptr_t)range->value;
}

/* ---- the channel ----------------------------------------------------------------------------- */

struct borrow_word {
	struct link_word word;
	const struct lend_handle *handle;
};

static int write_borrow(struct link_word *word, struct wire_message *message)
{
	const struct borrow_word *about = container_of(word, struct borrow_word, word);

	message->code = WIRE_borrow;
	memcpy(message->borrow.name.byte, about->handle->lender, sizeof(about->handle->lender));
	message->borrow.area = about->handle->area;
	return 0;
}

/* Connects to the lender. Waits if a new meted does not know it yet. Returns a descriptor, or -1.
 */
static int call_lender(const struct lend_handle *handle)
{
	struct borrow_word about = {{write_borrow, NULL}, handle};
	struct wire_answer answer;
	uint32_t never = 0;

	for (int i = 0; i < ANSWER_MS / AGAIN_MS; i++) {
		int fd = -1, r = link_ask(&about.word, LINK_AT_ONCE, &fd, &answer);

		if (r == 0 && answer.code == WIRE_channel && fd >= 0)
			return fd;
		if (fd >= 0)
			close(fd);
		if (r != 0 || answer.code != WIRE_refused ||
		    answer.refused.code != WIRE_REFUSED_BAD)
			return -1;
		futex_wait(&never, 0, AGAIN_MS, FUTEX_PRIVATE_FLAG);
	}
	return -1;
}

/* Receives the next part and its descriptor; -1: the lender no longer has the memory. */
static int receive_part(int channel, struct lend_part *ret_part)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.room = {0}};
	struct iovec content = {ret_part, sizeof(*ret_part)};
	struct msghdr message = {.msg_iov = &content,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control.room)};
	struct pollfd about = {.fd = channel, .events = POLLIN};
	struct timespec limit = {ANSWER_MS / 1000, 0};
	ssize_t n;
	int fd = -1;

	do
		n = ppoll(&about, 1, &limit, NULL);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		n = recvmsg(channel, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n > 0 && message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
	    control.header.cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(&control.header), sizeof(int));
	if (fd >= 0 && n != (ssize_t)sizeof(*ret_part)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* ---- mapping --------------------------------------------------------------------------------- */

static CUresult map_part(uint64_t address, uint64_t bytes, int fd)
{
	CUmemGenericAllocationHandle handle;
	CUresult r = driver_call(real(cuMemImportFromShareableHandle)(
		&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));

	if (r != CUDA_SUCCESS)
		return r;
	r = driver_call(real(cuMemMap)(address, bytes, 0, handle, 0));
	best_effort(driver_call(real(cuMemRelease)(handle)));
	return r;
}

/* The parts come in order. Returns in *ret_mapped how far it got. */
static CUresult map_parts(int channel, uint64_t base, uint64_t bytes, uint64_t *ret_mapped)
{
	struct lend_part part;
	CUresult r = CUDA_SUCCESS;

	*ret_mapped = 0;
	while (r == CUDA_SUCCESS && *ret_mapped < bytes) {
		int fd = receive_part(channel, &part);

		if (fd < 0)
			return CUDA_ERROR_MAP_FAILED;
		r = part.offset == *ret_mapped && part.bytes && part.bytes <= bytes - part.offset
			    ? map_part(base + part.offset, part.bytes, fd)
			    : CUDA_ERROR_MAP_FAILED;
		close(fd);
		if (r == CUDA_SUCCESS)
			*ret_mapped += part.bytes;
	}
	return r;
}

static void unmap(uint64_t base, uint64_t mapped, uint64_t bytes)
{
	if (mapped)
		best_effort(driver_call(real(cuMemUnmap)(base, mapped)));
	best_effort(driver_call(real(cuMemAddressFree)(base, bytes)));
}

static CUresult map(const struct lend_handle *handle, CUdeviceptr *ret_base, int *ret_channel)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
				  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	int saved = errno, channel;
	CUdeviceptr base = 0;
	uint64_t mapped;
	CUresult r = driver_call(real(cuCtxGetDevice)(&access.location.id));

	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuMemAddressReserve)(&base, handle->area_bytes, 0, 0, 0));
	if (r != CUDA_SUCCESS)
		return r;
	channel = call_lender(handle);
	r = channel < 0 ? CUDA_ERROR_MAP_FAILED
			: map_parts(channel, base, handle->area_bytes, &mapped);
	if (channel < 0)
		mapped = 0;
	if (r == CUDA_SUCCESS)
		r = driver_call(real(cuMemSetAccess)(base, handle->area_bytes, &access, 1));
	if (r == CUDA_SUCCESS) {
		*ret_base = base;
		*ret_channel = channel;
	} else {
		unmap(base, mapped, handle->area_bytes);
		if (channel >= 0)
			close(channel);
	}
	errno = saved;
	return r;
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* With the lock held. */
static struct borrowed *opened_before(const struct lend_handle *handle, uint64_t owner)
{
	for (size_t i = 0; i < borrow.maps.count; i++) {
		struct borrowed *it = at(&borrow.maps.range[i]);

		if (it->owner == owner && memcmp(&it->handle, handle, sizeof(*handle)) == 0)
			return it;
	}
	return NULL;
}

/* With the lock held. */
static CUresult note(const struct lend_handle *handle, uint64_t owner, uint64_t base, int channel)
{
	struct borrowed *it = mmap(NULL, RECORD_BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (it == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*it = (struct borrowed){*handle, base, owner, 1, channel};
	if (ranges_add(&borrow.maps, base, handle->area_bytes, (uint64_t)(uintptr_t)it) < 0) {
		munmap(it, RECORD_BYTES);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	atomic_store(&borrow.count, (uint32_t)borrow.maps.count);
	return CUDA_SUCCESS;
}

static bool is_sound(const struct lend_handle *handle)
{
	return handle->area_bytes && handle->area_bytes % BLOCKS_BYTES == 0 &&
	       handle->offset < handle->area_bytes &&
	       handle->bytes <= handle->area_bytes - handle->offset;
}

CUresult borrow_open(const CUipcMemHandle_v1 *from, unsigned flags, CUdeviceptr *ret_address)
{
	struct lend_handle handle;
	struct borrowed *before;
	CUcontext context = NULL;
	uint8_t own[sizeof(handle.lender)];
	CUdeviceptr base = 0;
	int channel = -1;
	CUresult r;
	bool mine;

	memcpy(&handle, from, sizeof(handle));
	if (!ret_address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || !is_sound(&handle))
		return CUDA_ERROR_INVALID_VALUE;
	r = driver_call(real(cuCtxGetCurrent)(&context));
	if (r != CUDA_SUCCESS)
		return r;
	if (!context || (lend_own_name(own) && memcmp(own, handle.lender, sizeof(own)) == 0))
		return CUDA_ERROR_INVALID_CONTEXT;
	mine = driver_lock_take(&borrow.lock);
	before = opened_before(&handle, (uint64_t)(uintptr_t)context);
	if (before) {
		before->opened++;
		base = before->base;
	} else {
		r = map(&handle, &base, &channel);
		if (r == CUDA_SUCCESS) {
			r = note(&handle, (uint64_t)(uintptr_t)context, base, channel);
			if (r != CUDA_SUCCESS) {
				unmap(base, handle.area_bytes, handle.area_bytes);
				close(channel);
			}
		}
	}
	driver_lock_give(&borrow.lock, mine);
	if (r == CUDA_SUCCESS)
		*ret_address = base + handle.offset;
	return r;
}

/* With the lock held: takes it out of the table. */
static void end(struct borrowed *it)
{
	struct range range;

	unmap(it->base, it->handle.area_bytes, it->handle.area_bytes);
	close(it->channel);
	best_effort(ranges_take(&borrow.maps, it->base, it->handle.area_bytes, &range));
	atomic_store(&borrow.count, (uint32_t)borrow.maps.count);
	munmap(it, RECORD_BYTES);
}

/* Like the driver's own: waits for work that uses the memory. */
CUresult borrow_close(CUdeviceptr address, bool *ret_gone)
{
	const struct range *range;
	struct borrowed *it = NULL;
	bool mine;

	*ret_gone = false;
	if (!atomic_load(&borrow.count))
		return CUDA_ERROR_NOT_FOUND;
	mine = driver_lock_take(&borrow.lock);
	range = ranges_find(&borrow.maps, address);
	if (range && at(range)->base + at(range)->handle.offset == address)
		it = at(range);
	if (it && it->opened > 1) {
		it->opened--;
	} else if (it) {
		best_effort(driver_call(real(cuCtxSynchronize)()));
		end(it);
		*ret_gone = true;
	}
	driver_lock_give(&borrow.lock, mine);
	return it ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

bool borrow_find(uint64_t address, uint64_t *ret_base, uint64_t *ret_bytes)
{
	const struct range *range;
	bool found = false, mine;

	if (!atomic_load(&borrow.count))
		return false;
	mine = driver_lock_take(&borrow.lock);
	range = ranges_find(&borrow.maps, address);
	if (range) {
		*ret_base = at(range)->base + at(range)->handle.offset;
		*ret_bytes = at(range)->handle.bytes;
		found = address - *ret_base < *ret_bytes;
	}
	driver_lock_give(&borrow.lock, mine);
	return found;
}

/* ---- contexts -------------------------------------------------------------------------------- */

void borrow_rename(uint64_t owner, uint64_t now)
{
	bool mine;

	if (!atomic_load(&borrow.count))
		return;
	mine = driver_lock_take(&borrow.lock);
	for (size_t i = 0; i < borrow.maps.count; i++)
		if (at(&borrow.maps.range[i])->owner == owner)
			at(&borrow.maps.range[i])->owner = now;
	driver_lock_give(&borrow.lock, mine);
}

void borrow_context_gone(uint64_t owner)
{
	bool mine;

	if (!atomic_load(&borrow.count))
		return;
	mine = driver_lock_take(&borrow.lock);
	for (size_t i = borrow.maps.count; i > 0; i--)
		if (at(&borrow.maps.range[i - 1])->owner == owner)
			end(at(&borrow.maps.range[i - 1]));
	driver_lock_give(&borrow.lock, mine);
}

/* The channels of a child of fork() are its parent's, whose end its lenders wait for. */
void borrow_forget(void)
{
	for (size_t i = 0; i < borrow.maps.count; i++)
		close(at(&borrow.maps.range[i])->channel);
	ranges_forget(&borrow.maps);
	memset(&borrow, 0, sizeof(borrow));
}
