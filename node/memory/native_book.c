/* SPDX-License-Identifier: Apache-2.0 */
#include "node/memory/native_book.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct native_row {
	uint32_t device;
	struct native_limits wanted, told;
	bool set; /* the driver may have a limit */
};

static const struct native_limits no_limits = {0, NATIVE_NONE};

static bool same(struct native_limits a, struct native_limits b)
{
	return a.soft_bytes == b.soft_bytes && a.hard_bytes == b.hard_bytes;
}

/* The driver is to guarantee less than before. */
static bool shrinks(const struct native_row *row)
{
	return row->wanted.soft_bytes < row->told.soft_bytes;
}

void native_book_init(struct native_book *book)
{
	for (uint32_t i = 0; i < NATIVE_HEADS; i++) {
		list_init(&book->paths[i]);
		list_init(&book->tenants[i]);
	}
	list_init(&book->stale);
	list_init(&book->shrinking);
	list_init(&book->due);
}

static struct list *head_of_path(struct native_book *book, const char *path)
{
	return &book->paths[hash_text(HASH_BEGIN, path) % NATIVE_HEADS];
}

static void free_group(struct native_group *group)
{
	list_remove(&group->same_path);
	list_remove(&group->stale);
	list_remove(&group->due);
	free(group->row);
	free(group->path);
	free(group);
}

static void mark(struct native_book *book, struct native_group *group)
{
	if (!list_linked(&group->stale))
		list_append(&book->stale, &group->stale);
}

static struct native_group *find_group(struct native_book *book, const char *path)
{
	struct list *head = head_of_path(book, path);

	list_for_each(link, head)
	{
		struct native_group *group = list_entry(link, struct native_group, same_path);

		if (strcmp(group->path, path) == 0)
			return group;
	}
	return NULL;
}

static struct native_group *make_group(struct native_book *book, const char *path)
{
	struct native_group *group = calloc(1, sizeof(*group));

	if (!group || !(group->path = strdup(path))) {
		free(group);
		return NULL;
	}
	list_init(&group->members);
	list_append(head_of_path(book, path), &group->same_path);
	return group;
}

static struct native_member *find_member(const struct native_group *group, uint32_t tenant)
{
	list_for_each(link, &group->members)
	{
		struct native_member *member = list_entry(link, struct native_member, link);

		if (member->tenant == tenant)
			return member;
	}
	return NULL;
}

static uint32_t groups_of(const struct native_book *book, uint32_t tenant)
{
	uint32_t groups = 0;

	list_for_each(link, (struct list *)&book->tenants[tenant % NATIVE_HEADS])
	{
		groups += list_entry(link, struct native_member, same_tenant)->tenant == tenant;
	}
	return groups;
}

bool native_book_has_one(const struct native_book *book, uint32_t tenant)
{
	return groups_of(book, tenant) == 1;
}

/* A group of the tenant has come or gone: its only other one is no longer alone, or is from now on.
 */
static void mark_other(struct native_book *book, uint32_t tenant)
{
	if (groups_of(book, tenant) <= 2)
		native_book_changed(book, tenant);
}

int native_book_join(struct native_book *book, const char *path, uint32_t tenant,
		     struct native_member **ret_member)
{
	struct native_group *group = find_group(book, path);
	struct native_member *member = group ? find_member(group, tenant) : NULL;

	if (member) {
		member->processes++;
		*ret_member = member;
		return 0;
	}
	member = calloc(1, sizeof(*member));
	if (member && !group)
		group = make_group(book, path);
	if (!group || !member) {
		free(member);
		return -ENOMEM;
	}
	*member = (struct native_member){.group = group, .tenant = tenant, .processes = 1};
	list_append(&group->members, &member->link);
	list_append(&book->tenants[tenant % NATIVE_HEADS], &member->same_tenant);
	mark(book, group);
	mark_other(book, tenant);
	*ret_member = member;
	return 0;
}

void native_book_leave(struct native_book *book, struct native_member *member)
{
	if (--member->processes)
		return;
	list_remove(&member->link);
	list_remove(&member->same_tenant);
	mark(book, member->group);
	mark_other(book, member->tenant);
	free(member);
}

void native_book_changed(struct native_book *book, uint32_t tenant)
{
	struct list *head = &book->tenants[tenant % NATIVE_HEADS];

	list_for_each(link, head)
	{
		struct native_member *member = list_entry(link, struct native_member, same_tenant);

		if (member->tenant == tenant)
			mark(book, member->group);
	}
}

