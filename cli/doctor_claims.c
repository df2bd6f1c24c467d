/* SPDX-License-Identifier: Apache-2.0 */
/* mete doctor on a node whose GPUs are given out by claims: meted's report about its driver
 * (plugin/dra/report.c). */
#include <string.h>

#include "base/file.h"
#include "base/place.h"
#include "cli/doctor_node.h"

enum { REPORT_MOST = 4096, KUBERNETES_MINOR = 36 };

struct report {
	char *text;
	const char *driver, *server, *registered, *published, *withheld, *slices, *told;
};

/* The value in the line that begins with the word; "" if there is none. The text is cut behind it.
 */
static const char *value_of(char *text, const char *word)
{
	size_t length = strlen(word);

	for (char *line = text; *line; line += *line == '\n') {
		size_t end = strcspn(line, "\n");

		if (strncmp(line, word, length) == 0 && line[length] == ' ') {
			line[end] = '\0';
			return line + length + 1;
		}
		line += end;
	}
	return "";
}

static bool read_report(struct report *report)
{
	char path[PATH_MAX];
	size_t size;

	if (file_slurp(node_kubelet_path(PLACE_SYSTEM "/dra", path), REPORT_MOST, &report->text,
		       &size) < 0)
		return false;
	/* From the last line to the first: a value's end is the end of the text. */
	report->told = value_of(report->text, "told");
	report->slices = value_of(report->text, "slices");
	report->withheld = value_of(report->text, "withheld");
	report->published = value_of(report->text, "published");
	report->registered = value_of(report->text, "registered");
	report->server = value_of(report->text, "server");
	report->driver = value_of(report->text, "driver");
	return true;
}

static bool is_too_old(const char *server)
{
	int major, minor;

	return sscanf(server, "v%d.%d", &major, &minor) == 2 && major == 1 &&
	       minor < KUBERNETES_MINOR;
}

static bool is_ok(const char *value)
{
	return strcmp(value, "ok") == 0;
}

static void judge(const struct report *report, struct finding *finding)
{
	if (!is_ok(report->slices)) {
		finding_set(finding, FINDING_WRONG, "%s cannot be published (Kubernetes %s): %s",
			    report->driver, report->server, report->slices);
		finding_advise(finding, "%s",
			       is_too_old(report->server)
				       ? "shares are counted from Kubernetes 1.36 on; before that, "
					 "use resources (docs/kubernetes.md), or the feature gate "
					 "DRAConsumableCapacity"
				       : "apply deploy/components/claims, whose rbac.yaml has the "
					 "rights");
	} else if (strcmp(report->registered, "yes") != 0) {
		finding_set(finding, FINDING_WRONG, "the kubelet has not registered %s",
			    report->driver);
		finding_advise(finding, "is its folder /var/lib/kubelet/plugins_registry in "
					"meted's container, as in deploy/components/claims? Its "
					"log says what it was told");
	} else if (*report->withheld) {
		finding_set(finding, FINDING_NOTE, "%s devices are published, but device %s",
			    report->published, report->withheld);
	} else if (!is_ok(report->told)) {
		finding_set(finding, FINDING_NOTE, "claims' statuses cannot be told: %s",
			    report->told);
		finding_advise(finding,
			       "apply deploy/components/claims/rbac.yaml: it has the right "
			       "in both forms, resourceclaims/status and (from Kubernetes "
			       "1.36 on) resourceclaims/driver");
	} else {
		finding_set(finding, FINDING_FINE,
			    "%s publishes %s devices; Kubernetes %s counts their shares",
			    report->driver, report->published, report->server);
	}
}

void check_claims(struct patient *patient, struct finding *finding)
{
	struct report report = {.text = NULL};

	(void)patient;
	if (!node_may_read(finding))
		return;
	if (!read_report(&report)) {
		finding->verdict = FINDING_NONE;
		return;
	}
	judge(&report, finding);
	free(report.text);
}
