/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users of the system's meted, except root. Each user's requests get a part of meted's time,
 * like a tenant's (flow.h). What each has is limited by the policy (policy.h) and by the constants
 * here, so that no user can prevent the others from being served.
 *
 *	user.c    which users there are
 *	terms.c   what the policy allows their tenants
 *
 * A user's own meted sets no limits, and the system's meted sets none for its own user.
 */
#pragma once

#include "node/daemon.h"
#include "node/users/policy.h"

enum {
	USER_GROUPS = 128, /* at most so many are considered */
	USER_SESSIONS =
		64, /* admin connections, in addition to one for each tenant that it may have */
	/* for a user without tenants, if there are many users or connections */
	USER_SESSIONS_CROWDED = 2,
	USER_LISTS = 8,	    /* that wait to be answered */
	USER_ASKS = 512,    /* waiting ones, in addition to those reserved for its tenants */
	USER_GUESTS = 1024, /* likewise, processes */
	USER_NAME_MAX = 32 + 1,
};

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

/* Reads the policy, and rereads it when it changes or on SIGHUP. A mistake in it is logged: at the
 * start, only root then has tenants; later, the former policy stays in force. */
must_check int user_open(struct daemon *d, struct fault *why);
void user_close(struct daemon *d);

/* NULL in *ret_user: that user has no limits. -ENOSPC, -ENOMEM: there is no room for another
 * user. */
must_check int user_find(struct daemon *d, uid_t uid, struct user **ret_user);
/* Learns the groups of the process at the other end of a connection. */
void user_learn(struct user *u, int fd);
/* Call it after an admin or tenant has gone. NULL: does nothing. */
void user_maybe_end(struct user *u);
/* How many connections it may have. */
uint32_t user_sessions(const struct user *u);
/* Whether its tenants may have another process, or another ask beyond the reserved ones. */
bool user_has_seat(const struct user *u);
bool user_may_ask(const struct user *u);

/* "alice", or "1004", as /etc/passwd has it. */
struct user_name {
	char text[USER_NAME_MAX];
};
struct user_name user_name(uid_t uid);

/* terms.c. Fields of the share that are not given become what the user may have, and all fields
 * are checked. `room`: for texts that are set in `spec`. */
struct terms_texts {
	char memory[32], weight[16], class[16];
};
must_check int terms_admit(struct user *u, struct tenant_spec *spec, struct terms_texts *room,
			   struct fault *why);
/* May a tenant's share become this one? Fields that do not increase are always allowed. */
must_check int terms_change(struct tenant *t, const struct share *share, struct fault *why);

/* promise.c. Does the guarantee of a new tenant, or of a changed share, fit beside those of the
 * other tenants on its devices? This applies to all users. -EPERM, with a sentence. */
must_check int promise_new(struct daemon *d, const struct tenant_spec *spec, struct fault *why);
must_check int promise_change(struct tenant *t, const struct share *share, struct fault *why);
/* May the user have another device reserved by `mete pick`? */
must_check int terms_reserve(struct user *u, struct fault *why);
/* Sets its limits, and those of all users together, to the policy's current values. */
void terms_apply(struct user *u);
void terms_apply_all(struct daemon *d);
