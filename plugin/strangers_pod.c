/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>

#include "plugin/strangers_pod.h"

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The length of the UID at the beginning of a text: a UUID of 8-4-4-4-12 hexadecimal digits with
 * '-' or '_' between them, or 32 without, which the kubelet makes for its static pods. 0: neither.
 */
static size_t measure(const char *text)
{
	size_t digits = 0, n = 0;
	bool dashed = strnlen(text, 9) == 9 && !is_hex(text[8]);

	for (; digits < 32; n++) {
		bool dash = dashed && (n == 8 || n == 13 || n == 18 || n == 23);

		if (dash ? text[n] != '-' && text[n] != '_' : !is_hex(text[n]))
			return 0;
		digits += !dash;
	}
	return is_hex(text[n]) ? 0 : n;
}

int strangers_pod(const char *cgroup, char ret_uid[STRANGERS_UID])
{
	for (const char *at = strstr(cgroup, "pod"); at; at = strstr(at + 1, "pod")) {
		/* "pod" must begin a part of the path, as in "/kubepods/burstable/pod..." or
		 * "...-pod....slice", not end a longer word. */
		size_t length =
			at == cgroup || (at[-1] != '/' && at[-1] != '-') ? 0 : measure(at + 3);

		if (!length)
			continue;
		memcpy(ret_uid, at + 3, length);
		ret_uid[length] = '\0';
		for (char *c = ret_uid; *c; c++)
			if (*c == '_')
				*c = '-';
		return 0;
	}
	return -ENOENT;
}
