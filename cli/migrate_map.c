/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ConfigMap has the plugin's configurations: the one whose volume is mounted where the plugin
 * reads its file, or where the container that chooses one has its folder. Others that it mounts
 * (certificates, scripts) are none.
 */
#include "cli/migrate_map.h"

#include <stdio.h>
#include <string.h>

/* The path is the folder, or is in it. Returns the folder's length; 0: it is elsewhere. */
static size_t is_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	while (n > 1 && folder[n - 1] == '/')
		n--;
	return n && strncmp(path, folder, n) == 0 && (path[n] == '/' || !path[n]) ? n : 0;
}

static const struct document_node *pod_of(const struct migrate_objects *objects)
{
	return migrate_at(objects->plugin, "spec", "template", "spec", NULL);
}

/* The row of volumeMounts that is nearest to the path: the same path may be something else in
 * another container. NULL: in any container, as a folder's is the one that chooses. */
static const struct document_node *find_mount(const struct migrate_objects *objects,
					      const char *path, const struct document_node *only)
{
	const struct document_node *one = migrate_at(pod_of(objects), "containers", NULL);
	const struct document_node *found = NULL;
	size_t most = 0;

	for (one = one ? one->first : NULL; one; one = one->next) {
		const struct document_node *row =
			only && one != only ? NULL : migrate_at(one, "volumeMounts", NULL);

		for (row = row ? row->first : NULL; row; row = row->next) {
			size_t n = is_below(path, migrate_text(migrate_at(row, "mountPath", NULL)));

			if (n > most)
				found = row;
			most = n > most ? n : most;
		}
	}
	return found;
}

/* The volume's part that is a ConfigMap; NULL: it has none. */
static const struct document_node *config_of(const struct document_node *volume)
{
	const struct document_node *map = migrate_at(volume, "configMap", NULL);
	const struct document_node *one = migrate_at(volume, "projected", "sources", NULL);

	for (one = one && !map ? one->first : NULL; one && !map; one = one->next)
		map = migrate_at(one, "configMap", NULL);
	return map;
}

/* A volume of that name; NULL: the first one with a ConfigMap, but that of the Operator's own
 * scripts. */
static const struct document_node *find_config(const struct migrate_objects *objects,
					       const char *name)
{
	const struct document_node *volume = migrate_at(pod_of(objects), "volumes", NULL);

	for (volume = volume ? volume->first : NULL; volume; volume = volume->next) {
		const struct document_node *config = config_of(volume);

		if (name && strcmp(migrate_text(migrate_at(volume, "name", NULL)), name) == 0)
			return config;
		if (!name && config &&
		    !strstr(migrate_text(migrate_at(config, "name", NULL)), "entrypoint"))
			return config;
	}
	return NULL;
}

/* What the ConfigMap calls the file. */
static const char *key_of(const struct document_node *config, const struct document_node *mount,
			  const char *path)
{
	const struct document_node *item = migrate_at(config, "items", NULL);
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *inside = migrate_text(migrate_at(mount, "subPath", NULL));

	if (*inside && strcmp(migrate_text(migrate_at(mount, "mountPath", NULL)), path) == 0)
		name = inside;
	for (item = item ? item->first : NULL; item; item = item->next)
		if (strcmp(migrate_text(migrate_at(item, "path", NULL)), name) == 0)
			return migrate_text(migrate_at(item, "key", NULL));
	return name;
}

void migrate_find_map(const struct migrate_objects *objects, const char *path, bool is_folder,
		      struct migrate_source *ret)
{
	const struct document_node *only = is_folder ? NULL : objects->container, *config;
	const struct document_node *mount = find_mount(objects, path, only);

	*ret = (struct migrate_source){.name = "", .key = ""};
	if (!*path && !is_folder)
		return;
	config = find_config(objects, mount ? migrate_text(migrate_at(mount, "name", NULL)) : NULL);
	/* The container that chooses copies from the one folder to the other. */
	ret->name = migrate_text(migrate_at(config, "name", NULL));
	ret->mounted = mount;
	if (!is_folder)
		ret->key = key_of(config, mount, path);
	for (uint32_t i = 0; *ret->name && i < objects->maps && !ret->map; i++)
		if (strcmp(migrate_text(migrate_at(objects->map[i], "metadata", "name", NULL)),
			   ret->name) == 0)
			ret->map = objects->map[i];
}
