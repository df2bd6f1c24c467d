/* SPDX-License-Identifier: Apache-2.0 */
/* The swap store: meted's file, and the parts of it that belong to this process. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include "guest/credit/blocks.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/link/link.h"
#include "guest/movable/movable_object.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

enum {
	PIN_BYTES = 16 << 20, /* registered at a time */
	PAGE = 4096,
	CHUNK_MOST = 64 << 20,
};

/* The program may close the descriptor, and then get its number for a file of its own. */
static struct {
	int fd; /* + 1 */
	uint32_t file;
	uint32_t connection; /* on which it arrived; offsets are valid on this only */
	uint32_t asked;	     /* the connection on which it was last requested */
	dev_t device;
	ino_t inode;
} store;

static bool store_is_ours(void)
{
	struct stat about;

	return store.fd > 0 && syscall(SYS_fstat, store.fd - 1, &about) == 0 &&
	       about.st_dev == store.device && about.st_ino == store.inode;
}

void movable_store_close(void)
{
	int saved = errno;

	if (store_is_ours())
		close(store.fd - 1);
	memset(&store, 0, sizeof(store));
	errno = saved;
}

void movable_store_take(int fd, uint64_t chunk)
{
	struct stat about;
	dev_t device = store.device;
	ino_t inode = store.inode;
	uint32_t file = store.file, asked = store.asked;

	movable_store_close();
	store.file = file + 1;
	store.connection = store.asked = asked;
	if (syscall(SYS_fstat, fd, &about) == 0) {
		/* The same daemon on another connection knows what is in its file. */
		if (file && about.st_dev == device && about.st_ino == inode) {
			store.file = file;
			movable_held_again();
		} else {
			movable_held_forget();
			movable_store_is_new();
		}
		store.fd = fd + 1;
		store.device = about.st_dev;
		store.inode = about.st_ino;
	} else {
		close(fd);
	}
	if (!movable_.chunk) {
		chunk = chunk < CHUNK_MOST ? chunk & ~(BLOCKS_BYTES - 1) : CHUNK_MOST;
		movable_.chunk = chunk ? chunk : BLOCKS_BYTES;
	}
}

static int write_store(struct link_word *word, struct wire_message *message)
{
	(void)word;
	store.asked = link_connection();
	message->code = WIRE_store_ask;
	message->store_ask.device = atomic_load(&state.device[movable_.device].wire_index);
	return 0;
}

int movable_ask_store(enum link_patience patience)
{
	struct link_word word = {write_store, NULL};
	struct wire_answer answer;
	int fd, r = link_ask(&word, patience, &fd, &answer);

	if (r != 0 || answer.code != WIRE_store || fd < 0) {
		if (fd >= 0)
			close(fd);
		return r < 0 ? r : 1;
	}
	movable_store_take(fd, answer.store.chunk);
	return 0;
}

struct segment_word {
	struct link_word word;
	uint64_t offset, bytes;
};

static int write_ask(struct link_word *word, struct wire_message *message)
{
	const struct segment_word *about = container_of(word, struct segment_word, word);

	if (store.connection != link_connection())
		return LINK_MOOT;
	message->code = WIRE_segment_ask;
	message->segment_ask.device = atomic_load(&state.device[movable_.device].wire_index);
	message->segment_ask.bytes = about->bytes;
	return 0;
}

static int write_return(struct link_word *word, struct wire_message *message)
{
	const struct segment_word *about = container_of(word, struct segment_word, word);

	if (store.connection != link_connection())
		return LINK_MOOT;
	message->code = WIRE_segment_return;
	message->segment_return.device = atomic_load(&state.device[movable_.device].wire_index);
	message->segment_return.offset = about->offset;
	message->segment_return.bytes = about->bytes;
	return 0;
}

int movable_store_return(uint64_t offset, uint64_t bytes, uint64_t *ret_given)
{
	struct segment_word about = {{write_return, NULL}, offset, bytes};
	struct wire_answer answer;
	int r = link_ask(&about.word, LINK_HERE, NULL, &answer);

	*ret_given = r == 0 && answer.code == WIRE_done ? answer.done.value : 0;
	return r;
}

/* Returns how much the daemon has got. */
static uint64_t give_back(uint64_t offset, uint64_t bytes)
{
	uint64_t given;
	int r = movable_store_return(offset, bytes, &given);

	/* Of a connection that has ended, the next one's STORE says whose file it is. */
	if (r < 0 && r != -ENOTCONN)
		movable_held_owe(bytes);
	return given;
}

