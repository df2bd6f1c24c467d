/* SPDX-License-Identifier: Apache-2.0 */
/* What a container that is bound finds: its CDI file, its folder, the files of its devices. */
#pragma once

#include "plugin/plugin.h"

/* Called before anything is served. */
must_check int slots_open(struct plugin *p, struct fault *why);
/* Recreates the files of all bound containers, and removes those of others. */
void slots_restore(struct plugin *p);
/* Rewrites the CDI files of all bound containers for the current device files. */
void slots_refresh(struct plugin *p);
/* Creates the files through which a bound container finds its tenant's folder and its devices. */
must_check int slots_make(struct plugin *p, const struct binding *b, struct fault *why);
void slots_remove(struct plugin *p, const struct binding *b);
/* Where to put its CDI file: where its container was told before, or where the configuration says
 * now. */
must_check int slots_place(const struct plugin *p, struct binding *b, const struct binding *was);
/* Removes the file of the former holder of its ids, if it is another file. */
void slots_replace(const struct binding *was, const struct binding *b);
/* "mete.dev/slot" */
void slots_kind(const struct plugin *p, char ret_kind[80]);
/* The path of the link to the folder of a set of ids. */
void slots_link(const struct plugin *p, const char *key, char ret_path[PLUGIN_PATH]);
/* The path on the host of one of our folders, if we run in a container. */
void slots_on_host(const struct plugin *p, const char *path, char ret_path[PLUGIN_PATH]);

enum { SLOTS_NODES = 3 * HOST_DEVICES }; /* a GPU's, and two of MIG's */

struct slots_nodes {
	char text[SLOTS_NODES][MIG_FILE], host[SLOTS_NODES][CONFIG_PATH_MAX + 1 + MIG_FILE];
	struct inject_node node[SLOTS_NODES];
	/* A container has only the files of its devices; if some have none, it is given their
	 * UUIDs. */
	const char *visible;
	char visible_text[HOST_DEVICES * 48];
};

/* Finds the files of the devices. Returns how many there are. */
uint32_t slots_find_nodes(const struct plugin *p, const uint32_t *devices, uint32_t count,
			  struct slots_nodes *ret_nodes);
