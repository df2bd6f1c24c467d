/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants within tenants: see the top of nested.c. */
#pragma once

#include "node/daemon.h"

/* The tenant that encloses a caller, found by the socket that it was given (or "") or by its
 * ancestors; NULL: none. */
struct tenant *nested_find(struct daemon *d, const char *socket, pid_t caller, uint64_t started);
/* The tenant's own part of the time, without the tenants within it. Its weight is in hundredths, so
 * that a small one can be divided as well. */
enum { NESTED_WEIGHT = 100 };
void nested_share(const struct tenant *t, struct share *ret_share);
/* Whether one more may be made within it: each has a part of its share, and those cannot be
 * arbitrarily small. 0, or -EPERM. / Whether it may have the share's cap, of which those within it
 * have parts. 0, or -EINVAL. */
must_check int nested_admit(struct tenant *outer, struct fault *why);
must_check int nested_admit_cap(struct tenant *t, const struct share *share, struct fault *why);
/* Its share, or that of an enclosing tenant, has changed: this affects all tenants within it. */
void nested_changed(struct tenant *t);
/* A sentence for people that names what the tenant asked for but gets less of, because it is within
 * another tenant. "": nothing. */
void nested_note(const struct tenant *t, char *ret_note, size_t size);
/* The outer tenant's account on one of the daemon's devices; NULL: it does not have that device. */
struct ledger_account *nested_account(const struct tenant *outer, uint32_t index);
/* A tenant with an outer one has been created. / A tenant is about to end: the tenants within it
 * pass to its own outer one. / It has ended. */
void nested_join(struct tenant *t);
void nested_lift(struct tenant *t);
void nested_leave(struct tenant *t);
