/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a GPU, in meted's folder: the root below which its daemon is, as a line; and a
 * second line, "apart", where its containers have daemons of their own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "plugin/mps/inside.h"

enum { RECORD_MOST = 1024 };

static const char apart_line[] = "apart\n";

static void path_of(const struct plugin *p, const char *uuid, char ret_path[PLUGIN_PATH + 64])
{
	snprintf(ret_path, PLUGIN_PATH + 64, "%s/mps/%.47s", p->host->place, uuid);
}

int mps_record_read(struct plugin *p, const char *uuid, char ret_root[MPS_PATH], bool *ret_apart)
{
	char path[PLUGIN_PATH + 64];
	owned(free) char *text = NULL;
	size_t size, line;
	int r;

	path_of(p, uuid, path);
	r = file_slurp(path, RECORD_MOST, &text, &size);
	if (r < 0)
		return r;
	line = strcspn(text, "\n");
	*ret_apart = text[line] && strcmp(text + line + 1, apart_line) == 0;
	snprintf(ret_root, MPS_PATH, "%.*s", (int)(line < MPS_PATH ? line : MPS_PATH - 1), text);
	return 0;
}

int mps_record_write(const struct plugin *p, const char *uuid, const char *root, bool apart)
{
	char path[PLUGIN_PATH + 64], text[MPS_PATH + 16];

	path_of(p, "", path);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	path_of(p, uuid, path);
	snprintf(text, sizeof(text), "%s\n%s", root, apart ? apart_line : "");
	return file_replace(path, text, strlen(text), 0600);
}

void mps_record_remove(const struct plugin *p, const char *uuid)
{
	char path[PLUGIN_PATH + 64];

	path_of(p, uuid, path);
	unlink(path);
}
