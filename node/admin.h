/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's connections, for their four files: admin_accept.c accepts them, admin.c handles
 * their messages, admin_make.c creates tenants, admin_cordon.c empties devices. No other file
 * includes this. */
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

/* The answer to TENANT_NEW. */
void admin_make(struct admin *a, uint32_t id, const struct wire_tenant_new *said);

/* The one tenant that a number and a name (0 and "": not given) refer to; NULL: the peer was told
 * why not.
 */
struct tenant *admin_named(struct admin *a, uint32_t id, uint32_t tenant, const char *name);
/* Likewise, if the peer may change the tenant. `or_keep`: or if the peer runs within it, which
 * allows it to keep that tenant and nothing else. */
struct tenant *admin_own(struct admin *a, uint32_t id, uint32_t tenant, const char *name,
			 bool or_keep);
/* Only root, or the user of a user's own meted, may do `what`; false: the peer was told so. */
bool admin_is_master(struct admin *a, uint32_t id, const char *what);

/* The answers to DEVICE_CORDON and TENANT_END. */
void admin_cordon(struct admin *a, uint32_t id, const struct wire_device_cordon *said);
void admin_end(struct admin *a, uint32_t id, const struct wire_tenant_end *said);
