/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a tenant, or its folder. */
#pragma once

#include "node/daemon.h"

struct tenant *tenant_find(struct daemon *d, uint32_t id);
struct tenant *tenant_find_by_name(struct daemon *d, const char *name);
/* The path of a tenant's folder that a former daemon made; -ENOENT. */
must_check int tenant_find_folder(const struct daemon *d, uint32_t id, char *ret_folder,
				  size_t size);
/* The folder "ID-..." below `tenants` that a former daemon made for this tenant, whose guests know
 * it. */
bool tenant_find_folder_name(const char *tenants, uint32_t id, char *ret_name, size_t size);
