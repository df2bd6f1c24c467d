/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants: socket, page, life. */
#pragma once

#include "node/daemon.h"

struct tenant_spec;

must_check int tenant_make(struct daemon *d, const struct tenant_spec *spec,
			   struct tenant **ret_tenant, struct fault *why);
void tenant_end(struct tenant *t);
/* In which its socket is. */
void tenant_folder(const struct tenant *t, char *ret_path, size_t size);
/* The tenant lives until its keeper releases it: keepers-- and tenant_maybe_end(), or
 * tenant_retire(). */
void tenant_keep(struct tenant *t);
/* Its keeper releases it, and no process can join any more: it ends when its processes have
 * ended. */
void tenant_retire(struct tenant *t);
