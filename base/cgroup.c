/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"

#include <stdbool.h>
#include <string.h>

const char *cgroup_path(const char *text, size_t *ret_length)
{
	const char *line = text;

	while (line && strncmp(line, "0::/", 4) != 0) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	if (!line)
		return NULL;
	*ret_length = strcspn(line + 3, "\n");
	return line + 3;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The length of the UID at the beginning of a text. 0: there is none. */
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

const char *cgroup_pod(const char *path, size_t *ret_length)
{
	for (const char *at = strstr(path, "pod"); at; at = strstr(at + 1, "pod")) {
		/* Not the end of a longer word. */
		if (at == path || (at[-1] != '/' && at[-1] != '-'))
			continue;
		*ret_length = measure(at + 3);
		if (*ret_length)
			return at + 3;
	}
	return NULL;
}
