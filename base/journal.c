/* SPDX-License-Identifier: Apache-2.0 */
#include "base/journal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

enum {
	CHECKSUM_DIGITS = 8,
	JOURNAL_MOST = 64 << 20,
	LONG_BYTES = 64 << 10,
	LONG_FACTOR = 4,
};

/* CRC-32 (IEEE 802.3), four bits at a time. */
static uint32_t checksum(const char *text, size_t size)
{
	static const uint32_t of_bits[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
					     0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
					     0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
					     0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < size; i++) {
		crc ^= (uint8_t)text[i];
		crc = crc >> 4 ^ of_bits[crc & 15];
		crc = crc >> 4 ^ of_bits[crc & 15];
	}
	return ~crc;
}

static bool is_whole(const char *text, size_t size)
{
	char wanted[CHECKSUM_DIGITS + 2];

	if (size < CHECKSUM_DIGITS + 1 || size > JOURNAL_RECORD_MAX || memchr(text, 0, size))
		return false;
	snprintf(wanted, sizeof(wanted), "%08" PRIx32 " ",
		 checksum(text + CHECKSUM_DIGITS + 1, size - CHECKSUM_DIGITS - 1));
	return memcmp(text, wanted, CHECKSUM_DIGITS + 1) == 0;
}

size_t journal_scan(const char *text, size_t size, void (*record)(void *context, const char *text),
		    void *context)
{
	size_t done = 0;

	for (;;) {
		const char *end = memchr(text + done, '\n', size - done);
		char one[JOURNAL_RECORD_MAX + 1];
		size_t length;

		if (!end)
			return done;
		length = (size_t)(end - (text + done));
		if (!is_whole(text + done, length))
			return done;
		length -= CHECKSUM_DIGITS + 1;
		memcpy(one, text + done + CHECKSUM_DIGITS + 1, length);
		one[length] = 0;
		record(context, one);
		done = (size_t)(end - text) + 1;
	}
}

int journal_open(struct journal *j, const char *path,
		 void (*record)(void *context, const char *text), void *context, struct fault *why)
{
	owned(free) char *text = NULL;
	size_t size = 0, whole;
	int r;

	*j = (struct journal){.fd = -1};
	if (snprintf(j->path, sizeof(j->path), "%s", path) >= (int)sizeof(j->path))
		return fault_set(why, -ENAMETOOLONG, "%s: the path is too long", path);
	r = file_slurp(path, JOURNAL_MOST, &text, &size);
	if (r < 0 && r != -ENOENT)
		return fault_set(why, r, "%s: %s", path, strerror(-r));
	whole = text ? journal_scan(text, size, record, context) : 0;
	if (whole != size)
		log_warning("journal.cut", "path=%s bytes=%zu", path, size - whole);
	j->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_APPEND, 0600);
	if (j->fd < 0 || ftruncate(j->fd, (off_t)whole) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	j->bytes = j->bytes_when_rewritten = whole;
	return 0;
}

void journal_close(struct journal *j)
{
	if (j->fd >= 0)
		close(j->fd);
	j->fd = -1;
}

int journal_append(struct journal *j, const char *record)
{
	char whole[JOURNAL_RECORD_MAX + CHECKSUM_DIGITS + 3];
	size_t length = strlen(record);
	int r;

	if (j->fd < 0 || length > JOURNAL_RECORD_MAX - CHECKSUM_DIGITS - 1 || strchr(record, '\n'))
		return -EINVAL;
	length = (size_t)snprintf(whole, sizeof(whole), "%08" PRIx32 " %s\n",
				  checksum(record, length), record);
	r = file_write(j->fd, whole, length);
	if (r < 0) {
		/* Half a record would hide those after it. */
		best_effort(ftruncate(j->fd, (off_t)j->bytes));
		return r;
	}
	j->bytes += length;
	return 0;
}

int journal_rewrite(struct journal *j, const char *records)
{
	size_t room = 0, size = 0;
	owned(free) char *text = NULL;
	int fd, r;

	for (const char *at = records; *at; at++)
		room += *at == '\n' ? CHECKSUM_DIGITS + 2 : 1;
	text = malloc(room + 1);
	if (!text)
		return -ENOMEM;
	for (const char *at = records; *at;) {
		const char *end = strchr(at, '\n');
		size_t length = (size_t)(end - at);

		size += (size_t)sprintf(text + size, "%08" PRIx32 " ", checksum(at, length));
		memcpy(text + size, at, length + 1);
		size += length + 1;
		at = end + 1;
	}
	r = file_replace(j->path, text, size, 0600);
	if (r < 0)
		return r;
	fd = open(j->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_APPEND);
	if (fd < 0)
		return -errno;
	journal_close(j);
	j->fd = fd;
	j->bytes = j->bytes_when_rewritten = size;
	return 0;
}

bool journal_is_long(const struct journal *j)
{
	return j->bytes > LONG_BYTES && j->bytes > LONG_FACTOR * j->bytes_when_rewritten;
}
