/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/tenant_find.h"

#include <dirent.h>
#include <string.h>

#include "base/text.h"
#include "node/daemon.h"

struct tenant *tenant_find(struct daemon *d, uint32_t id)
{
	struct list *same = &d->tenants.by_id[id % DAEMON_IDS];

	list_for_each(link, same)
	{
		struct tenant *t = list_entry(link, struct tenant, same_id);

		if (t->id == id)
			return t;
	}
	return NULL;
}

struct tenant *tenant_find_by_name(struct daemon *d, const char *name)
{
	char plain[WIRE_TEXT_MAX + 1];

	snprintf(plain, sizeof(plain), "%s", name);
	text_make_plain(plain); /* names are kept in this form */
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (strcmp(t->name, plain) == 0)
			return t;
	}
	return NULL;
}

bool tenant_find_folder_name(const char *tenants, uint32_t id, char *ret_name, size_t size)
{
	DIR *folders = opendir(tenants);
	bool found = false;
	struct dirent *entry;
	char prefix[16];

	snprintf(prefix, sizeof(prefix), "%u-", id);
	while (folders && !found && (entry = readdir(folders))) {
		found = strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
			strlen(entry->d_name) < size;
		if (found)
			memcpy(ret_name, entry->d_name, strlen(entry->d_name) + 1);
	}
	if (folders)
		closedir(folders);
	return found;
}

int tenant_find_folder(const struct daemon *d, uint32_t id, char *ret_folder, size_t size)
{
	char tenants[PLACE_MAX + 16], name[48];

	snprintf(tenants, sizeof(tenants), "%s/tenants", d->place);
	snprintf(name, sizeof(name), "%u", id);
	if (d->options.system && !tenant_find_folder_name(tenants, id, name, sizeof(name)))
		return -ENOENT;
	if (snprintf(ret_folder, size, "%s/%s", tenants, name) >= (int)size)
		return -ENAMETOOLONG;
	return 0;
}
