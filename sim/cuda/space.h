/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/cuda/space.h
 * The addresses that a device can reach. Device memory is host memory at addresses that fault on
 * the host: a window of addresses is reserved without access, and a shadow of it lies at a fixed
 * distance. Backing pages appear on first touch. Pinned, registered and managed host memory is
 * reached at its own address.
 *
 * Two locks. The table's own is short. The use lock is held for reading while a thread
 * follows host addresses (a kernel between two budgets, a piece of a copy) and for writing while a
 * range goes away, so that nothing is unmapped while it is in use.
 *
 * Sizes are bytes; addresses of reservations and mappings are multiples of SPACE_BLOCK.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

#define SPACE_BLOCK (2ull << 20)
#define SPACE_UNIT  512ull /* allocations are rounded up to this, as on a GPU */

#define SPACE_DEVICE_ALL UINT64_MAX

enum space_kind {
	SPACE_LINEAR = 1, /* cuMemAlloc */
	SPACE_POOL,	  /* cuMemAllocAsync */
	SPACE_MAPPED,	  /* cuMemMap */
	SPACE_SHARED,	  /* another process's, opened by its IPC handle */
	SPACE_MODULE,	  /* a module's variables; a context's heap */
	SPACE_PINNED,	  /* cuMemHostAlloc */
	SPACE_REGISTERED, /* cuMemHostRegister */
	SPACE_MANAGED,	  /* cuMemAllocManaged */
};

struct space_range {
	uint64_t base;
	size_t bytes;	/* that can be touched */
	size_t asked;	/* as the program asked for it, and is told; 0: all bytes */
	uint64_t delta; /* host address = address + delta (modulo 2^64) */
	enum space_kind kind;
	int device; /* whose memory, or whose context's */
	unsigned flags;
	bool withheld;	    /* in the table, but not usable yet or any more */
	bool peers;	    /* reachable by devices with peer access to `device` */
	uint64_t readable;  /* bit per device; with `peers`, in addition to those */
	uint64_t writable;  /* likewise */
	uint64_t id;	    /* unique in the process; set by space_add() */
	uint64_t origin;    /* its context's id; 0 for none */
	void *context;	    /* CUcontext, for pointer attributes */
	void *owner;	    /* the pool, allocation, module, ... that it belongs to */
	void *heap, *block; /* sim/cuda/heap.c's */
	uint64_t charged;   /* SPACE_SHARED: bytes that are reserved around it */
	uint64_t reserved;  /* base of the reservation around it; 0 where it is no mapping */
};

static inline size_t space_round(size_t bytes)
{
	return (bytes + SPACE_UNIT - 1) & ~(size_t)(SPACE_UNIT - 1);
}

static inline size_t space_asked(const struct space_range *range)
{
	return range->asked ? range->asked : range->bytes;
}

/* Reserves addresses. `wanted` is a hint or 0. 0, -ENOMEM, -EINVAL. */
must_check int space_reserve(size_t bytes, size_t align, uint64_t wanted, uint64_t *ret_base);
void space_release(uint64_t base, size_t bytes);
bool space_in_window(uint64_t address);

/* Memory behind reserved addresses: fresh (zero, or METE_SIM_PATTERN's pattern), or a file's. */
must_check int space_back(uint64_t base, size_t bytes);
must_check int space_back_file(uint64_t base, size_t bytes, int fd, uint64_t offset);
void space_unback(uint64_t base, size_t bytes);

/* The shadow of an address in the window: how the simulator itself reaches it. */
void *space_shadow(uint64_t address);

/* The offset of an address in the window: its own place in a file as large as the window. */
uint64_t space_offset(uint64_t address);

/* Fills memory that a program gets (again) with the pattern, if there is one. */
void space_pattern(void *memory, size_t bytes);
bool space_has_pattern(void);

/* Host address space for pinned and managed memory, zeroed or patterned. NULL: no memory. */
void *space_host_new(size_t bytes);
void space_host_free(void *memory, size_t bytes);

/* The table. Adding fails with -EEXIST where it overlaps, -ENOMEM. */
must_check int space_add(const struct space_range *range);

/* Takes the range that begins at `base` out, waiting until no thread uses it. -ENOENT. */
must_check int space_remove(uint64_t base, struct space_range *ret_range);

/* The range around an address; withheld ones too. 0 or -ENOENT. */
must_check int space_find(uint64_t address, struct space_range *ret_range);

/* The first range at or after `address` and below `end`. 0 or -ENOENT. */
must_check int space_next(uint64_t address, uint64_t end, struct space_range *ret_range);

/* Replaces the attributes (not base, bytes, delta) of the range at range->base. -ENOENT. */
must_check int space_change(const struct space_range *range);

/* A withheld range is usable from now on. -ENOENT. */
must_check int space_admit(uint64_t base);

/* Calls `each` for all ranges in order of address, under the table's lock. */
void space_visit(void (*each)(const struct space_range *range, void *data), void *data);

/* ---- following addresses --------------------------------------------------------------------- */

/* Hold while following host addresses; short, and never while waiting for a stream. */
void space_use(void);
void space_unuse(void);

/* Between the two no thread accesses any address: for replacing the memory behind addresses. */
void space_still(void);
void space_go_on(void);

/* Changes whenever a range goes away or loses access: forget what was found before. */
uint64_t space_generation(void);

/* The range around `address` that may be accessed on behalf of `device`; `reach`: a bit for each
 * device to which it has peer access, itself included. 0, -ENOENT (not mapped), -EACCES. */
must_check int space_lookup(uint64_t address, int device, uint64_t reach, struct space_range *ret);

/* Are all of [address, address + bytes) in the table, range after range, withheld or not? */
bool space_covers(uint64_t address, size_t bytes);
