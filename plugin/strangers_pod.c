/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>

#include "plugin/strangers.h"

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* A UUID: 8-4-4-4-12 hexadecimal digits, with '-' or '_' between them. */
static bool is_uid(const char *text)
{
	for (unsigned i = 0; i < STRANGERS_UID - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' && text[i] != '_' : !is_hex(text[i]))
			return false;
	}
	return !is_hex(text[STRANGERS_UID - 1]);
}

int strangers_pod(const char *cgroup, char ret_uid[STRANGERS_UID])
{
	for (const char *at = strstr(cgroup, "pod"); at; at = strstr(at + 1, "pod")) {
		/* "pod" must begin a part of the path, as in "/kubepods/burstable/pod..." or
		 * "...-pod....slice", not end a longer word. */
		if (at == cgroup || (at[-1] != '/' && at[-1] != '-') || !is_uid(at + 3))
			continue;
		memcpy(ret_uid, at + 3, STRANGERS_UID - 1);
		ret_uid[STRANGERS_UID - 1] = '\0';
		for (char *c = ret_uid; *c; c++)
			if (*c == '_')
				*c = '-';
		return 0;
	}
	return -ENOENT;
}
