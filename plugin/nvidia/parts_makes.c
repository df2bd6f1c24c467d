/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a node without a device may get some by itself: before anything else of us is open. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "plugin/nvidia/parts.h"

enum { FILE_MOST = 1 << 20 };

static bool file_makes(const char *path)
{
	const struct config_place place = {NULL, 0, getenv};
	owned(config_free) struct config *config = NULL;
	owned(free) char *text = NULL;
	struct fault why;
	size_t size;

	return file_slurp(path, FILE_MOST, &text, &size) == 0 &&
	       config_parse_at(path, text, size, &place, &config, &why) == 0 &&
	       config_makes_parts(config);
}

bool parts_makes(const char *config)
{
	struct dirent *entry;
	bool makes = false;
	struct stat info;
	DIR *folder;

	if (stat(config, &info) != 0 || !S_ISDIR(info.st_mode))
		return file_makes(config);
	folder = opendir(config);
	while (folder && !makes && (entry = readdir(folder))) {
		char path[PLUGIN_PATH + 256];

		snprintf(path, sizeof(path), "%.511s/%s", config, entry->d_name);
		makes = entry->d_name[0] != '.' && file_makes(path);
	}
	if (folder)
		closedir(folder);
	return makes;
}
