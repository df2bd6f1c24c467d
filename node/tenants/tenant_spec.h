/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant that is to be made. */
#pragma once

#include "node/daemon.h"

struct tenant_spec {
	uint32_t id; /* 0: a new one */
	uid_t owner;
	const char *name;
	const char *texts[SHARE_FIELDS]; /* share.def's order; NULL: default */
	struct tenant *outer;		 /* NULL: none */
	bool observes, pods;
	uint32_t devices;
	uint32_t device[WIRE_DEVICES];
};
/* The share that its texts describe. -EINVAL: one of them is not accepted. */
must_check int tenant_spec_share(const struct tenant_spec *spec, struct share *ret_share);
