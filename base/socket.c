/* SPDX-License-Identifier: Apache-2.0 */
#include "base/socket.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int socket_answers(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	owned(close) int fd = -1;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN)
		return 0;
	return -errno;
}

int socket_find(const char *folder, const char *prefix, char *ret_name, size_t size)
{
	DIR *names = opendir(folder);
	struct dirent *entry;
	char path[PATH_MAX];
	int r = -ENOENT;

	while (names && r < 0 && (entry = readdir(names))) {
		if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0 ||
		    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >=
			    (int)sizeof(path) ||
		    socket_answers(path) != 0)
			continue;
		snprintf(ret_name, size, "%s", entry->d_name);
		r = 0;
	}
	if (names)
		closedir(names);
	return r;
}

static bool is_named(const char *name, const char *prefix, const char *suffix)
{
	size_t length = strlen(name), before = strlen(prefix), after = strlen(suffix);

	return length > before + after && memcmp(name, prefix, before) == 0 &&
	       strcmp(name + length - after, suffix) == 0;
}

static bool is_left(const char *path)
{
	struct stat about;

	return lstat(path, &about) == 0 && S_ISSOCK(about.st_mode) && about.st_uid == geteuid() &&
	       socket_answers(path) == -ECONNREFUSED;
}

size_t socket_clear(const char *folder, const char *prefix, const char *suffix)
{
	DIR *names = opendir(folder);
	struct dirent *entry;
	char path[PATH_MAX];
	size_t n = 0;

	while (names && (entry = readdir(names))) {
		int length = snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);

		if (length < (int)sizeof(path) && is_named(entry->d_name, prefix, suffix) &&
		    is_left(path) && unlink(path) == 0)
			n++;
	}
	if (names)
		closedir(names);
	return n;
}
