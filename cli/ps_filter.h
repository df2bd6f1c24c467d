/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tenants a person wants to see: "user=alice gpu=0 train". Words with blanks or commas
 * between them; a tenant is shown if all of them fit.
 */
#pragma once

#include "view/ps_rows.h"

enum {
	PS_FILTER_SIZE = 200,
	PS_FILTER_WORDS = 16,
};

struct ps_filter {
	char text[PS_FILTER_SIZE]; /* as it was typed */
	char words[PS_FILTER_SIZE];
	struct ps_filter_word {
		enum ps_filter_key {
			PS_FILTER_ANY,	  /* a part of its name, its user's name or its command */
			PS_FILTER_USER,	  /* a name or a number */
			PS_FILTER_TENANT, /* a name or a number */
			PS_FILTER_GPU,	  /* an index, or the beginning of a UUID */
		} key;
		unsigned at; /* in `words` */
	} word[PS_FILTER_WORDS];
	unsigned count; /* 0: all are shown */
};

/* The words that may stand before "=" in a filter; NULL: there are no more than `i`. */
const char *ps_filter_word(size_t i, enum ps_filter_key *ret_key);

/* -EINVAL with a sentence; the filter is then as before. */
must_check int ps_filter_read(struct ps_filter *filter, const char *text, struct fault *why);

bool ps_filter_tenant(const struct ps_filter *filter, const struct ps_rows *rows,
		      const struct wire_tenant_row *tenant);

/* Whether the rows' own filter shows that row: a device or tenant that fits, a process of such a
 * tenant, and, if the filter asks for no tenant, rows that belong to none. */
bool ps_shows(const struct ps_rows *rows, const struct wire_message *row);
