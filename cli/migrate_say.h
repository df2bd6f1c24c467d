/* SPDX-License-Identifier: Apache-2.0 */
/* What mete migrate prints: sentences as comments, and a kustomization. */
#pragma once

#include <string.h>

#include "cli/migrate_read.h"

/* The configuration of a plugin without a file. */
#define MIGRATE_NOTHING "version: v1\n"

enum { MIGRATE_SETTINGS = 64 };

struct migrate_setting {
	char name[48], value[1024];
};

/* Variables of the DaemonSet, its options among them. */
struct migrate_settings {
	uint32_t count;
	struct migrate_setting row[MIGRATE_SETTINGS];
};

/* What will differ; all zero: nothing. */
struct migrate_said {
	char *text; /* owned: lines of text */
	size_t size;
	bool failed; /* there was no memory for part of the text */
};

void migrate_say(struct migrate_said *said, const char *format, ...) printf_like(2, 3);
void migrate_said_done(struct migrate_said *said);
static inline void migrate_said_done_owned(struct migrate_said *said)
{
	migrate_said_done(said);
}

/* Does it name a file of configurations, or their folder? */
static inline bool migrate_is_of_files(const char *variable)
{
	return strncmp(variable, "CONFIG_FILE", 11) == 0;
}

/* The pod's DaemonSet is not for all nodes. */
bool migrate_selects_nodes(const struct document_node *pod);

struct migrate_kustomization {
	const struct document_node *data; /* the ConfigMap's files; NULL: there is none */
	const char *key;		  /* the only one of them that counts; "": all */
	const char *mps_root;		  /* the folder of sharing.mps; "": none has it */
	const char *base;		  /* the folder of deploy/base, as it names it */
};

void migrate_print(const struct migrate_objects *objects, const struct migrate_kustomization *made,
		   const struct migrate_settings *settings, const struct migrate_said *said);
