/* SPDX-License-Identifier: Apache-2.0 */
#include "core/turns/turns_heap.h"

static bool before(const struct turns_node *a, const struct turns_node *b)
{
	int64_t difference = (int64_t)(a->key - b->key);

	return difference != 0 ? difference < 0 : a->came < b->came;
}

/* Of two trees without siblings one. */
static struct turns_node *meld(struct turns_node *a, struct turns_node *b)
{
	struct turns_node *lesser = a, *other = b;

	if (!a || !b)
		return a ? a : b;
	if (before(b, a)) {
		lesser = b;
		other = a;
	}
	other->next = lesser->child;
	if (other->next)
		other->next->link = &other->next;
	other->link = &lesser->child;
	lesser->child = other;
	return lesser;
}

static void set_first(struct turns_heap *heap, struct turns_node *node)
{
	heap->first = node;
	if (!node)
		return;
	node->next = NULL;
	node->link = &heap->first;
}

/* Merges pairs from the left, then all results from the right; this makes it O(log n). */
static struct turns_node *meld_children(struct turns_node *list)
{
	struct turns_node *pairs = NULL, *all = NULL;

	while (list) {
		struct turns_node *a = list, *b = a->next, *both;

		list = b ? b->next : NULL;
		a->next = NULL;
		if (b)
			b->next = NULL;
		both = meld(a, b);
		both->next = pairs;
		pairs = both;
	}
	while (pairs) {
		struct turns_node *rest = pairs->next;

		pairs->next = NULL;
		all = meld(all, pairs);
		pairs = rest;
	}
	return all;
}

void turns_heap_add(struct turns_heap *heap, struct turns_node *node, uint64_t key)
{
	*node = (struct turns_node){.key = key, .came = ++heap->comings};
	set_first(heap, meld(heap->first, node));
}

void turns_heap_remove(struct turns_heap *heap, struct turns_node *node)
{
	struct turns_node *children;

	if (!node->link)
		return;
	children = meld_children(node->child);
	if (heap->first == node) {
		set_first(heap, children);
	} else {
		*node->link = node->next;
		if (node->next)
			node->next->link = node->link;
		set_first(heap, meld(heap->first, children));
	}
	*node = (struct turns_node){0};
}
