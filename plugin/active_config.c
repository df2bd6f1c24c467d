/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration in force: the file, reread when it changes, for this node's labels and the
 * present time. If the file depends on labels (`nodes`), nothing begins before they are known: they
 * may select the resource's name, the number of slots, and the shares of running containers.
 */
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "plugin/active_file.h"
#include "plugin/refused.h"
#include "plugin/dra/dra.h"
#include "plugin/mps/mps.h"
#include "plugin/nodes.h"
#include "plugin/nvidia/driver_cdi.h"
#include "plugin/nvidia/mig_label.h"
#include "plugin/nvidia/parts.h"
#include "plugin/sums/seats.h"

enum { AGAIN_S = 30 };

static void arm_profile(struct plugin *p)
{
	time_t now = time(NULL);
	struct tm local;
	uint32_t seconds;

	localtime_r(&now, &local);
	seconds = config_next_change(p->config, &local);
	/* A minute at most: the machine's clock may be set, or its zone change. */
	if (seconds)
		loop_arm(&p->profile, (seconds < 60 ? seconds : 60) * 1000000000ull);
	else
		loop_disarm(&p->profile);
}

static void refresh(struct plugin *p)
{
	offered_find(p);
	p->host->parking(p->host->daemon, p->config->park_after_ns, p->config->park_delay_ns);
	p->host->native_limits(p->host->daemon, p->config->native_limits);
	if (p->settled) {
		serve_changed(p);
		dra_follow(p->dra);
		containers_refresh(p);
		seats_changed(p);
		nodes_changed(p->nodes);
	}
	arm_profile(p);
}

static void on_profile(struct loop_timer *timer)
{
	refresh(container_of(timer, struct plugin, profile));
}

static int fit(const struct plugin *p, const struct config *config, struct fault *why)
{
	int r = 0;

	if (!config->has_mete && !config->has_nvidia)
		return fault_set(
			why, -EINVAL,
			"%s:1: there is no key 'mete', nor any of NVIDIA's device plugin: see "
			"mete-config(5)",
			p->config_path);
	/* Nothing is enforced, so nothing can be too much. */
	if (!config_has_tenants(config))
		return 0;
	if (config->ids == CONFIG_IDS_SLOT && config->cdi == CONFIG_CDI_OFF)
		return config_blame(config, "cdi", why,
				    "'off' does not go with '%s', which needs CDI: the "
				    "kubelet wants a container's devices before they are chosen",
				    config_is_placed(config) ? "ids: slot" : "counted: amounts");
	r = seats_fit(p, config, why);
	for (uint32_t i = 0; r == 0 && i < p->host->devices; i++) {
		const struct config_device device = entitled_device(p, i);

		if (p->host->device[i].gone)
			continue;
		r = config_fits(config, &device, why);
	}
	return r;
}

static int load(struct plugin *p, const struct config_label *labels, size_t count,
		struct config **ret_config, struct fault *why)
{
	const struct config_place place = {labels, count, getenv};
	owned(config_free) struct config *config = NULL;
	owned(free) char *text = NULL;
	size_t size = 0;
	struct fault unchosen;
	bool known;
	int r = active_file_read(p, &place, &text, &size, &unchosen, why);

	p->config_unread = r;
	if (r < 0)
		return r;
	r = config_parse_at(p->config_file, text, size, &place, &config, why);
	/* Whoever changes any label of the node has it read again. */
	known = p->config_told && text_same(p->config_text, text);
	p->config_told = false;
	free(p->config_text);
	p->config_text = take(text);
	if (r == 0)
		r = fit(p, config, why);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < config->warnings && !known; i++)
		log_warning("config.warning", "text=%s", log_text(config->warning[i]).text);
	p->config_told = true;
	config->by_node |= p->config_is_folder;
	p->unchosen = unchosen;
	*ret_config = take(config);
	return 0;
}

