/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mete ps --query KEY,...`: some keys of `--json`, one tenant or one device in each line.
 *
 * A key is one of a tenant's ("name"), of its time ("time.turns"), of its share ("fields.weight")
 * or of its device ("device.uuid"). If all keys are of devices, each line is a device, with or
 * without tenants.
 */
#pragma once

#include "view/ps_rows.h"

enum { PS_QUERY_KEYS = 100, PS_QUERY_KEY = 64 };

/* The keys that are accepted, as they are written; those of an object one after the other. */
void ps_query_each(void (*each)(void *owner, const char *key), void *owner);

struct ps_query {
	char *text; /* owned; the keys point into it */
	const char *key[PS_QUERY_KEYS];
	size_t count;
	bool of_devices;
};

/* NULL: all keys of a tenant, without those of its device. -EINVAL: one sentence. */
must_check int ps_query_read(struct ps_query *query, const char *text, struct fault *why);
void ps_query_done(struct ps_query *query);

/* CSV by RFC 4180, but with Unix line ends; bytes and nanoseconds are plain numbers. */
void ps_query_csv(const struct ps_query *query, const struct ps_rows *rows, bool header, FILE *out);
/* An array of objects, with the keys as they were asked for. */
void ps_query_json(const struct ps_query *query, const struct ps_rows *rows, FILE *out);

static inline void ps_query_done_owned(struct ps_query *query)
{
	ps_query_done(query);
}
