/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders of unknown tenants: they were being created, or were ending, when a meted was killed.
 * They must be removed because ids of tenants that were never recorded are used again, and a folder
 * is found by its id.
 */
#include "node/state/leftover.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "node/daemon.h"
#include "node/state/absent.h"
#include "node/tenants/tenant_find.h"

/* It contains a socket, perhaps with the name that it has until it listens. */
static void empty(int folder)
{
	DIR *files = folder >= 0 ? fdopendir(folder) : NULL;
	struct dirent *entry;

	if (!files) {
		if (folder >= 0)
			close(folder);
		return;
	}
	while ((entry = readdir(files)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(dirfd(files), entry->d_name, 0);
	closedir(files);
}

void leftover_remove(struct daemon *d)
{
	char path[PLACE_MAX + 16];
	struct dirent *entry;
	DIR *folders;

	snprintf(path, sizeof(path), "%s/tenants", d->place);
	folders = opendir(path);
	while (folders && (entry = readdir(folders))) {
		char *end;
		unsigned long id = strtoul(entry->d_name, &end, 10);

		if (end == entry->d_name || (*end && *end != '-') || tenant_find(d, (uint32_t)id) ||
		    absent_has(d, (uint32_t)id))
			continue;
		empty(openat(dirfd(folders), entry->d_name,
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
		unlinkat(dirfd(folders), entry->d_name, AT_REMOVEDIR);
	}
	if (folders)
		closedir(folders);
}
