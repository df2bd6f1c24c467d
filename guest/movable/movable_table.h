/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of memory that moves: areas, whose addresses stay, the blocks behind them, and the
 * pieces of an area that small allocations have. An area may also be the program's own, by
 * cuMemCreate(): then the program maps it where it likes, and each mapping is an alias. It does not
 * call the driver and does not lock: guest/movable/movable.h does both. Its memory comes from
 * mmap(); errno is kept.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/credit/blocks.h"

enum {
	MOVABLE_UNITS = BLOCKS_BYTES / BLOCKS_UNIT,
	MOVABLE_WORDS = MOVABLE_UNITS / 64,
	MOVABLE_ALIASES = 8, /* of one area that can move */
};

/* Where a block's bytes are. On the way the block belongs to the mover alone. */
enum movable_where {
	MOVABLE_HERE = 0,
	MOVABLE_LEAVES,
	MOVABLE_OUT,
	MOVABLE_ENTERS,
};

/* A part of the swap store. All zero: none. */
struct movable_segment {
	uint8_t *memory;
	uint64_t offset, bytes;
	uint32_t era;  /* it is registered if this is the mover's era */
	uint32_t file; /* the store that it belongs to: a new daemon has another */
	bool filled;   /* it has the block's content from when the block last left */
	bool hashed;
	uint64_t hash[2]; /* of that content */
};

struct movable_block {
	uint64_t address, bytes;
	enum movable_where where;
	uint32_t failures; /* of copying it in */
	struct movable_area *area;
	CUmemGenericAllocationHandle handle; /* the driver's; 0: it is not kept, or not there */
	struct movable_segment segment;
};

/* Where the program has mapped an area, or the beginning of it. */
struct movable_alias {
	uint64_t address, bytes; /* 0 bytes: unused */
	uint64_t id;
	uint64_t range, range_bytes; /* of CU_POINTER_ATTRIBUTE_RANGE_* */
	CUmemAccess_flags access;
};

/* Of an area that the program has created. */
struct movable_own {
	bool is;
	bool outgoing; /* exported */
	uint32_t held; /* by threads that change its mappings: no block begins to move */
	CUmemAllocationProp about;
	struct movable_alias alias[MOVABLE_ALIASES];
};

/* A small allocation. */
struct movable_piece {
	uint32_t bytes; /* as requested; 0: none begins here */
	uint32_t id;
};

struct movable_slab {
	uint64_t free[MOVABLE_WORDS]; /* a bit for each unit */
	uint32_t free_units;
	uint32_t gap; /* no gap is larger */
	struct movable_piece piece[MOVABLE_UNITS];
};

struct movable_area {
	uint64_t base, bytes; /* a multiple of whole blocks */
	uint64_t asked;	      /* by the program, for a large one */
	uint64_t owner;	      /* a context, or BLOCKS_LEAVING */
	uint64_t id;
	uint32_t why; /* enum wire_unmovable; 0: it can move */
	uint32_t count;
	uint64_t mapped_bytes; /* of this record */
	struct movable_own own;
	struct movable_slab *slab; /* NULL: one allocation */
	struct movable_area *next; /* in the list of areas that are over, or in stock */
	uint64_t freed_ns;	   /* of one in stock */
	uintptr_t thread, frame;   /* that releases one of it; guest/frames.h */
	struct movable_block block[];
};

/* An allocation, as the program sees it. */
struct movable_seen {
	uint64_t base, bytes, id, owner;
	uint32_t why;
	/* Of memory that the program has mapped: */
	bool mapped, exportable, rdma;
	CUmemAccess_flags access;
	uint64_t range, range_bytes;
};

/* Creates a record for so many bytes in blocks of at most `chunk`; with `slab` it is one block of
 * pieces. NULL: no memory. */
struct movable_area *movable_area_new(uint64_t bytes, uint64_t chunk, bool slab);

/* Sets its addresses. */
void movable_area_place(struct movable_area *area, uint64_t base);

void movable_area_free(struct movable_area *area);

/* The number of units that an allocation takes. */
uint32_t movable_units(uint64_t bytes);

/* Takes a piece. Returns its first unit, or -1: there is no gap. */
must_check int movable_piece_take(struct movable_slab *slab, uint64_t bytes, uint32_t id);

/* Gives back the piece that begins there. Returns whether there was one. */
bool movable_piece_give(struct movable_slab *slab, uint32_t unit);

bool movable_slab_empty(const struct movable_slab *slab);

/* The allocation around an address of the area. false: it lies in a gap. */
must_check bool movable_area_find(const struct movable_area *area, uint64_t address,
				  struct movable_seen *ret_seen);

/* Notes a mapping. NULL: there are too many. */
struct movable_alias *movable_alias_add(struct movable_area *area, uint64_t address,
					uint64_t bytes);

/* The mapping around an address. NULL: none. */
struct movable_alias *movable_alias_at(struct movable_area *area, uint64_t address);

/* The part of a mapping behind which the block is. false: none. */
must_check bool movable_alias_part(const struct movable_alias *alias,
				   const struct movable_block *block, uint64_t *ret_address,
				   uint64_t *ret_bytes);

/* Describes the memory at an address that the program has mapped. */
must_check bool movable_alias_find(struct movable_area *area, uint64_t address,
				   struct movable_seen *ret_seen);
