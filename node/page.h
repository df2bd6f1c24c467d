/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One page of memory that a guest is given by descriptor. Sealed: nobody can shrink or grow it, and
 * of a read-only one nobody but this process, which mapped it before, can ever write again, however
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
	int fd;	      /* what is handed out; -1: none */
};

must_check int page_make(struct page *ret_page, const char *name, enum page_kind kind);

/* The descriptor is not needed any more once it was sent; the mapping stays. */
void page_forget_fd(struct page *page);
void page_done(struct page *page);