static void unpin(const struct movable_segment *segment, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += PIN_BYTES)
		best_effort(driver_call(real(cuMemHostUnregister)(segment->memory + at)));
}

void movable_segment_unpin(struct movable_segment *segment, uint32_t era)
{
	if (segment->memory && segment->era == era && era)
		unpin(segment, segment->bytes);
	segment->era = 0;
}

/* Registers in small parts, so that the driver is not held up for long. */
static int pin(struct movable_segment *segment, uint32_t era)
{
	for (uint64_t at = 0; at < segment->bytes; at += PIN_BYTES) {
		uint64_t left = segment->bytes - at;
		CUresult r = driver_call(real(cuMemHostRegister_v2)(
			segment->memory + at, left < PIN_BYTES ? left : PIN_BYTES,
			CU_MEMHOSTREGISTER_PORTABLE));

		if (r != CUDA_SUCCESS && r != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) {
			unpin(segment, at);
			return -ENOMEM;
		}
	}
	segment->era = era;
	return 0;
}

/* Children of fork() do not inherit the mapping. Its pages exist already: a fault for reading maps
 * sixteen of them at once, for writing too; pinning alone would take a fault for each. */
static uint8_t *map(uint64_t offset, uint64_t bytes)
{
	struct stat about;
	void *memory;

	if (!store_is_ours() || offset % PAGE || syscall(SYS_fstat, store.fd - 1, &about) != 0 ||
	    offset > (uint64_t)about.st_size || bytes > (uint64_t)about.st_size - offset)
		return NULL;
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, store.fd - 1, (off_t)offset);
	if (memory == MAP_FAILED)
		return NULL;
	best_effort(syscall(SYS_madvise, memory, bytes, MADV_DONTFORK));
	best_effort(syscall(SYS_madvise, memory, bytes, MADV_POPULATE_READ));
	return memory;
}

static int ask(struct movable_segment *segment, uint64_t bytes)
{
	struct segment_word about = {{write_ask, NULL}, 0, bytes};
	struct wire_answer answer;
	int r = link_ask(&about.word, LINK_HERE, NULL, &answer);

	if (r != 0)
		return r == LINK_MOOT || r == -ENOTCONN ? -EAGAIN : r;
	/* A new daemon does not count it, and one that is the same gets it back. */
	if (store.connection != link_connection())
		return -EAGAIN;
	if (answer.code != WIRE_segment)
		return -ENOSPC;
	segment->offset = answer.segment.offset;
	segment->bytes = bytes;
	segment->file = store.file;
	if (answer.segment.bytes >= bytes)
		segment->memory = map(segment->offset, bytes);
	if (segment->memory) {
		r = movable_held_add(segment->offset, bytes);
		if (r == 0)
			return 0;
		munmap(segment->memory, bytes);
	}
	/* What begins within one that is held is that one's, whatever the daemon says. */
	if (r != -EEXIST)
		best_effort(give_back(segment->offset, answer.segment.bytes));
	memset(segment, 0, sizeof(*segment));
	return -ENOMEM;
}

int movable_segment_get(struct movable_block *block, uint32_t era)
{
	struct movable_segment made = {0};
	int r;

	if (block->segment.memory) {
		if (block->segment.era == era)
			return 0;
		return pin(&block->segment, era);
	}
	r = ask(&made, block->bytes);
	if (r < 0)
		return r;
	r = pin(&made, era);
	if (r < 0) {
		best_effort(movable_segment_end(&made, 0));
		return r;
	}
	futex_lock_take(&movable_.lock);
	block->segment = made;
	movable_.prepared += made.bytes;
	futex_lock_give(&movable_.lock);
	return 0;
}

bool movable_segment_is_former(const struct movable_segment *segment)
{
	return segment->memory && segment->file != store.file;
}

/* Not sent to a new daemon, which has not given the segment out: it clears segments that no guest
 * has stated. */
uint64_t movable_segment_end(struct movable_segment *segment, uint32_t era)
{
	uint64_t given = 0;

	if (!segment->memory)
		return 0;
	movable_segment_unpin(segment, era);
	munmap(segment->memory, segment->bytes);
	if (segment->file == store.file) {
		movable_held_take(segment->offset, segment->bytes);
		given = give_back(segment->offset, segment->bytes);
	}
	memset(segment, 0, sizeof(*segment));
	return given;
}
