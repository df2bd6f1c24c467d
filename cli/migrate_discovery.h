/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete migrate` says of the DaemonSet of GPU feature discovery. */
#pragma once

#include "cli/migrate_read.h"
#include "cli/migrate_say.h"

/* strategy: the plugin's variable MIG_STRATEGY; NULL: its configuration says it. */
void migrate_discovery(const struct document_node *set, const char *strategy,
		       struct migrate_said *said);
