/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's connections, for their three files: admin_accept.c accepts them, admin.c handles
 * their messages, admin_make.c creates tenants. No other file includes this. */
#pragma once

#include "node/users/user.h"

enum {
	ADMIN_KEEPS = 64,     /* tenants that one connection keeps alive */
	ADMIN_SESSIONS = 512, /* connections, of root or the daemon's own user */
};

struct admin {
	struct peer peer;
	struct list link; /* of the daemon */
	struct daemon *daemon;
	pid_t pid;
	uint64_t started; /* the process of that number; 0: not known, or it has ended */
	uid_t uid;
	struct user *user; /* NULL: it may do everything */
	uint32_t minor;	   /* of the protocol that it speaks */
	bool greeted;
	bool greeting; /* its HELLO is answered when the driver has been asked */
	uint32_t hello_id;
	uint64_t hello_look;   /* by which measurement */
	uint32_t *kept, keeps; /* tenants; owned */
	bool listing;	       /* a LIST must be answered when its figures have been measured */
	uint32_t list_id, list_tenant;
	unsigned list_rounds; /* the most measurements that it still waits for */
};

/* Its messages and its end, in admin.c. */
extern const struct peer_class admin_class;
void admin_leave(struct admin *a);

/* The connection keeps the tenant alive. */
must_check int admin_make_place(struct admin *a, struct fault *why); /* for one more */
must_check int admin_keep(struct admin *a, struct tenant *t, struct fault *why);

/* The one tenant that a number and a name (0 and "": not given) refer to; NULL: the peer was told
 * why not.
 */
struct tenant *admin_named(struct admin *a, uint32_t id, uint32_t tenant, const char *name);
void admin_close_all(struct daemon *d);