/* Settings that only the start uses: sockets, folders and servers. */
static const char *changed_for_good(const struct config *a, const struct config *b)
{
	const struct {
		const char *key, *was, *now;
	} rows[] = {
		{"resource", a->resource, b->resource},
		{"domain", a->domain, b->domain},
		{"kubelet-folder", a->kubelet_folder, b->kubelet_folder},
		{"cdi-folder", a->cdi_folder, b->cdi_folder},
		{"driver-root", a->driver_root, b->driver_root},
		{"host-driver-root", a->host_driver_root, b->host_driver_root},
		{"libraries", a->libraries, b->libraries},
		{"host-prefix", a->host_prefix, b->host_prefix},
		{"metrics", a->metrics, b->metrics},
		{"health", a->health, b->health},
	};

	if (a->has_mete != b->has_mete)
		return "mete";
	if (!text_same(a->as_nvidia.mps_root, b->as_nvidia.mps_root) && a->as_nvidia.mps &&
	    b->as_nvidia.mps)
		return "flags.mpsRoot";
	/* It registers again, even under the same name. */
	if (!a->has_mete)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!text_same(rows[i].was, rows[i].now))
			return rows[i].key;
	if (a->cdi != b->cdi)
		return "cdi";
	if (a->dra != b->dra)
		return "dra";
	if (a->mounts_driver != b->mounts_driver)
		return "driver-files";
	if (a->counted != b->counted)
		return "counted";
	return a->ids != b->ids ? "ids" : NULL;
}

/* Its servers are set from the beginning. */
static const char *changed_at_all(const struct config *a, const struct config *b)
{
	if (!text_same(a->kubeconfig, b->kubeconfig))
		return "kubeconfig";
	return text_same(a->node_name, b->node_name) ? NULL : "node-name";
}

int active_config_settle(struct plugin *p, struct fault *why)
{
	int r;

	if (p->host->missing)
		return 0;
	if (p->config->by_node && p->api && !nodes_known(p->nodes)) {
		log_info("plugin.waits", "reason=\"%s%s: the labels of node %s are not known yet\"",
			 p->config_is_folder ? "" : "'nodes' in ", p->config_path, p->node);
		return 0;
	}
	if (*p->unchosen.text)
		return fault_set(why, -ENOENT, "%s", p->unchosen.text);
	r = plugin_settle(p, why);
	if (r == 0) {
		p->settled = true;
		refresh(p);
	}
	return r;
}

static void settle(struct plugin *p)
{
	struct fault why, other;

	if (active_config_settle(p, &why) == 0)
		return;
	log_error("plugin.unsettled", "reason=%s", log_text(why.text).text);
	/* Meanwhile it reports that it is alive. */
	if (metrics_open(p, &other) < 0)
		log_warning("metrics.unserved", "reason=%s", log_text(other.text).text);
	loop_arm(&p->settle, AGAIN_S * 1000000000ull);
}

int active_config_start(struct plugin *p, struct fault *why)
{
	/* A label may still divide the GPUs so that they fit the configuration. */
	if (!p->config->waits && !p->mig)
		return active_config_settle(p, why);
	settle(p);
	return 0;
}

static void on_settle(struct loop_timer *timer)
{
	struct plugin *p = container_of(timer, struct plugin, settle);

	if (!p->settled)
		settle(p);
}

/* Without `mete` everything may change while it serves: there are no tenants, and containers
 * keep their devices. */
static void serve_anew(struct plugin *p, bool renamed)
{
	struct fault why;

	if (!renamed) {
		kinds_follow(p);
		offered_find(p);
		if (driver_cdi_settle(p, &why) == 0 && mps_settle(p->mps, &why) == 0) {
			refresh(p);
			return;
		}
	}
	serve_close(p);
	p->settled = false;
	settle(p);
}

static bool misses(const struct binding *b, const struct plugin *p, uint32_t former)
{
	for (uint32_t i = 0; i < b->missings; i++)
		for (uint32_t k = former; k < p->host->devices; k++)
			if (strcmp(b->missing[i], p->host->device[k].uuid) == 0)
				return true;
	return false;
}

