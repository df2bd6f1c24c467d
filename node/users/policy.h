/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy says who may have how much of this machine's GPUs: /etc/mete/meted.yaml, written by
 * the administrator. This module reads it and finds a user's terms; user.c applies them.
 *
 *	default:                   # whom no entry below names
 *	  tenant: {memory: 50%, weight: 100, guarantee: 0%, class: standard}
 *	  sum: {memory: 75%, weight: 400, guarantee: 0%, tenants: 16, devices: 2}
 *	groups:
 *	  ml: {tenant: {class: interactive}}
 *	users:
 *	  alice: {sum: {tenants: 64}}
 *	  1004: none
 *	together: {memory: 90%, guarantee: 50%, tenants: 200}
 *
 * A user's own entry takes precedence over that of the first group in the file that the user is in.
 * Fields that an entry lacks are taken from `default`; fields that it lacks, too, are unlimited,
 * except for what policy_init() sets. The policy does not limit root.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/fault.h"
#include "core/share/share.h"

enum {
	POLICY_ENTRIES_MAX = 1024,
	POLICY_BYTES_MAX = 256 << 10,
	POLICY_TENANTS = 16, /* of a user, if the policy does not say how many */
};

#define POLICY_FILE "/etc/mete/meted.yaml"

/* The fields of an entry, or of `together`; see policy.def. */
enum policy_key {
#define KEY(section, name, kind, accepted) POLICY_##section##_##name,
#include "node/users/policy.def"
#undef KEY
	POLICY_KEYS
};

struct policy_value {
	struct share_amount amount; /* of memory; all zero: no bound */
	uint32_t number;	    /* of all other fields; parts are in thousandths */
	uint32_t text_line;	    /* 0: it is not in the file */
};

struct policy_terms {
	bool none; /* no tenants at all */
	uint32_t text_line;
	struct policy_value value[POLICY_KEYS];
};

struct policy_entry {
	bool group;
	uint32_t id; /* of the user or group */
	struct policy_terms terms;
};

struct policy {
	struct policy_terms normally; /* `together` is in it, too */
	uint32_t entries;
	struct policy_entry *entry;
};

/* The policy that applies without a file. */
void policy_init(struct policy *policy);

/* -EINVAL with "NAME:LINE: ..."; -ENOMEM. `find`: a user's or group's number by its name; -ENOENT.
 * *ret_policy is set only if 0 is returned. */
struct policy_names {
	int (*find)(void *context, bool group, const char *name, uint32_t *ret_id);
	void *context;
};
must_check int policy_parse(const char *name, const char *text, size_t size,
			    const struct policy_names *names, struct policy *ret_policy,
			    struct fault *why);

/* Reads the file. If there is none: policy_init(), and POLICY_ABSENT. Names are looked up in the
 * system. */
enum { POLICY_ABSENT = 1 };
must_check int policy_read(const char *path, struct policy *ret_policy, struct fault *why);
void policy_done(struct policy *policy);

const struct policy_terms *policy_of(const struct policy *policy, uid_t user, const gid_t *groups,
				     size_t count);
