/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the driver fares, for `mete doctor`: a file in meted's folder, a word and its value in each
 * line. Only what the server has answered counts: rights and feature gates are seen in that.
 *
 *	driver gpu.mete.dev
 *	server v1.36.3              unknown: it has not said
 *	registered yes              no: the kubelet does not know the driver
 *	published 2                 devices
 *	withheld UUID is ...        one of those that are not; why
 *	slices ok                   or what keeps them from being written
 *	told ok                     or what keeps claims' statuses from being told
 */
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "kube/json.h"
#include "plugin/dra/publish.h"

static void on_version(void *owner, int status, const char *problem, const cJSON *object)
{
	struct dra *dra = owner;
	const char *version = json_text(object, "gitVersion");

	(void)status;
	dra->version = NULL;
	/* Without a version it is asked again at the next look: at once would be a loop. */
	if (counters_told(&dra->server, problem ? NULL : version, loop_now_ns()))
		report_changed(dra);
	publish_consider(dra->publish); /* which counters there are depends on it */
}

static void ask_version(struct dra *dra)
{
	const struct api_request request = {.verb = "GET", .path = "/version"};

	if (loop_now_ns() >= dra->server.due_ns && !dra->version && dra->plugin->api)
		best_effort(api_ask(dra->plugin->api, &request, on_version, dra, &dra->version));
}

/* A line has no line breaks. */
static size_t add_line(char *text, size_t size, size_t used, const char *key, const char *value)
{
	int n = used < size ? snprintf(text + used, size - used, "%s %s", key, value) : 0;
	size_t end = used + (size_t)n;

	for (char *at = text + used; used < size && *at; at++)
		if (*at == '\n')
			*at = ' ';
	if (end + 1 < size) {
		text[end] = '\n';
		text[end + 1] = '\0';
	}
	return end + 1;
}

static const char *find_withheld(const struct dra *dra, uint32_t device)
{
	const char *reason = dra_withheld(dra, device);

	return !reason && dra->withdrawn
		       ? "is published when the driver has its new name: claims may still have "
			 "devices of the former one"
		       : reason;
}

static size_t add_devices(const struct dra *dra, char *text, size_t size, size_t used)
{
	const struct host *host = dra->plugin->host;
	char words[300];
	uint32_t published = 0, withheld = UINT32_MAX;

	for (uint32_t i = 0; i < host->devices; i++) {
		/* That it is not published is as it should be. */
		if (host->device[i].gone)
			continue;
		if (find_withheld(dra, i))
			withheld = withheld == UINT32_MAX ? i : withheld;
		else
			published++;
	}
	snprintf(words, sizeof(words), "%u", published);
	used = add_line(text, size, used, "published", words);
	if (withheld == UINT32_MAX)
		return used;
	snprintf(words, sizeof(words), "%s %s", host->device[withheld].uuid,
		 find_withheld(dra, withheld));
	return add_line(text, size, used, "withheld", words);
}

void report_changed(struct dra *dra)
{
	const char *slices = dra->publish ? dra->publish->complaint : "there is no API server";
	const char *told = dra->status ? status_complaint(dra) : "there is no API server";
	char text[2000] = "", path[PLUGIN_PATH];
	size_t used;

	ask_version(dra);
	used = add_line(text, sizeof(text), 0, "driver", dra->driver);
	used = add_line(text, sizeof(text), used, "server",
			*dra->server.version ? dra->server.version : "unknown");
	used = add_line(text, sizeof(text), used, "registered",
			register_is_known(dra) ? "yes" : "no");
	used = add_devices(dra, text, sizeof(text), used);
	used = add_line(text, sizeof(text), used, "slices", slices ? slices : "ok");
	add_line(text, sizeof(text), used, "told", told ? told : "ok");
	if (dra->report && strcmp(dra->report, text) == 0)
		return;
	snprintf(path, sizeof(path), "%s/dra", dra->plugin->host->place);
	if (file_replace_unsynced(path, text, strlen(text), 0644) < 0)
		return; /* at the next look */
	free(dra->report);
	dra->report = strdup(text);
}

void report_close(struct dra *dra)
{
	char path[PLUGIN_PATH];

	if (dra->version)
		api_forget(take(dra->version));
	free(take(dra->report));
	snprintf(path, sizeof(path), "%s/dra", dra->plugin->host->place);
	unlink(path);
}