struct native_group *native_book_stale(struct native_book *book)
{
	struct native_group *group;

	if (list_empty(&book->stale))
		return NULL;
	group = list_entry(book->stale.next, struct native_group, stale);
	list_remove(&group->stale);
	return group;
}

bool native_group_owner(const struct native_group *group, uint32_t *ret_tenant)
{
	const struct list *first = group->members.next;

	if (first == &group->members || first->next != &group->members)
		return false;
	*ret_tenant = list_entry(first, const struct native_member, link)->tenant;
	return true;
}

/* ---- limits --------------------------------------------------------------------------------- */

static struct native_row *row_of(struct native_group *group, uint32_t device)
{
	for (uint32_t i = 0; i < group->rows; i++)
		if (group->row[i].device == device)
			return &group->row[i];
	return NULL;
}

/* Rows stay where they are: calls that are being made know them by number. */
static int make_room(struct native_group *group, uint32_t count)
{
	struct native_row *row = reallocarray(group->row, group->rows + count, sizeof(*row));

	if (!row)
		return -ENOMEM;
	group->row = row;
	return 0;
}

static struct native_row *need_row(struct native_group *group, uint32_t device)
{
	struct native_row *row = row_of(group, device);

	if (row)
		return row;
	row = &group->row[group->rows++];
	*row = (struct native_row){.device = device, .wanted = no_limits, .told = no_limits};
	return row;
}

/* The driver is to be told something of it; otherwise it ends if nobody needs it. */
static void settle(struct native_book *book, struct native_group *group)
{
	bool needed = !list_empty(&group->members) || list_linked(&group->stale) || group->calls;
	struct list *due = NULL;

	list_remove(&group->due);
	for (uint32_t i = 0; i < group->rows; i++) {
		struct native_row *row = &group->row[i];

		/* What the driver never had is not taken back. */
		if (same(row->wanted, no_limits) && !row->set && !group->calls)
			row->told = no_limits;
		if (shrinks(row))
			due = &book->shrinking;
		else if (!due && !same(row->wanted, row->told))
			due = &book->due;
	}
	if (due)
		list_append(due, &group->due);
	if (!needed && !list_linked(&group->due))
		free_group(group);
}

int native_book_want(struct native_book *book, struct native_group *group,
		     const struct native_want *want, uint32_t count)
{
	if (count && make_room(group, count) < 0) {
		mark(book, group);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < group->rows; i++)
		group->row[i].wanted = no_limits;
	for (uint32_t i = 0; i < count; i++)
		need_row(group, want[i].device)->wanted = want[i].limits;
	settle(book, group);
	return 0;
}

/* All that shrink, of all groups, before any that grows: otherwise the guarantees could be more
 * than the device for a moment, and the driver would refuse one that fits. */
bool native_book_next(struct native_book *book, struct native_call *ret_call)
{
	bool less = !list_empty(&book->shrinking);
	struct list *due = less ? &book->shrinking : &book->due;
	struct native_group *group;
	uint32_t i = 0;

	if (list_empty(due))
		return false;
	group = list_entry(due->next, struct native_group, due);
	while (less ? !shrinks(&group->row[i]) : same(group->row[i].wanted, group->row[i].told))
		i++;
	*ret_call = (struct native_call){.group = group,
					 .row = i,
					 .device = group->row[i].device,
					 .path = group->path,
					 .limits = group->row[i].wanted,
					 .before = group->row[i].told};
	group->row[i].told = group->row[i].wanted;
	group->calls++;
	settle(book, group);
	return true;
}

void native_book_done(struct native_book *book, const struct native_call *call, int result)
{
	struct native_row *row = &call->group->row[call->row];

	if (result == 0)
		row->set = true;
	/* It was taken back, or cannot be: a group that has gone has none. */
	if (same(call->limits, no_limits))
		row->set = false;
	call->group->calls--;
	settle(book, call->group);
}

void native_book_undone(struct native_book *book, const struct native_call *call)
{
	call->group->row[call->row].told = call->before;
	call->group->calls--;
	settle(book, call->group);
}

void native_book_free(struct native_book *book)
{
	for (uint32_t i = 0; i < NATIVE_HEADS; i++) {
		list_for_each(link, &book->tenants[i])
		{
			struct native_member *member =
				list_entry(link, struct native_member, same_tenant);

			list_remove(&member->same_tenant);
			free(member);
		}
		list_for_each(link, &book->paths[i])
			free_group(list_entry(link, struct native_group, same_path));
	}
}
