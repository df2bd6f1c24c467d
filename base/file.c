/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

int file_slurp(const char *path, size_t most, char **ret_text, size_t *ret_size)
{
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : file_slurp_from(fd, most, ret_text, ret_size);
}

int file_slurp_from(int fd, size_t most, char **ret_text, size_t *ret_size)
{
	size_t size = 0, room = 4096;
	owned(free) char *text = malloc(room);

	for (;;) {
		ssize_t n;

		if (!text)
			return -ENOMEM;
		n = read(fd, text + size, room - size - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > most)
			return -EFBIG;
		if (size == room - 1) {
			char *grown = realloc(text, room *= 2);

			if (!grown)
				return -ENOMEM;
			text = grown;
		}
	}
	text[size] = 0;
	*ret_text = take(text);
	*ret_size = size;
	return 0;
}

int file_write(int fd, const void *content, size_t size)
{
	const char *at = content;

	while (size) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

static int replace(const char *path, const void *content, size_t size, unsigned mode, bool syncs)
{
	char beside[PATH_MAX];
	owned(close) int fd = -1;
	int r;

	if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside))
		return -ENAMETOOLONG;
	fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return -errno;
	r = file_write(fd, content, size);
	if (r == 0 && syncs && fsync(fd) != 0)
		r = -errno;
	if (r == 0 && rename(beside, path) != 0)
		r = -errno;
	if (r < 0)
		unlink(beside);
	return r;
}

int file_replace(const char *path, const void *content, size_t size, unsigned mode)
{
	return replace(path, content, size, mode, true);
}

int file_replace_unsynced(const char *path, const void *content, size_t size, unsigned mode)
{
	return replace(path, content, size, mode, false);
}
