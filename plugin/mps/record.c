/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a GPU, in meted's folder: the root below which its daemon is, as a line; and a
 * second line: "apart" where its containers have daemons of their own, "named" where they have
 * namespaces of its daemon.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "plugin/mps/inside.h"

enum { RECORD_MOST = 1024 };

static void path_of(const struct plugin *p, const char *uuid, char ret_path[PLUGIN_PATH + 64])
{
	snprintf(ret_path, PLUGIN_PATH + 64, "%s/mps/%.47s", p->host->place, uuid);
}

int mps_record_read(struct plugin *p, const char *uuid, char ret_root[MPS_PATH],
		    char ret_way[MPS_WAY])
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
	snprintf(ret_way, MPS_WAY, "%.*s", text[line] ? (int)strcspn(text + line + 1, "\n") : 0,
		 text[line] ? text + line + 1 : "");
	snprintf(ret_root, MPS_PATH, "%.*s", (int)(line < MPS_PATH ? line : MPS_PATH - 1), text);
	return 0;
}

int mps_record_write(const struct plugin *p, const char *uuid, const char *root, const char *way)
{
	char path[PLUGIN_PATH + 64], text[MPS_PATH + 16];

	path_of(p, "", path);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	path_of(p, uuid, path);
	snprintf(text, sizeof(text), "%s\n%s%s", root, way, *way ? "\n" : "");
	return file_replace(path, text, strlen(text), 0600);
}

void mps_record_remove(const struct plugin *p, const char *uuid)
{
	char path[PLUGIN_PATH + 64];

	path_of(p, uuid, path);
	unlink(path);
}
