/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether containers get their devices through CDI: at the start, and again when the API
 * server reports the node. Its report is recorded, so that a meted that starts while the API server
 * is silent chooses as the previous one did; otherwise the node's next containers would get their
 * devices differently. */
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "kube/json.h"
#include "plugin/inject/cdi_choice.h"
#include "plugin/plugin.h"

enum { RECORD_MOST = 4096 };

static bool choose(const struct plugin *p, struct fault *ret_reason)
{
	owned(free) char *config = cdi_config(p->config->driver_root);
	struct stat info;
	struct cdi_facts facts = {
		.config = config,
		.runtime = *p->cdi.runtime ? p->cdi.runtime : NULL,
		.kubelet = *p->cdi.kubelet ? p->cdi.kubelet : NULL,
		.folder = stat(p->config->cdi_folder, &info) == 0,
	};

	return cdi_choice(&facts, ret_reason);
}

/* If there is no other way, CDI stays: a runtime that does not support it reports that. */
static bool can_do_without(const struct plugin *p, struct fault *reason)
{
	const char *lacks = config_is_placed(p->config)		? "'ids: slot' needs CDI"
			    : p->config->ids == CONFIG_IDS_SLOT ? "'counted: amounts' needs CDI"
			    : !p->edits->preload
				    ? "there is no ld.so.preload next to the guest's libraries"
				    : NULL;

	if (lacks)
		fault_within(reason, "%s, although", lacks);
	return !lacks;
}

void cdi_find(struct plugin *p)
{
	bool was = p->cdi.used, known = p->cdi.known;
	struct fault reason;

	if (p->config->cdi != CONFIG_CDI_AUTO) {
		p->cdi.used = p->config->cdi == CONFIG_CDI_ON;
		return;
	}
	p->cdi.used = choose(p, &reason) || !can_do_without(p, &reason);
	p->cdi.known = true;
	if (!known || was != p->cdi.used)
		log_info("cdi.chosen", "cdi=%s reason=%s", p->cdi.used ? "on" : "off",
			 log_text(reason.text).text);
}

static void record_path(const struct plugin *p, char ret_path[PLUGIN_PATH])
{
	snprintf(ret_path, PLUGIN_PATH, "%s/runtime", p->host->place);
}

static void write_down(const struct plugin *p)
{
	char path[PLUGIN_PATH], text[2 * sizeof(p->cdi.runtime) + 2];
	int r;

	record_path(p, path);
	snprintf(text, sizeof(text), "%s\n%s\n", p->cdi.runtime, p->cdi.kubelet);
	r = file_replace(path, text, strlen(text), 0600);
	if (r < 0)
		log_warning("cdi.unwritten", "path=%s reason=%s", log_text(path).text,
			    log_text(strerror(-r)).text);
}

void cdi_remember(struct plugin *p)
{
	owned(free) char *text = NULL;
	char path[PLUGIN_PATH], *second, *end;
	size_t size;

	record_path(p, path);
	if (file_slurp(path, RECORD_MOST, &text, &size) < 0 || !(second = strchr(text, '\n')))
		return;
	*second++ = '\0';
	end = strchr(second, '\n');
	if (!end || end[1])
		return; /* not one of ours */
	*end = '\0';
	snprintf(p->cdi.runtime, sizeof(p->cdi.runtime), "%s", text);
	snprintf(p->cdi.kubelet, sizeof(p->cdi.kubelet), "%s", second);
}

void cdi_learn(struct plugin *p, const cJSON *status)
{
	const cJSON *info = cJSON_GetObjectItemCaseSensitive(status, "nodeInfo");
	const char *runtime = json_text(info, "containerRuntimeVersion");
	const char *kubelet = json_text(info, "kubeletVersion");
	struct cdi_use *cdi = &p->cdi;

	runtime = runtime ? runtime : "";
	kubelet = kubelet ? kubelet : "";
	/* A kubelet that has just started does not describe itself yet. */
	if (!*runtime && !*kubelet)
		return;
	if (strncmp(runtime, cdi->runtime, sizeof(cdi->runtime) - 1) == 0 &&
	    strncmp(kubelet, cdi->kubelet, sizeof(cdi->kubelet) - 1) == 0)
		return;
	snprintf(cdi->runtime, sizeof(cdi->runtime), "%s", runtime);
	snprintf(cdi->kubelet, sizeof(cdi->kubelet), "%s", kubelet);
	write_down(p);
	if (p->settled && config_has_tenants(p->config))
		cdi_find(p);
}
