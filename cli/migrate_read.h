/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a cluster, from files of YAML or JSON or from kubectl, and those among them that
 * belong to NVIDIA's device plugin. It changes nothing in the cluster.
 */
#pragma once

#include "base/document.h"

enum {
	MIGRATE_DOCUMENTS = 512,
	MIGRATE_BYTES_MAX = 8 << 20, /* of a file */
	MIGRATE_MAPS = 32,	     /* ConfigMaps */
	MIGRATE_NODES = 4096,	     /* nodes with a label that names a configuration */
};

struct migrate_objects {
	struct document document[MIGRATE_DOCUMENTS]; /* owned; all else borrows from them */
	uint32_t documents;
	const struct document_node *plugin;    /* the DaemonSet; NULL: there is none */
	const struct document_node *container; /* the plugin's own container in it */
	const struct document_node *discovery; /* the DaemonSet of GPU feature discovery; NULL */
	const struct document_node *stranger;  /* one of AWS's or GKE's own plugin; NULL */
	const struct document_node *map[MIGRATE_MAPS];
	uint32_t maps;
	const struct document_node *node[MIGRATE_NODES];
	uint32_t nodes;
};

/* Adds the objects of a file; "-": standard input. -EINVAL with file and line. */
must_check int migrate_read_file(struct migrate_objects *objects, const char *path,
				 struct fault *why);

/* Asks kubectl, with the user's own configuration, for the plugin's DaemonSet. */
must_check int migrate_read_cluster(struct migrate_objects *objects, struct fault *why);
/* Likewise for a ConfigMap of its namespace. */
must_check int migrate_read_map(struct migrate_objects *objects, const char *name,
				struct fault *why);
/* Likewise for the nodes that have the label which names a configuration. -EINVAL: it is none. */
must_check int migrate_read_nodes(struct migrate_objects *objects, const char *label,
				  struct fault *why);

/* The value below `map` along the keys ("spec", "template", NULL); NULL: it is not there. */
const struct document_node *migrate_at(const struct document_node *map, ...)
	__attribute__((sentinel));
/* By its name, or by the first word of its command. */
bool migrate_runs(const struct document_node *container, const char *program);
/* Its text; "" if there is none. */
const char *migrate_text(const struct document_node *text);

void migrate_objects_free(struct migrate_objects *objects);
OWNED_POINTER(struct migrate_objects, migrate_objects_free)
