/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pairing heap of embedded nodes: the least key comes first, and among equal keys the node that
 * was added first. Keys are compared by their difference, so that a virtual clock may wrap. Adding
 * takes constant time, removing O(log n) amortised. A zeroed node is in no heap.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct turns_node {
	struct turns_node *child, *next;
	struct turns_node **link; /* what points to it; NULL: it is in no heap */
	uint64_t key, came;
};

struct turns_heap {
	struct turns_node *first; /* NULL: empty */
	uint64_t comings;
};

static inline bool turns_node_linked(const struct turns_node *node)
{
	return node->link != NULL;
}

/* It is in no heap. */
void turns_heap_add(struct turns_heap *heap, struct turns_node *node, uint64_t key);
/* It is in this heap, or in none. */
void turns_heap_remove(struct turns_heap *heap, struct turns_node *node);
