/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is served next, of many who want something again and again: who was given least. Pure: the
 * caller says what serving somebody took, in a unit of its own.
 *
 *	member   somebody who may stand in the line, once. Whoever comes to it after having stood
 *	         aside is taken for having been given as much as who was served last: rest is not
 *	         saved up, and a debt of no more than `grace` is forgotten, so that who waits for
 *one answer after the other is served before those who want more than they can be given
 *
 * Laws, attacked by tests/unit/test_line.c:
 *  1. who is served was charged no more than anybody else who stands in the line, and among equals
 *     came first;
 *  2. between two members who stand in the line all the time, the difference of what they were
 *     charged is never larger than the largest single charge;
 *  3. who comes with a debt of at most `grace` is served before anybody is served twice.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct line_member {
	uint64_t charged;
	uint64_t came;	/* among those who were charged the same: who came first */
	uint32_t place; /* in the heap, from 1; 0: it does not stand in the line */
};

/* All zero but for the memory: nobody stands in it. */
struct line {
	struct line_member **heap; /* the caller's, of `room` pointers */
	uint32_t count, room;
	uint64_t grace, clock, comings;
};

/* Harmless if it stands there already. There must be room. */
void line_add(struct line *line, struct line_member *member);
void line_remove(struct line *line, struct line_member *member);

/* Who is next leaves the line; NULL: nobody stands in it. */
struct line_member *line_next(struct line *line);

/* It was served, which took so much, and wants more: it stands in the line as it did. */
void line_again(struct line *line, struct line_member *member, uint64_t cost);

/* Likewise, and it wants nothing more. */
void line_charge(struct line_member *member, uint64_t cost);
