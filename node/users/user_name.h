/* SPDX-License-Identifier: Apache-2.0 */
/* A user's name. */
#pragma once

#include <sys/types.h>

enum { USER_NAME_MAX = 32 + 1 };

/* "alice", or "1004", as /etc/passwd has it. */
struct user_name {
	char text[USER_NAME_MAX];
};
struct user_name user_name(uid_t uid);
