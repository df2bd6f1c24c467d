/* SPDX-License-Identifier: Apache-2.0 */
#include "node/memory/native_leaf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { UID_DIGITS = 32, MOUNT_POINT = 4 };

static const char *next_line(const char *at)
{
	at = strchr(at, '\n');
	return at && at[1] ? at + 1 : NULL;
}

/* The fields are separated by single spaces; a space in a path is written as an escape. */
static bool read_mount(const char *line, char ret_mount[NATIVE_PATH])
{
	const char *end = strchr(line, '\n'), *kind = strstr(line, " - cgroup2 ");
	char root[2], mount[NATIVE_PATH];

	if (!kind || (end && kind > end) ||
	    sscanf(line, "%*s %*s %*s %1s %511s", root, mount) != 2 || *mount != '/' ||
	    strchr(mount, '\\') || !strstr(line, " / ") || strstr(line, " / ") > kind)
		return false;
	memcpy(ret_mount, mount, NATIVE_PATH);
	return true;
}

int native_mount(const char *mountinfo, char ret_mount[NATIVE_PATH])
{
	for (const char *at = mountinfo; at; at = next_line(at))
		if (read_mount(at, ret_mount))
			return 0;
	return -ENOENT;
}

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* "pod" and a pod's UID, with dashes, underscores or neither. */
static bool is_pods(const char *at)
{
	int digits = 0;

	if (strncmp(at, "pod", 3) != 0)
		return false;
	for (at += 3; is_hex(*at) || *at == '-' || *at == '_'; at++)
		digits += is_hex(*at);
	return digits == UID_DIGITS;
}

/* A container's group lies below that of its pod: ".../pod<UID>/...", or
 * ".../kubepods-...-pod<UID>.slice/...". */
static bool is_containers(const char *path)
{
	for (const char *at = strstr(path, "pod"); at; at = strstr(at + 1, "pod")) {
		const char *below;

		if (at == path || (at[-1] != '/' && at[-1] != '-') || !is_pods(at))
			continue;
		below = strchr(at, '/');
		return below && below[1];
	}
	return false;
}

int native_leaf(const char *mount, const char *cgroup, char ret_path[NATIVE_PATH])
{
	const char *line = cgroup;
	char path[NATIVE_PATH];
	size_t length;

	while (line && strncmp(line, "0::", 3) != 0)
		line = next_line(line);
	if (!line)
		return -ENOENT;
	line += 3;
	length = strcspn(line, "\n");
	if (length >= sizeof(path))
		return -ENAMETOOLONG;
	memcpy(path, line, length);
	path[length] = '\0';
	/* "..": it is seen from a namespace that it is not in. " (deleted)": the group has gone. */
	if (*path != '/' || strstr(path, "/..") || strchr(path, ' ') || !is_containers(path))
		return -ENOENT;
	length = (size_t)snprintf(ret_path, NATIVE_PATH, "%s%s",
				  strcmp(mount, "/") == 0 ? "" : mount, path);
	return length < NATIVE_PATH ? 0 : -ENAMETOOLONG;
}
