/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All bindings. Each is recorded (a file under FOLDER, replaced atomically) before the container
 * may start, so that a restarted meted recognises its containers.
 */
#pragma once

#include "plugin/kubelet/binding.h"

struct binding_store {
	char *folder;
	struct list all;
	uint32_t count;
};

/* Reads the records; a file that cannot be parsed is logged and removed. */
must_check int binding_store_open(struct binding_store *store, const char *folder,
				  const struct host *host, struct fault *why);
void binding_store_close(struct binding_store *store);

struct binding *binding_store_find(struct binding_store *store, const char *key);
/* NULL: the tenant is no container's. */
struct binding *binding_store_of_tenant(const struct binding_store *store, uint32_t tenant);
/* Records it, then replaces the binding with that key (which is freed). On failure the caller
 * still owns it, and the store is unchanged. */
must_check int binding_store_put(struct binding_store *store, struct binding *binding,
				 const struct host *host, struct fault *why);
/* Its texts have changed, or are about to. */
void binding_store_rewrite(struct binding_store *store, const struct binding *binding,
			   const struct host *host);
/* Removes its file, and frees it. */
void binding_store_drop(struct binding_store *store, struct binding *binding);
