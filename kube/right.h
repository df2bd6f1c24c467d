/* SPDX-License-Identifier: Apache-2.0 */
/* A user's rights in a cluster, in words that its users share: no JSON, no server. */
#pragma once

#include <stdbool.h>

/* What somebody may `get`, as Kubernetes names it; texts that are "" are left out. Without a name:
 * each one of that namespace. */
struct right {
	const char *group, *resource, *subresource, *namespace, *name;
	bool of_node; /* the name is this node's */
};

enum { RIGHT_NO = 1 };

/* An answer. 0: yes; where it is about a token, `user` is its user, in the form that questions
 * about his rights want, and `name` his name: both are lent. RIGHT_NO. -errno: the API server did
 * not answer. */
typedef void right_told(void *owner, int r, const char *user, const char *name);

/* A question under way. */
struct right_asked;
