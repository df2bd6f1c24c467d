/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doubly linked intrusive list. A zeroed link is not on any list; a head is initialised with
 * list_init(). Removing a link that is on no list is harmless.
 */
#pragma once

#include "base/macros.h"

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *head)
{
	head->next = head->prev = head;
}

static inline int list_empty(const struct list *head)
{
	return head->next == head;
}

static inline int list_linked(const struct list *link)
{
	return link->next != NULL;
}

static inline void list_insert_before(struct list *position, struct list *link)
{
	link->prev = position->prev;
	link->next = position;
	position->prev->next = link;
	position->prev = link;
}

static inline void list_append(struct list *head, struct list *link)
{
	list_insert_before(head, link);
}

static inline void list_prepend(struct list *head, struct list *link)
{
	list_insert_before(head->next, link);
}

static inline void list_remove(struct list *link)
{
	if (!link->next)
		return;
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->next = link->prev = NULL;
}

/* The object that embeds the link. */
#define list_entry(link, type, member) container_of(link, type, member)

/* Removing the current entry inside the loop is allowed. */
#define list_for_each(link, head)                                                                  \
	for (struct list *link = (head)->next, *link##_next_ = link->next; link != (head);         \
	     link = link##_next_, link##_next_ = link->next)
