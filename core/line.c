/* SPDX-License-Identifier: Apache-2.0 */
#include "core/line.h"

static int before(const struct line_member *a, const struct line_member *b)
{
	return a->charged != b->charged ? a->charged < b->charged : a->came < b->came;
}

static void put(struct line *line, uint32_t place, struct line_member *member)
{
	line->heap[place - 1] = member;
	member->place = place;
}

static void rise(struct line *line, uint32_t place, struct line_member *member)
{
	while (place > 1 && before(member, line->heap[place / 2 - 1])) {
		put(line, place, line->heap[place / 2 - 1]);
		place /= 2;
	}
	put(line, place, member);
}

static void sink(struct line *line, uint32_t place, struct line_member *member)
{
	for (;;) {
		uint32_t child = 2 * place;

		if (child < line->count && before(line->heap[child], line->heap[child - 1]))
			child++;
		if (child > line->count || !before(line->heap[child - 1], member))
			break;
		put(line, place, line->heap[child - 1]);
		place = child;
	}
	put(line, place, member);
}

static void stand(struct line *line, struct line_member *member)
{
	member->came = ++line->comings;
	rise(line, ++line->count, member);
}

void line_add(struct line *line, struct line_member *member)
{
	if (member->place || line->count == line->room)
		return;
	if (member->charged <= line->clock + line->grace)
		member->charged = line->clock;
	stand(line, member);
}

void line_again(struct line *line, struct line_member *member, uint64_t cost)
{
	if (member->place || line->count == line->room)
		return;
	member->charged += cost;
	stand(line, member);
}

void line_remove(struct line *line, struct line_member *member)
{
	uint32_t place = member->place;
	struct line_member *last;

	if (!place)
		return;
	member->place = 0;
	last = line->heap[--line->count];
	if (last == member)
		return;
	if (place > 1 && before(last, line->heap[place / 2 - 1]))
		rise(line, place, last);
	else
		sink(line, place, last);
}

struct line_member *line_next(struct line *line)
{
	struct line_member *member = line->count ? line->heap[0] : NULL;

	if (!member)
		return NULL;
	line_remove(line, member);
	line->clock = member->charged;
	return member;
}

void line_charge(struct line_member *member, uint64_t cost)
{
	member->charged += cost;
}
