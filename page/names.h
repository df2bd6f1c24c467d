/* SPDX-License-Identifier: Apache-2.0 */
/* Users' names, kept for a while: each is read from a file. */
#pragma once

#include "page/host.h"
#include "view/ps_rows.h"

enum { NAMES = 64 };

struct names {
	const struct page_host *host; /* borrowed */
	struct {
		bool known;
		uid_t uid;
		uint64_t since_ns;
		char name[PAGE_USER_MAX];
	} kept[NAMES];
};

/* For struct ps_names; `owner` is a struct names. */
struct ps_text names_user(void *owner, uint32_t uid);
