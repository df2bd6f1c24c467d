/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: socket, page, life. */
#pragma once

#include "node/daemon.h"

struct tenant_spec {
	uint32_t id; /* 0: a new one */
	uid_t owner;
	const char *name;
	const char *texts[SHARE_FIELDS]; /* share.def's order; NULL: default */
	struct tenant *outer;		 /* NULL: none */
	uint32_t devices;
	uint32_t device[WIRE_DEVICES];
};
/* The share that its texts describe. -EINVAL: one of them is not accepted. */
must_check int tenant_spec_share(const struct tenant_spec *spec, struct share *ret_share);
must_check int tenant_make(struct daemon *d, const struct tenant_spec *spec,
			   struct tenant **ret_tenant, struct fault *why);
struct tenant *tenant_find(struct daemon *d, uint32_t id);
struct tenant *tenant_find_by_name(struct daemon *d, const char *name);
/* The path of a tenant's folder that a former daemon made; -ENOENT. */
must_check int tenant_find_folder(const struct daemon *d, uint32_t id, char *ret_folder,
				  size_t size);
/* Ends the tenant if nothing keeps it. */
void tenant_maybe_end(struct tenant *t);
void tenant_end(struct tenant *t);
/* The tenant lives until its keeper releases it: keepers-- and tenant_maybe_end(), or
 * tenant_retire(). */
void tenant_keep(struct tenant *t);
/* Its keeper releases it, and no process can join any more: it ends when its processes have
 * ended. */
void tenant_retire(struct tenant *t);
/* Publishes the figures of one of its devices; tenant_show_share() publishes the rest of its
 * share. */
void tenant_show(struct tenant *t, uint32_t device);
/* Of these figures only what the device's other tenants change; `credit`: book_credit(). */
void tenant_show_room(struct tenant_device *at, uint64_t credit);
void tenant_show_share(struct tenant *t);
