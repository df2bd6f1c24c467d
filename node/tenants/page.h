/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page of memory that is passed to a guest by descriptor. It is sealed: no process can shrink
 * or grow it. A read-only page can be written only by this process, which mapped it before, however
 * the descriptor is reopened.
 */
#pragma once

#include "base/macros.h"

enum page_kind {
	PAGE_GUEST_WRITES, /* a guest's own page */
	PAGE_GUEST_READS,  /* a tenant's page */
};

struct page {
	void *memory; /* WIRE_PAGE_SIZE bytes, ours; NULL: there is none */
	int fd;	      /* the descriptor to hand out; -1: none */
};

must_check int page_make(struct page *ret_page, const char *name, enum page_kind kind);

/* Closes the descriptor, which is no longer needed once it was sent; the mapping stays. */
void page_forget_fd(struct page *page);
void page_done(struct page *page);
