/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The users of the system's meted, except root. Each user's requests get a part of meted's time,
 * like a tenant's (flow.h). What each has is limited by the policy (policy.h) and by the constants
 * here, so that no user can prevent the others from being served.
 *
 * A user's own meted sets no limits, and the system's meted sets none for its own user.
 */
#pragma once

#include "node/daemon.h"

enum {
	USER_SESSIONS =
		64, /* admin connections, in addition to one for each tenant that it may have */
	/* for a user without tenants, if there are many users or connections */
	USER_SESSIONS_CROWDED = 2,
	USER_LISTS = 8,	    /* that wait to be answered */
	USER_ASKS = 512,    /* waiting ones, in addition to those reserved for its tenants */
	USER_GUESTS = 1024, /* likewise, processes */
};

/* Reads the policy, and rereads it when it changes or on SIGHUP. A mistake in it is logged: at the
 * start, only root then has tenants; later, the former policy stays in force. */
must_check int user_open(struct daemon *d, struct fault *why);
void user_close(struct daemon *d);
/* The policy's file. */
const char *user_policy_path(const struct daemon *d);
/* MIG has made this device: accounts of it for all users. terms_apply_all() follows. -ENOSPC. */
must_check int user_device(struct daemon *d, uint32_t device);

/* NULL in *ret_user: that user has no limits. -ENOSPC, -ENOMEM: there is no room for another
 * user. */
must_check int user_find(struct daemon *d, uid_t uid, struct user **ret_user);
/* Learns the groups of the process at the other end of a connection. */
void user_learn(struct user *u, int fd);
/* Call it after an admin or tenant has gone. NULL: does nothing. */
void user_maybe_end(struct user *u);
/* Whether its tenants may have another process, or another ask beyond the reserved ones. */
bool user_has_seat(const struct user *u);
bool user_may_ask(const struct user *u);
