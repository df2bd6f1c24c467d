/* SPDX-License-Identifier: Apache-2.0 */
/* A user of the system's meted, and all of them. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/file_watch.h"
#include "base/list.h"
#include "base/loop.h"
#include "core/ledger/ledger.h"
#include "node/bounds.h"
#include "node/peers/flow.h"

struct daemon;
struct policy;
struct remains;

enum { USER_GROUPS = 128 }; /* at most so many are considered */

struct user {
	struct list link; /* of the daemon */
	struct daemon *daemon;
	struct loop_timer end;
	uid_t uid;
	bool known; /* its groups are known */
	size_t group_count;
	gid_t groups[USER_GROUPS];
	struct flow flow;
	uint32_t admins, tenants, lists;
	struct remains *remains;	  /* likewise: of its tenants that have ended */
	struct ledger_account *account[]; /* of each device */
};

struct users {
	struct list all;
	uint32_t count;
	struct policy *policy;	/* owned */
	bool policy_known;	/* it has been read at least once */
	bool policy_there;	/* its file existed the last time */
	char policy_fault[512]; /* why it could not be read the last time; "": it could */
	struct file_watch policy_watch;
	struct loop_signal policy_signal;
	struct ledger_account *together[DAEMON_DEVICES]; /* of all users */
};
