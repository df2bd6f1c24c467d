/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant is entitled to: parses amounts and computes with them. Pure: texts in, numbers or
 * outcome codes out. Callers that talk to people build sentences from share_problem() and
 * share_accepts().
 *
 * Units of memory are binary: 4G, 4GB, 4Gi and 4GiB are all 4 * 2^30 bytes, as in nvidia-smi, CUDA
 * and docker (up to T; upper or lower case; a fraction of up to nine digits as in 1.5G). A number
 * without a unit is bytes, and at least 1 MiB: a smaller one probably lacks its unit. A lower-case
 * "m" is refused: some read it as mebibytes and others as thousandths. Thousandths are written
 * 250/1000.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/* Why a text is not accepted. */
enum {
	SHARE_EMPTY = 1,   /* nothing was given */
	SHARE_NONSENSE,	   /* not a number or word of this field */
	SHARE_NEGATIVE,	   /* below zero */
	SHARE_ZERO,	   /* zero, which is not accepted here */
	SHARE_UNIT,	   /* a unit is missing, unknown or ambiguous */
	SHARE_BARE,	   /* a unit is missing that only whole bytes from 1 MiB on may lack */
	SHARE_LARGE,	   /* more than there is */
	SHARE_KEY,	   /* no such field */
	SHARE_ORDER,	   /* the cap is below the guarantee */
	SHARE_THOUSANDTHS, /* "500m", of a part: a fraction is written instead */
	SHARE_MILLI,	   /* "256m", of an amount: mebibytes or thousandths */
};

/* Bytes, or thousandths of a device; exactly one of them is not zero. */
struct share_amount {
	uint64_t bytes;
	uint32_t milli;
};

enum share_class { SHARE_INTERACTIVE, SHARE_STANDARD, SHARE_BATCH };

/* The values are those of enum wire_loss. */
enum share_loss { SHARE_CONTINUE, SHARE_BLOCK, SHARE_FAIL };

/* What happens to a tenant whose work on a device does not end. */
enum share_escalate { SHARE_REPORT, SHARE_SUSPEND, SHARE_KILL };

struct share {
	struct share_amount memory;
	uint32_t weight, guarantee_milli, cap_milli;
	enum share_class class;
	enum share_escalate escalate;
	enum share_loss on_daemon_loss;
	bool weighted;	       /* the weight was set explicitly, even if to the default */
	bool equal;	       /* at most 1/n of the time with n tenants on the device */
	bool swap;	       /* blocks may be evicted */
	bool oversize;	       /* what the device cannot hold is managed memory */
	bool kill_unannounced; /* processes of its pod that are not guests */
	bool quiet;	       /* programs are not told that they wait */
	bool strict;	       /* unknown versions of enforcing functions are refused */
	uint64_t wait_ns;      /* longest wait for room; 0: none */
	uint64_t park_ns;      /* idle for so long its memory leaves the device; 0: it stays */
};

/* How many fields there are. */
enum {
	SHARE_FIELDS = 0
#define SHARE(key, kind, normally, accepted) +1
#include "core/share/share.def"
#undef SHARE
};

/* Every field at its default. */
void share_init(struct share *share);

/* Changes one field; nothing changes unless 0 is returned. An empty value means the default. */
must_check int share_set(struct share *share, const char *key, const char *value);

/* Whether setting `key` also sets `other`, which overrides its earlier value. */
int share_includes(const char *key, const char *other);

must_check int share_parse_amount(const char *text, struct share_amount *ret_amount);

/* "25%", "12.5%", "250/1000" or "0.25", and 0: a part of something, up to most_milli thousandths of
 * it. "25" alone is no part: it has no unit. */
must_check int share_parse_part(const char *text, uint32_t most_milli, uint32_t *ret_milli);

/* "100us", "500ms", "1.5s", "10m", "2h", "1d"; 0 needs no unit. */
must_check int share_parse_time(const char *text, uint64_t most_ns, uint64_t *ret_ns);

/* The same of a wait: at most an hour. */
must_check int share_parse_duration(const char *text, uint64_t *ret_ns);

/* The amount on a device of that size; SHARE_LARGE if the device has less, SHARE_ZERO if it
 * rounds down to zero. */
must_check int share_bytes(const struct share_amount *amount, uint64_t device_bytes,
			   uint64_t *ret_bytes);

/* "has no unit that is known", for "FIELD: 'VALUE' ..."; never NULL. */
const char *share_problem(int outcome);

/* The outcome is of an amount whose unit is missing or unknown: say how to write it. */
bool share_lacks_unit(int outcome);

/* What a field accepts, or NULL if there is no such field. */
const char *share_accepts(const char *key);

/* A field's default; "" if there is no such field. */
const char *share_default(const char *key);

/* The fields' names, in the order of share.def; NULL after the last. */
const char *share_key(uint32_t index);
/* The index of a field; that behind the last if there is no such field. */
uint32_t share_index(const char *key);
/* All of them, for a sentence: "memory, swap, ..."; cut short if `size`, not 0, is too small. */
void share_keys(char *text, size_t size);