/* A device that was missing at the start is taken in by another start: of tenants with one the
 * host knows that itself. */
static int check_missing(const struct plugin *p, uint32_t former, struct fault *why)
{
	bool missing = former < p->host->devices && dra_misses(p->dra);

	list_for_each(link, (struct list *)&p->bindings.all) missing |=
		misses(list_entry(link, struct binding, link), p, former);
	return missing ? fault_set(why, -EAGAIN, "containers wait for devices that were missing")
		       : 0;
}

static int divided(struct plugin *p, uint32_t former, struct fault *why)
{
	int r = check_missing(p, former, why);

	for (uint32_t i = former; r == 0 && i < p->host->devices; i++)
		if (mps_device(p->mps, i) < 0)
			r = fault_set(why, -ENOMEM, "out of memory");
	if (r == 0)
		r = fit(p, p->config, why);
	if (r < 0)
		return r;
	health_divided(p, former);
	kinds_say_unparted(p);
	if (!p->settled) {
		settle(p);
		return 0;
	}
	if (p->config->has_mete) {
		refresh(p);
		return 0;
	}
	r = kinds_add(p, why);
	if (r < 0)
		return r;
	serve_anew(p, r == 1);
	enrol_more(p);
	return 0;
}

int active_config_divided(struct plugin *p, uint32_t former, struct fault *why)
{
	int r = divided(p, former, why);

	if (r == 0)
		parts_divided(p->parts);
	return r;
}

int active_config_looked(struct plugin *p, uint32_t former, struct fault *why)
{
	int r = active_config_divided(p, former, why);

	if (r == 0)
		mig_label_divided(p->mig);
	return r;
}

static void refuse(const struct plugin *p, const struct fault *why)
{
	log_error("config.refused", "reason=%s", log_text(why->text).text);
	refused_set(p, REFUSED_CONFIG, why->text);
}

void active_config_reload(struct plugin *p, const struct config_label *labels, size_t count)
{
	struct config *config;
	bool chosen = !*p->unchosen.text, renamed, mps;
	const char *what;
	struct fault why;

	if (load(p, labels, count, &config, &why) < 0) {
		refuse(p, &why);
		return;
	}
	what = p->settled ? changed_for_good(p->config, config) : NULL;
	if (!what && chosen)
		what = changed_at_all(p->config, config);
	if (what) {
		config_blame(config, what, &why,
			     "this has changed: restart meted for it to take effect");
		refuse(p, &why);
		config_free(config);
		return;
	}
	if (p->settled && (kinds_fit(p, config, &why) < 0 || mps_fits(p->mps, config, &why) < 0)) {
		refuse(p, &why);
		config_free(config);
		return;
	}
	mps = p->config->as_nvidia.mps != config->as_nvidia.mps;
	config_free(p->config);
	p->config = config;
	renamed = p->settled && (mps || kinds_differ(p));
	log_info("config.loaded", "path=%s", p->config_file);
	refused_set(p, REFUSED_CONFIG, NULL);
	if (!p->settled)
		settle(p);
	else if (p->config->has_mete)
		refresh(p);
	else
		serve_anew(p, renamed);
}

/* Much happens in a folder: it is reread only if the text differs, or why there is none. */
static void on_file(struct file_watch *watch)
{
	struct plugin *p = container_of(watch, struct plugin, config_watch);

	if (active_file_differs(p))
		nodes_reload(p->nodes, p);
}

int active_config_open(struct plugin *p, struct fault *why)
{
	int r = load(p, NULL, 0, &p->config, why);

	if (r < 0)
		return r;
	offered_find(p);
	if (loop_timer_init(p->host->loop, &p->profile, on_profile) < 0 ||
	    loop_timer_init(p->host->loop, &p->settle, on_settle) < 0)
		return fault_set(why, -ENOMEM, "no timer");
	return file_watch_open(p->host->loop, &p->config_watch, p->config_file, on_file, why);
}
