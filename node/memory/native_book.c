/* SPDX-License-Identifier: Apache-2.0 */
#include "node/memory/native_book.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MIB = 1048576;

static int compare(uint32_t device, const char *group, uint32_t other_device, const char *other)
{
	if (device != other_device)
		return device < other_device ? -1 : 1;
	return strcmp(group, other);
}

static int by_place(const void *a, const void *b)
{
	const struct native_want *one = a, *other = b;

	return compare(one->device, one->group, other->device, other->group);
}

/* Whole MiB, as NVIDIA's tool sets them, and never less than the guest grants. */
static uint64_t rounded(uint64_t bytes)
{
	return bytes > UINT64_MAX - MIB ? NATIVE_NONE : (bytes + MIB - 1) / MIB * MIB;
}

/* What is wanted of the first want's group on its device; *ret_same wants are about it. */
static uint64_t wanted_of(const struct native_want *want, uint32_t count, uint32_t *ret_same)
{
	uint64_t bytes = rounded(want->bytes);
	uint32_t same = 1;

	for (; same < count && by_place(want, &want[same]) == 0; same++)
		if (want[same].tenant != want->tenant)
			bytes = NATIVE_NONE;
	*ret_same = same;
	return bytes;
}

/* The former row goes to the new book, or ends. */
static void carry(struct native_book *to, struct native_row *row, uint64_t wanted)
{
	if (wanted == NATIVE_NONE && !row->set) {
		free(row->group);
		return;
	}
	row->wanted = wanted;
	to->row[to->count++] = *row;
}

static int add(struct native_book *to, const struct native_want *want, uint64_t wanted)
{
	char *group;

	if (wanted == NATIVE_NONE)
		return 0;
	group = strdup(want->group);
	if (!group)
		return -ENOMEM;
	to->row[to->count++] = (struct native_row){
		.group = group, .device = want->device, .wanted = wanted, .tried = NATIVE_NONE};
	return 0;
}

int native_book_want(struct native_book *book, struct native_want *want, uint32_t count)
{
	struct native_book next = {
		.row = calloc((size_t)book->count + count + 1, sizeof(*next.row))};
	uint32_t was = 0, at = 0;

	if (!next.row)
		return -ENOMEM;
	if (count)
		qsort(want, count, sizeof(*want), by_place);
	while (was < book->count || at < count) {
		struct native_row *row = was < book->count ? &book->row[was] : NULL;
		int order = !row	  ? 1
			    : at == count ? -1
					  : compare(row->device, row->group, want[at].device,
						    want[at].group);
		uint64_t wanted = NATIVE_NONE;
		uint32_t same = 0;

		if (order >= 0)
			wanted = wanted_of(&want[at], count - at, &same);
		/* Without memory for it the driver has no limit; the guest's holds. */
		if (order <= 0)
			carry(&next, row, wanted);
		else
			best_effort(add(&next, &want[at], wanted));
		was += order <= 0;
		at += same;
	}
	free(book->row);
	*book = next;
	return 0;
}

uint32_t native_book_next(const struct native_book *book, uint32_t from)
{
	while (from < book->count && book->row[from].wanted == book->row[from].tried)
		from++;
	return from;
}

void native_book_done(struct native_book *book, uint32_t row, int result)
{
	struct native_row *it = &book->row[row];

	it->tried = it->wanted;
	it->refused = result;
	if (result == 0)
		it->set = true;
	/* It was taken back, or cannot be: a group that has gone has none. */
	if (it->wanted == NATIVE_NONE)
		it->set = false;
}

void native_book_free(struct native_book *book)
{
	for (uint32_t i = 0; i < book->count; i++)
		free(book->row[i].group);
	free(book->row);
	*book = (struct native_book){0};
}
