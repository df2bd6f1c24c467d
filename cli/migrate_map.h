/* SPDX-License-Identifier: Apache-2.0 */
/* The ConfigMap of the plugin's configurations. */
#pragma once

#include "cli/migrate_read.h"

struct migrate_source {
	const char *name;		 /* of the ConfigMap; "": there is none */
	const struct document_node *map; /* NULL: it is not among the objects */
	const char *key; /* the only one that counts; "": the nodes' labels choose */
	const struct document_node *mounted; /* where it is mounted; NULL: no object says that */
};

/* `path`: the plugin's file, or the folder of those among which labels choose; "": it has none,
 * or no object says which. */
void migrate_find_map(const struct migrate_objects *objects, const char *path, bool is_folder,
		      struct migrate_source *ret);
