/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant is entitled to: reading and arithmetic of amounts. Pure: texts in, numbers or
 * outcome codes out. Sentences are made by who talks to people, from share_problem() and
 * share_accepts().
 *
 * Bytes take binary units only (B, KiB or Ki, ... up to TiB; upper or lower case; a fraction of up
 * to nine digits as in 1.5GiB): "4GB" and "4G" mean two things to different people and are refused.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"

/* Why a text is not accepted. */
enum {
	SHARE_EMPTY = 1, /* nothing was given */
	SHARE_NONSENSE,	 /* not a number or word of this field */
	SHARE_NEGATIVE,	 /* below zero */
	SHARE_ZERO,	 /* zero, where that makes no sense */
	SHARE_UNIT,	 /* a unit is missing, unknown or ambiguous */
	SHARE_LARGE,	 /* more than there is */
	SHARE_KEY,	 /* no such field */
	SHARE_ORDER,	 /* the cap is below the guarantee */
};

/* Bytes, or thousandths of a device; exactly one of them is not zero. */
struct share_amount {
	uint64_t bytes;
	uint32_t milli;
};

enum share_class { SHARE_INTERACTIVE, SHARE_STANDARD, SHARE_BATCH };

/* The values are those of enum wire_loss. */
enum share_loss { SHARE_CONTINUE, SHARE_BLOCK, SHARE_FAIL };

/* What is done with a tenant whose work on a device does not end. */
enum share_escalate { SHARE_REPORT, SHARE_SUSPEND, SHARE_KILL };

struct share {
	struct share_amount memory;
	uint32_t swap; /* 1: blocks may be evicted */
	uint32_t weight;
	uint32_t weighted; /* 1: somebody said what it weighs, be it the default */
	uint32_t guarantee_milli;
	uint32_t cap_milli;
	uint32_t equal; /* 1: at most one part of as many as there are tenants on the device */
	enum share_class class;
	enum share_escalate escalate;
	uint64_t wait_ns; /* longest wait for room; 0: none */
	enum share_loss on_daemon_loss;
	uint32_t strict; /* 1: unknown versions of enforcing functions are refused */
};

/* How many fields there are. */
enum {
	SHARE_FIELDS = 0
#define SHARE(key, kind, normally, accepted) +1
#include "core/share.def"
#undef SHARE
};

/* Every field at its default. */
void share_init(struct share *share);

/* Changes one field; nothing changes unless 0 is returned. An empty value means the default. */
must_check int share_set(struct share *share, const char *key, const char *value);

/* Whether setting `key` sets `other` as well: what was said of that before is void. */
int share_includes(const char *key, const char *other);

must_check int share_parse_amount(const char *text, struct share_amount *ret_amount);
must_check int share_parse_duration(const char *text, uint64_t *ret_ns);

/* The amount on a device of that size; SHARE_LARGE if it has not so much, SHARE_ZERO if nothing is
 * left of it after rounding down. */
must_check int share_bytes(const struct share_amount *amount, uint64_t device_bytes,
			   uint64_t *ret_bytes);

/* "has no unit that is known", for "FIELD: 'VALUE' ..."; never NULL. */
const char *share_problem(int outcome);

/* What a field accepts, or NULL if there is no such field. */
const char *share_accepts(const char *key);

/* The fields' names, in the order of share.def; NULL after the last. */
const char *share_key(uint32_t index);
