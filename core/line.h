/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which of many members with repeated requests is served next: the one that was given
 * least. Pure: the caller reports what each service took, in its own unit.
 *
 * A member is in the line once at most. If it returns to the line, it is treated as if it had been
 * given as much as the member that was served last: rest is not saved up. A debt of at most `grace`
 * is forgotten, so that a member that waits for one answer at a time is served before those that
 * want more than they can be given.
 *
 * Laws, tested by tests/unit/test_line.c:
 *  1. the member that is served was charged no more than any other member in the line, and came
 *     first among equals;
 *  2. between two members that are always in the line, the difference of their charges never
 *     exceeds the largest single charge;
 *  3. a member that comes with a debt of at most `grace` is served before any member is served
 *     twice.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct line_member {
	uint64_t charged;
	uint64_t came;	/* the order of arrival, among members with the same charge */
	uint32_t place; /* in the heap, from 1; 0: it is not in the line */
};

/* All zero except the memory: the line is empty. */
struct line {
	struct line_member **heap; /* the caller's, of `room` pointers */
	uint32_t count, room;
	uint64_t grace, clock, comings;
};

/* Harmless if it is there already. There must be room. */
void line_add(struct line *line, struct line_member *member);
void line_remove(struct line *line, struct line_member *member);

/* Takes the next member out of the line; NULL: the line is empty. */
struct line_member *line_next(struct line *line);

/* The member was served at this cost and wants more: it keeps its place in the line. */
void line_again(struct line *line, struct line_member *member, uint64_t cost);

/* The member was served at this cost and wants nothing more. */
void line_charge(struct line_member *member, uint64_t cost);
