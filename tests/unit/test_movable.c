/* SPDX-License-Identifier: Apache-2.0 */
/* Areas in blocks, and pieces of slabs against a map of units. */
#include "guest/movable/movable_table.h"

#include <string.h>

#include "tests/test.h"

#define MIB (1ull << 20)

enum { PIECES = 600, STEPS = 20000 };

TEST(an_area_is_cut_into_blocks_of_a_chunk_and_a_rest)
{
	struct movable_area *area = movable_area_new(150 * MIB, 64 * MIB, false);

	expect(area != NULL);
	expect_eq(area->count, 3);
	movable_area_place(area, 1ull << 40);
	expect_eq(area->block[1].address, (1ull << 40) + 64 * MIB);
	expect_eq(area->block[2].address, (1ull << 40) + 128 * MIB);
	expect_eq(area->block[2].bytes, 22 * MIB);
	expect(area->block[2].area == area);
	movable_area_free(area);
}

TEST(an_area_is_not_made_where_it_would_overflow)
{
	expect(movable_area_new(UINT64_MAX - 64 * MIB, 1, false) == NULL);
}

TEST(a_large_allocation_is_seen_as_it_was_asked_for)
{
	struct movable_area *area = movable_area_new(4 * MIB, 64 * MIB, false);
	struct movable_seen seen;

	movable_area_place(area, 1ull << 40);
	area->asked = 3 * MIB + 7;
	area->id = 5;
	area->owner = 9;
	expect(movable_area_find(area, (1ull << 40) + 3 * MIB + 6, &seen));
	expect_eq(seen.base, 1ull << 40);
	expect_eq(seen.bytes, 3 * MIB + 7);
	expect_eq(seen.owner, 9);
	expect(seen.id >> 32 == 5);
	expect(!movable_area_find(area, (1ull << 40) + 3 * MIB + 7, &seen));
	movable_area_free(area);
}

struct piece {
	uint64_t bytes;
	unsigned unit;
};

static bool overlap(const struct piece *a, const struct piece *b)
{
	return a->unit < b->unit + movable_units(b->bytes) &&
	       b->unit < a->unit + movable_units(a->bytes);
}

static uint32_t largest_gap(const struct piece *pieces)
{
	uint8_t taken[MOVABLE_UNITS] = {0};
	uint32_t run = 0, most = 0;

	for (int i = 0; i < PIECES; i++)
		memset(&taken[pieces[i].unit], pieces[i].bytes ? 1 : 0,
		       movable_units(pieces[i].bytes));
	for (int i = 0; i < MOVABLE_UNITS; i++) {
		run = taken[i] ? 0 : run + 1;
		most = run > most ? run : most;
	}
	return most;
}

static void check_look(const struct movable_area *area, const struct piece *p, uint32_t id)
{
	struct movable_seen seen;
	uint64_t at = area->base + p->unit * BLOCKS_UNIT;

	expect(movable_area_find(area, at + test_random_below(p->bytes), &seen));
	expect_eq(seen.base, at);
	expect_eq(seen.bytes, p->bytes);
	expect_eq(seen.id & UINT32_MAX, id);
}

TEST(pieces_never_overlap_and_are_refused_only_where_there_is_no_gap)
{
	static struct piece pieces[PIECES];
	static uint32_t ids[PIECES];
	struct movable_area *area = movable_area_new(2 * MIB, 64 * MIB, true);
	unsigned refused = 0;

	memset(pieces, 0, sizeof(pieces));
	movable_area_place(area, 1ull << 40);
	for (uint32_t step = 1; step <= STEPS; step++) {
		unsigned i = (unsigned)test_random_below(PIECES);
		struct piece *p = &pieces[i];
		uint64_t most = test_random_below(8) ? 8192 : MIB;
		int unit;

		if (p->bytes) {
			check_look(area, p, ids[i]);
			expect(movable_piece_give(area->slab, p->unit));
			expect(!movable_piece_give(area->slab, p->unit));
			p->bytes = 0;
			continue;
		}
		p->bytes = 1 + test_random_below(most);
		unit = movable_piece_take(area->slab, p->bytes, step);
		if (unit < 0) {
			uint32_t units = movable_units(p->bytes);

			p->bytes = 0;
			expect(largest_gap(pieces) < units);
			refused++;
			continue;
		}
		p->unit = (unsigned)unit;
		ids[i] = step;
		for (int j = 0; j < PIECES; j++)
			expect(&pieces[j] == p || !pieces[j].bytes || !overlap(&pieces[j], p));
	}
	expect(refused > 0);
	for (int i = 0; i < PIECES; i++)
		if (pieces[i].bytes)
			expect(movable_piece_give(area->slab, pieces[i].unit));
	expect(movable_slab_empty(area->slab));
	expect_eq(movable_piece_take(area->slab, 2 * MIB, 1), 0);
	movable_area_free(area);
}

