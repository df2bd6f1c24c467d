/* SPDX-License-Identifier: Apache-2.0 */
/* mete doctor on a node: what meted has refused, and goes on without (plugin/refused.h). */
#include <string.h>

#include "base/file.h"
#include "base/place.h"
#include "cli/doctor_node.h"

enum { SENTENCE_MOST = 4096 };

static const struct {
	const char *what, *advice;
} rows[] = {
	{"config", "correct the file (or, of several, the node's label "
		   "nvidia.com/device-plugin.config, $DEFAULT_CONFIG or $FALLBACK_STRATEGIES): "
		   "meted reads it again by itself, and the former one is in force until then"},
	{"mig-config", "correct the label nvidia.com/mig.config or its file, or end what uses the "
		       "GPU: it is tried again when the label changes, or meted starts again"},
};

void check_refused(struct patient *patient, struct finding *finding)
{
	char path[PATH_MAX], file[64];
	size_t size;

	(void)patient;
	if (!node_may_read(finding))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		owned(free) char *sentence = NULL;

		snprintf(file, sizeof(file), PLACE_SYSTEM "/refused/%s", rows[i].what);
		if (file_slurp(node_kubelet_path(file, path), SENTENCE_MOST, &sentence, &size) < 0)
			continue;
		finding_set(finding, FINDING_WRONG, "meted has refused this: %s", sentence);
		finding_advise(finding, "%s", rows[i].advice);
		return;
	}
	finding_set(finding, FINDING_FINE, "meted has refused none of them");
}
