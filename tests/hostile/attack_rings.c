/* SPDX-License-Identifier: Apache-2.0 */
/* Its connection, and what else it shares with meted, by io_uring. */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { ENTRIES = 64, FILES = 256, WHILE_MS = 1000 };

struct ring {
	int fd;
	struct io_uring_params is;
	char *submitted;
	struct io_uring_sqe *entry;
	unsigned filled;
};

/* False: there are no rings here. */
static bool open_ring(struct ring *ring)
{
	memset(ring, 0, sizeof(*ring));
	ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &ring->is);
	if (ring->fd < 0)
		return false;
	ring->submitted = mmap(NULL, ring->is.sq_off.array + ENTRIES * sizeof(uint32_t),
			       PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
	ring->entry = mmap(NULL, ENTRIES * sizeof(*ring->entry), PROT_READ | PROT_WRITE, MAP_SHARED,
			   ring->fd, IORING_OFF_SQES);
	return ring->submitted != MAP_FAILED && ring->entry != MAP_FAILED;
}

static void put(struct ring *ring, int operation, int fd, void *bytes, unsigned size)
{
	_Atomic uint32_t *tail = (void *)(ring->submitted + ring->is.sq_off.tail);
	uint32_t *places = (void *)(ring->submitted + ring->is.sq_off.array);
	uint32_t at = atomic_load(tail), place = at & (ENTRIES - 1);

	ring->entry[place] = (struct io_uring_sqe){
		.opcode = (uint8_t)operation, .fd = fd, .addr = (uintptr_t)bytes, .len = size};
	ring->entry[place].flags = at % 2 ? IOSQE_ASYNC : 0;
	places[place] = place;
	atomic_store(tail, at + 1);
	if (++ring->filled == ENTRIES / 2) {
		best_effort(
			(int)syscall(SYS_io_uring_enter, ring->fd, ring->filled, 0, 0, NULL, 0));
		ring->filled = 0;
	}
}

/* Reads what meted says before the library does, and writes what it never said. */
void attack_ring_connection(void)
{
	static char bytes[1 << 16];
	uint64_t start_ms = 0;
	struct ring ring;

	if (open_ring(&ring))
		while (until(&start_ms, WHILE_MS)) {
			for (int fd = 3; fd < FILES; fd++) {
				if (!attack_is_shared(fd))
					continue;
				put(&ring, IORING_OP_RECV, fd, bytes, sizeof(bytes));
				put(&ring, IORING_OP_SEND, fd, bytes, 64);
				put(&ring, IORING_OP_WRITE, fd, bytes, 4096);
				put(&ring, IORING_OP_READ, fd, bytes, 4096);
			}
			take_and_free();
		}
	take_everything();
}

/* The ring closes and halves them, in threads of the kernel's. */
void attack_ring_closes(void)
{
	struct ring ring;

	if (open_ring(&ring)) {
		for (int fd = 3; fd < FILES; fd++) {
			if (fd == ring.fd || !attack_is_shared(fd))
				continue;
			put(&ring, IORING_OP_SHUTDOWN, fd, NULL, SHUT_RDWR);
			put(&ring, IORING_OP_CLOSE, fd, NULL, 0);
		}
		best_effort((int)syscall(SYS_io_uring_enter, ring.fd, ring.filled, 0, 0, NULL, 0));
	}
	in_threads(4, take_and_free);
	take_everything();
}

/* A ring keeps its files when their numbers are closed, and those who inherit the ring keep it. */
void attack_ring_keeps(void)
{
	int files[FILES], count = 0;
	struct ring ring;

	take_everything();
	if (open_ring(&ring)) {
		for (int fd = 3; fd < FILES; fd++)
			if (fd != ring.fd && attack_is_shared(fd))
				files[count++] = fd;
		best_effort((int)syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES,
					 files, count));
		for (int i = 0; i < count; i++)
			close(files[i]);
	}
	for (int i = 0; i < 4; i++)
		child(start_and_take);
	if (fork() == 0) {
		wait_for_the_end();
		_exit(0);
	}
	execl("/proc/self/exe", "attack", "take-linear", (char *)NULL);
}

static int pinning;

static void pin(char *from, size_t bytes)
{
	struct iovec part = {from, bytes};

	best_effort(
		(int)syscall(SYS_io_uring_register, pinning, IORING_REGISTER_BUFFERS, &part, 1));
}

/* Rings hold pages of its store, and its own, while what is there leaves and holes are punched. */
void attack_both_ring_pins(void)
{
	CUdeviceptr address;
	uint64_t start_ms = 0;
	struct ring ring;

	for (int i = 0; i < 6 && g.cuMemAlloc_v2(&address, 32 * MIB) == CUDA_SUCCESS; i++)
		CALL(cuMemsetD8_v2)(address, 4, 32 * MIB);
	while (until(&start_ms, WHILE_MS)) {
		if (open_ring(&ring)) {
			pinning = ring.fd;
			attack_each_mapping("mete-", pin);
		}
		usleep(50000);
	}
	take_everything();
}
