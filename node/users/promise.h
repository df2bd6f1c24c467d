/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees that are promised to tenants: see the top of promise.c. */
#pragma once

#include "node/daemon.h"

struct tenant_spec;

/* Does the guarantee of a new tenant, or of a changed share, fit beside those of the
 * other tenants on its devices? This applies to all users. -EPERM, with a sentence. */
must_check int promise_new(struct daemon *d, const struct tenant_spec *spec, struct fault *why);
must_check int promise_change(struct tenant *t, const struct share *share, struct fault *why);
