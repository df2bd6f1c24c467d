/* SPDX-License-Identifier: Apache-2.0 */
#include "base/records.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/place.h"

enum { RECORD_MAX = 256 << 10 };

static const char temporary[] = ".new"; /* file_replace()'s, behind the name */

static void path_of(const char *folder, const char *name, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s/%s", folder, name);
}

/* Was it left by a writer that was killed? */
static bool is_temporary(const struct records_reader *reader, const char *name)
{
	size_t length = strlen(name), tail = sizeof(temporary) - 1;
	char record[NAME_MAX + 1];

	if (length <= tail || strcmp(name + length - tail, temporary) != 0)
		return false;
	snprintf(record, sizeof(record), "%.*s", (int)(length - tail), name);
	return reader->names(record);
}

static void read_file(const char *folder, const char *name, const struct records_reader *reader,
		      void *owner)
{
	owned(free) char *text = NULL;
	char path[PATH_MAX];
	size_t size;
	int r;

	path_of(folder, name, path);
	if (is_temporary(reader, name)) {
		unlink(path);
		return;
	}
	if (!reader->names(name))
		return;
	r = file_slurp(path, RECORD_MAX, &text, &size);
	if (r == 0)
		r = reader->read(owner, name, text, size);
	if (r == 0)
		return;
	log_warning(reader->lost, "file=%s reason=%s", log_text(name).text,
		    log_text(strerror(-r)).text);
	if (r == -EINVAL || r == -EFBIG)
		unlink(path);
}

int records_open(const char *folder, const struct records_reader *reader, void *owner,
		 struct fault *why)
{
	int r = place_make(folder, PLACE_PRIVATE, why);
	struct dirent *entry;
	DIR *files;

	if (r < 0)
		return r;
	files = opendir(folder);
	if (!files)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	while ((entry = readdir(files)))
		if (entry->d_name[0] != '.')
			read_file(folder, entry->d_name, reader, owner);
	closedir(files);
	return 0;
}

typedef int replacer(const char *path, const void *content, size_t size, unsigned mode);

static int write_by(replacer *replace, const char *folder, const char *name, const char *text,
		    struct fault *why)
{
	char path[PATH_MAX];
	int r;

	if (!text)
		return fault_set(why, -ENOMEM, "out of memory");
	path_of(folder, name, path);
	r = replace(path, text, strlen(text), 0600);
	return r < 0 ? fault_set(why, r, "%s: %s", path, strerror(-r)) : 0;
}

int records_write(const char *folder, const char *name, const char *text, struct fault *why)
{
	return write_by(file_replace, folder, name, text, why);
}

int records_write_unsynced(const char *folder, const char *name, const char *text,
			   struct fault *why)
{
	return write_by(file_replace_unsynced, folder, name, text, why);
}

int records_remove(const char *folder, const char *name, struct fault *why)
{
	char path[PATH_MAX];

	path_of(folder, name, path);
	if (unlink(path) == 0 || errno == ENOENT)
		return 0;
	return fault_set(why, -errno, "%s: %s", path, strerror(errno));
}
