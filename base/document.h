/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a YAML (or JSON) text into a tree in which each node has the number of its text line.
 * Size, depth and the number of nodes are bounded. The tree gives only the structure of the text:
 * the reader decides what the words mean and whether a key may appear twice.
 *
 * An alias shares the node that it refers to, which never contains the alias. The tree therefore
 * has no cycles, but a walk over all of it may visit one node many times.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"

enum {
	DOCUMENT_DEPTH_MAX = 16,
	DOCUMENT_NODES_MAX = 16384,
	DOCUMENT_ANCHORS_MAX = 64,
};

enum document_kind { DOCUMENT_TEXT, DOCUMENT_LIST, DOCUMENT_MAP };

struct document_node {
	enum document_kind kind;
	bool plain;				  /* a text without quotes */
	uint32_t line;				  /* of text, from 1 */
	const char *key;			  /* in a map; NULL in a list */
	const char *text;			  /* of a DOCUMENT_TEXT */
	const struct document_node *first, *next; /* children; siblings */
};

struct document {
	const struct document_node *root; /* NULL: there are only blanks and comments */
	void *memory;
};

/* -EINVAL with "NAME:LINE: ..."; -ENOMEM. `size` is bounded by the caller. */
must_check int document_parse(const char *name, const char *text, size_t size,
			      struct document *ret_document, struct fault *why);
void document_done(struct document *document);

static inline void document_done_owned(struct document *document)
{
	document_done(document);
}

/* There is no value: an empty plain text, ~ or null. */
bool document_is_null(const struct document_node *node);
