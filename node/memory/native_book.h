/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which limits the driver has of which control group on which device, and which it should have.
 * Pure: it is told which tenants have processes in a group, names the groups of which something has
 * changed, and says which calls are to be made. What an event costs depends on the groups that it
 * concerns, not on those that there are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/macros.h"

#define NATIVE_NONE UINT64_MAX /* no limit */

enum { NATIVE_HEADS = 256 };

/* Whole MiB, as NVIDIA's tool sets them. */
struct native_limits {
	uint64_t soft_bytes; /* guaranteed; 0: nothing */
	uint64_t hard_bytes; /* at most; NATIVE_NONE */
};

struct native_want {
	uint32_t device;
	struct native_limits limits;
};

struct native_row;

/* A control group. It is there while it has processes of tenants, or the driver may have a limit
 * of it. */
struct native_group {
	struct list same_path;
	struct list stale; /* linked: something has changed */
	struct list due;   /* linked: calls are to be made */
	struct list members;
	char *path;		/* owned */
	struct native_row *row; /* owned: of devices */
	uint32_t rows, calls;	/* calls: that are being made */
};

/* A tenant with processes in a group. */
struct native_member {
	struct list link, same_tenant;
	struct native_group *group;
	uint32_t tenant, processes;
};

struct native_book {
	struct list paths[NATIVE_HEADS], tenants[NATIVE_HEADS];
	struct list stale;
	struct list shrinking, due; /* of groups: to some less is guaranteed, to the others not */
};

struct native_call {
	struct native_group *group;
	uint32_t row, device;
	const char *path; /* lent until native_book_done() */
	struct native_limits limits, before;
};

void native_book_init(struct native_book *book);
/* A process of the tenant is in the group of that path, until native_book_leave(). -ENOMEM. */
must_check int native_book_join(struct native_book *book, const char *path, uint32_t tenant,
				struct native_member **ret_member);
void native_book_leave(struct native_book *book, struct native_member *member);
/* Of the tenant something has changed that its limits depend on. */
void native_book_changed(struct native_book *book, uint32_t tenant);
/* All its processes are in one group. That this is so, or not any more, is a change of its groups.
 */
bool native_book_has_one(const struct native_book *book, uint32_t tenant);

/* A group of which something has changed, each once; NULL: none. native_book_want() must follow. */
struct native_group *native_book_stale(struct native_book *book);
/* The tenant to which all of the group's processes belong. False: there is none, or several: the
 * group is not its own. */
bool native_group_owner(const struct native_group *group, uint32_t *ret_tenant);
/* From now on these limits are wanted of the group, on different devices, and no others. A group
 * that nobody needs any more ends. -ENOMEM: it is stale still. */
must_check int native_book_want(struct native_book *book, struct native_group *group,
				const struct native_want *want, uint32_t count);

/* The next call that is to be made, what shrinks first; native_book_done() must follow. False:
 * none.
 */
bool native_book_next(struct native_book *book, struct native_call *ret_call);
/* The call's result: 0 or -errno. A refused one is not repeated before other limits are wanted. */
void native_book_done(struct native_book *book, const struct native_call *call, int result);
/* It was not made, and is the next one again. */
void native_book_undone(struct native_book *book, const struct native_call *call);
/* No call is being made, and no member is used any more. */
void native_book_free(struct native_book *book);
