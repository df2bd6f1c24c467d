/* SPDX-License-Identifier: Apache-2.0 */
#include "node/memory/native_leaf.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"

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

/* A container's group lies below that of its pod: ".../pod<UID>/...", or
 * ".../kubepods-...-pod<UID>.slice/...". */
static bool is_containers(const char *path)
{
	size_t length;
	const char *uid = cgroup_pod(path, &length),
		   *below = uid ? strchr(uid + length, '/') : NULL;

	return below && below[1];
}

int native_leaf(const char *mount, const char *cgroup, char ret_path[NATIVE_PATH])
{
	char path[NATIVE_PATH];
	size_t length;
	const char *own = cgroup_path(cgroup, &length);

	if (!own)
		return -ENOENT;
	if (length >= sizeof(path))
		return -ENAMETOOLONG;
	memcpy(path, own, length);
	path[length] = '\0';
	/* "..": it is seen from a namespace that it is not in. " (deleted)": the group has gone. */
	if (strstr(path, "/..") || strchr(path, ' ') || !is_containers(path))
		return -ENOENT;
	length = (size_t)snprintf(ret_path, NATIVE_PATH, "%s%s",
				  strcmp(mount, "/") == 0 ? "" : mount, path);
	return length < NATIVE_PATH ? 0 : -ENAMETOOLONG;
}