TEST(a_gap_between_pieces_is_no_allocation)
{
	struct movable_area *area = movable_area_new(2 * MIB, 64 * MIB, true);
	struct movable_seen seen;

	movable_area_place(area, 1ull << 40);
	expect_eq(movable_piece_take(area->slab, 1000, 1), 0);
	expect_eq(movable_piece_take(area->slab, 512, 2), 2);
	expect(movable_piece_give(area->slab, 0));
	expect(!movable_area_find(area, (1ull << 40) + 3, &seen));
	expect(movable_area_find(area, (1ull << 40) + 1024 + 511, &seen));
	expect(!movable_area_find(area, (1ull << 40) + 1024 + 512, &seen));
	movable_area_free(area);
}

/* Of three blocks: 4, 4 and 2 MiB. */
static struct movable_area *own_area(void)
{
	struct movable_area *area = movable_area_new(10 * MIB, 4 * MIB, false);

	movable_area_place(area, 1ull << 40);
	area->own.is = true;
	area->own.about.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return area;
}

TEST(a_mapping_is_backed_by_each_block_as_far_as_it_reaches)
{
	struct movable_area *area = own_area();
	struct movable_alias *alias = movable_alias_add(area, 3ull << 40, 6 * MIB);
	uint64_t address, bytes;

	expect(alias != NULL);
	expect(movable_alias_part(alias, &area->block[0], &address, &bytes));
	expect_eq(address, 3ull << 40);
	expect_eq(bytes, 4 * MIB);
	expect(movable_alias_part(alias, &area->block[1], &address, &bytes));
	expect_eq(address, (3ull << 40) + 4 * MIB);
	expect_eq(bytes, 2 * MIB);
	expect(!movable_alias_part(alias, &area->block[2], &address, &bytes));
	alias->bytes = 0;
	expect(!movable_alias_part(alias, &area->block[0], &address, &bytes));
	movable_area_free(area);
}

TEST(a_mapping_is_found_at_each_of_its_addresses_until_it_is_gone)
{
	struct movable_area *area = own_area();
	struct movable_alias *first = movable_alias_add(area, 3ull << 40, 10 * MIB);
	struct movable_alias *second = movable_alias_add(area, 5ull << 40, 2 * MIB);

	expect(movable_alias_at(area, 3ull << 40) == first);
	expect(movable_alias_at(area, (3ull << 40) + 10 * MIB - 1) == first);
	expect(movable_alias_at(area, (3ull << 40) + 10 * MIB) == NULL);
	expect(movable_alias_at(area, (3ull << 40) - 1) == NULL);
	expect(movable_alias_at(area, 5ull << 40) == second);
	expect(movable_alias_at(area, area->base) == NULL);
	expect(movable_alias_at(area, 0) == NULL);
	first->bytes = 0;
	expect(movable_alias_at(area, 3ull << 40) == NULL);
	expect(movable_alias_at(area, 5ull << 40) == second);
	movable_area_free(area);
}

TEST(there_are_as_many_mappings_as_there_are_places)
{
	struct movable_area *area = own_area();

	for (uint64_t i = 1; i <= MOVABLE_ALIASES; i++)
		expect(movable_alias_add(area, i << 40, 2 * MIB) != NULL);
	expect(movable_alias_add(area, 99ull << 40, 2 * MIB) == NULL);
	movable_alias_at(area, 3ull << 40)->bytes = 0;
	expect(movable_alias_add(area, 99ull << 40, 2 * MIB) != NULL);
	expect(movable_alias_at(area, 99ull << 40) != NULL);
	movable_area_free(area);
}

TEST(a_mapping_is_seen_as_the_program_has_made_it)
{
	struct movable_area *area = own_area();
	struct movable_alias *alias = movable_alias_add(area, 3ull << 40, 6 * MIB);
	struct movable_seen seen;

	alias->id = 7;
	alias->access = CU_MEM_ACCESS_FLAGS_PROT_READ;
	area->why = 1;
	expect(movable_alias_find(area, (3ull << 40) + 5, &seen));
	expect_eq(seen.base, 3ull << 40);
	expect_eq(seen.bytes, 6 * MIB);
	expect_eq(seen.range, 3ull << 40);
	expect_eq(seen.range_bytes, 6 * MIB);
	expect_eq(seen.owner, 0);
	expect_eq(seen.why, 1);
	expect_eq(seen.access, CU_MEM_ACCESS_FLAGS_PROT_READ);
	expect(seen.mapped && seen.exportable && !seen.rdma);
	expect(!movable_alias_find(area, (3ull << 40) + 6 * MIB, &seen));
	expect(!movable_alias_find(area, area->base, &seen));
	movable_area_free(area);
}
