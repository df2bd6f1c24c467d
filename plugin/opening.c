/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/plugin.h"

#include <limits.h>
#include <string.h>

#include "base/parts.h"
#include "plugin/dra/dra.h"
#include "plugin/dra/standby.h"
#include "plugin/mps/mps.h"
#include "plugin/nodes.h"
#include "plugin/nvidia/driver_cdi.h"
#include "plugin/nvidia/mig_label.h"
#include "plugin/nvidia/parts.h"
#include "plugin/refused.h"
#include "plugin/reviews.h"
#include "plugin/slots.h"

enum {
	LOG_BURST = 100,
	LOG_PER_SECOND = 5,
};

/* Where they are seen under one name here and on the host; NULL: where this program is installed. A
 * file without `mete` has no key for it: deploy/ copies them there. */
static const char *libraries_of(const struct plugin *p)
{
	static const char copied[] = "/var/lib/mete/current";

	if (!p->config->as_nvidia.mps)
		return p->config->libraries;
	return access("/var/lib/mete/current/guest", F_OK) == 0 ? copied : NULL;
}

/* If meted is in a container, the host sees the folder that our libraries were copied to. */
static int look_for_driver(const struct plugin *p, struct inject_handout *ret_handout,
			   struct inject_edits **ret_edits, struct fault *why)
{
	static const char *const guests[] = {"../guest", "../lib/mete/guest", NULL};
	static const char *const hooks[] = {"../hook/mete-hook", "../lib/mete/mete-hook", NULL};
	const char *copied = libraries_of(p);
	char guest[PATH_MAX], hook[PATH_MAX];
	struct inject_machine machine = {
		.driver_root = p->config->driver_root,
		.host_driver_root = p->config->driver_root,
		.guest = guest,
		.host_guest = guest,
		.hook = hook,
	};
	int r;

	if (p->config->as_nvidia.mps && access(p->config->as_nvidia.inner_root, F_OK) == 0) {
		machine.driver_root = p->config->as_nvidia.inner_root;
		machine.host_driver_root = p->config->as_nvidia.driver_root;
	}
	machine.driver_folder = host_driver_below(p->host, machine.driver_root);
	machine.mounts_driver = p->config->mounts_driver;
	if (p->config->host_driver_root)
		machine.host_driver_root = p->config->host_driver_root;
	if (copied) {
		snprintf(guest, sizeof(guest), "%s/guest", copied);
		snprintf(hook, sizeof(hook), "%s/mete-hook", copied);
		return inject_look(&machine, ret_handout, ret_edits, why);
	}
	r = parts_find(guests, guest, why);
	if (r == 0)
		r = parts_find(hooks, hook, why);
	return r < 0 ? r : inject_look(&machine, ret_handout, ret_edits, why);
}

int plugin_look(struct plugin *p, struct fault *why)
{
	struct inject_handout handout = {{-1, -1}};
	struct inject_edits *edits;
	int r = look_for_driver(p, &handout, &edits, why);

	for (size_t i = 0; r < 0 && i < ARRAY_SIZE(handout.fd); i++)
		if (handout.fd[i] >= 0)
			close(handout.fd[i]);
	if (r < 0)
		return r;
	p->host->driver(p->host->daemon, handout.fd);
	inject_free(p->edits);
	p->edits = edits;
	return 0;
}

static int name_node(struct plugin *p, struct fault *why)
{
	const char *name = p->config->node_name ? p->config->node_name : getenv("NODE_NAME");

	if (name && *name) {
		snprintf(p->node, sizeof(p->node), "%s", name);
		return 0;
	}
	if (gethostname(p->node, sizeof(p->node) - 1) != 0)
		return fault_set(why, -errno, "no host name: %s", strerror(errno));
	return 0;
}

/* NVIDIA's file has no key for it; the environment of its config-manager has. */
static const char *kubeconfig(const struct plugin *p)
{
	const char *path = p->config->has_mete ? NULL : getenv("KUBECONFIG");

	return p->config->kubeconfig || !path || !*path ? p->config->kubeconfig : path;
}

static int open_api(struct plugin *p, struct fault *why)
{
	const struct api_place place = {.kubeconfig = kubeconfig(p)};
	int r;

	if (place.kubeconfig && strcmp(place.kubeconfig, "none") == 0)
		return 0;
	if (!place.kubeconfig && !getenv("KUBERNETES_SERVICE_HOST")) {
		log_info("api.none",
			 "reason=\"no kubeconfig, and this is not a pod: annotations are "
			 "not seen\"");
		return 0;
	}
	r = api_open(p->host->loop, &place, &p->api, why);
	if (r == 0 && p->host->mig_config)
		r = mig_label_open(p, p->host->mig_config, &p->mig, why);
	return r == 0 ? nodes_open(p, &p->nodes, why) : r;
}

/* NVIDIA's file has no key for the kubelet's folder; the environment has. */
static int name_folder(struct plugin *p, struct fault *why)
{
	const char *socket = p->config->has_mete ? NULL : getenv("KUBELET_SOCKET");
	const char *slash = socket ? strrchr(socket, '/') : NULL;

	if (!socket || !*socket) {
		snprintf(p->folder, sizeof(p->folder), "%s/device-plugins",
			 p->config->kubelet_folder);
		return 0;
	}
	if (*socket != '/' || slash == socket)
		return fault_set(why, -EINVAL,
				 "KUBELET_SOCKET: '%.200s' is no absolute path of a socket in a "
				 "folder; accepted: one such as "
				 "/var/lib/kubelet/device-plugins/kubelet.sock",
				 socket);
	snprintf(p->folder, sizeof(p->folder), "%.*s", (int)(slash - socket), socket);
	return 0;
}

int plugin_name_socket(struct serving *s, struct fault *why)
{
	const char *name = strrchr(s->resource, '/'), *folder = s->plugin->folder;

	if (snprintf(s->socket, sizeof(s->socket), "%s/mete-%s.sock", folder,
		     name ? name + 1 : s->resource) > 107)
		return fault_set(why, -ENAMETOOLONG, "%s: too long for a socket's path", folder);
	return 0;
}

static int open_kubelet(struct plugin *p, struct fault *why)
{
	char path[PLUGIN_PATH];
	int r = name_folder(p, why);

	if (r == 0)
		r = kinds_find(p, why);
	for (uint32_t i = 0; r == 0 && i < p->servings; i++)
		r = plugin_name_socket(&p->serving[i], why);
	if (r < 0)
		return r;
	/* Otherwise only the containers that were bound before are asked about. */
	if (!config_has_tenants(p->config) && list_empty(&p->bindings.all))
		return 0;
	snprintf(path, sizeof(path), "%.*s/pod-resources/kubelet.sock",
		 (int)(strrchr(p->folder, '/') - p->folder), p->folder);
	return resources_open(p->host->loop, path, &p->resources, why);
}

/* Undoes a failed attempt, perhaps with another configuration. */
static void unsettle(struct plugin *p)
{
	enrol_close(p);
	resources_close(take(p->resources));
	inject_free(take(p->edits));
}

/* Prepares the needs of containers that are tenants. */
static int settle_sharing(struct plugin *p, struct fault *why)
{
	int r = device_files_open(p, why);

	if (r == 0)
		r = plugin_look(p, why);
	/* Better refused now than at each Allocate, whose refusals are final. */
	if (r == 0 && p->config->cdi == CONFIG_CDI_OFF && !p->edits->preload)
		r = fault_set(why, -ENOENT,
			      "'cdi' is off, and there is no ld.so.preload next to the guest's "
			      "libraries: is the installation of mete complete?");
	if (r < 0)
		return r;
	cdi_find(p);
	return containers_open(p, why);
}

/* Prepares the needs of containers that get devices as from NVIDIA's plugin. */
static int settle_whole(struct plugin *p, struct fault *why)
{
	int r = driver_cdi_settle(p, why);

	if (r == 0 && p->config->as_nvidia.mps)
		return settle_sharing(p, why);
	return r < 0 ? r : containers_open(p, why);
}

int plugin_settle(struct plugin *p, struct fault *why)
{
	int r;

	unsettle(p);
	r = open_kubelet(p, why);
	if (r == 0)
		r = p->config->has_mete ? settle_sharing(p, why) : settle_whole(p, why);
	if (r == 0)
		r = mps_settle(p->mps, why);
	if (r == 0)
		r = dra_settle(p->dra, why);
	if (r == 0)
		r = metrics_open(p, why); /* the node's labels may have changed where */
	/* Before the kubelet learns of devices. */
	if (r == 0 && !config_has_tenants(p->config))
		as_nvidia_mark(p);
	for (uint32_t i = 0; r == 0 && config_has_tenants(p->config) && i < p->host->devices; i++)
		p->offer[i].held = false;
	if (r == 0)
		r = enrol_open(p, why);
	for (uint32_t i = 0; r == 0 && i < p->servings; i++)
		log_info("plugin.ready", "resource=%s node=%s socket=%s bindings=%u",
			 p->serving[i].resource, p->node, p->serving[i].socket, p->bindings.count);
	return r;
}

/* As with NVIDIA's plugin, a driver that cannot be opened ends the start unless the file says
 * otherwise. If there is a driver but no GPU, this waits in any case: meted looks for GPUs, and
 * starts us again. */
static int wait_for_devices(struct plugin *p, struct fault *why)
{
	const char *missing = p->host->missing;
	int r;

	if (p->host->missing_driver && !p->config->waits)
		return fault_set(why, -ENODEV, "%s", missing);
	log_warning("plugin.waits", "reason=%s", log_text(missing).text);
	if (!p->host->stands_by)
		dra_disown(p);
	r = metrics_open(p, why);
	/* The meted that serves may have the addresses until it ends. */
	if (r < 0 && p->host->stands_by) {
		log_info("standby.unseen", "reason=%s", log_text(why->text).text);
		return 0;
	}
	return r;
}

static void each_claimed(const struct plugin *p, void (*each)(void *owner, const char *device),
			 void *owner)
{
	dra_each_place(p->dra, each, owner);
}

static int start(struct plugin *p, struct fault *why)
{
	char folder[PLUGIN_PATH];
	int r = active_config_open(p, why);

	if (!p->host->stands_by) /* what the one that serves has refused stays so */
		refused_clear(p);
	snprintf(folder, sizeof(folder), "%s/bindings", p->host->place);
	if (r == 0 && p->host->missing)
		return wait_for_devices(p, why);
	if (r == 0)
		r = name_node(p, why);
	if (r == 0)
		r = slots_open(p, why);
	if (r == 0)
		r = binding_store_open(&p->bindings, folder, p->host, why);
	if (r < 0)
		return r;
	containers_keep(p);
	r = dra_open(p, &p->dra, why);
	if (r < 0)
		return r;
	p->host->kept_all(p->host->daemon);
	cdi_remember(p);
	r = open_api(p, why);
	if (r < 0)
		return r;
	health_open(p);
	waits_open(p);
	r = mps_open(p, &p->mps, why);
	if (r == 0)
		r = parts_open(p, each_claimed, &p->parts, why);
	if (r < 0)
		return r;
	/* Checks that meted is alive need not wait for the node's labels. */
	r = metrics_open(p, why);
	return r < 0 ? r : active_config_start(p, why);
}

/* One of the handles is closed. */
static void closed(struct plugin *p)
{
	const struct host *host = p->host;

	if (--p->open_handles)
		return;
	binding_store_close(&p->bindings);
	config_free(p->config);
	free(p->config_text);
	free(p->config_path);
	free(p->config_file);
	free(p);
	host->ended(host->daemon);
}

static void on_sweep_closed(struct loop_timer *timer)
{
	closed(container_of(timer, struct plugin, sweep));
}

static void on_profile_closed(struct loop_timer *timer)
{
	closed(container_of(timer, struct plugin, profile));
}

static void on_settle_closed(struct loop_timer *timer)
{
	closed(container_of(timer, struct plugin, settle));
}

static void on_again_closed(struct loop_timer *timer)
{
	closed(container_of(timer, struct plugin, enrol.again));
}

static void on_folder_closed(struct loop_watch *watch)
{
	struct plugin *p = container_of(watch, struct plugin, enrol.folder);

	close(p->enrol.notices.fd);
	closed(p);
}

static void on_rival_closed(struct loop_timer *timer)
{
	closed(container_of(timer, struct plugin, enrol.rival_again));
}

static void on_devices_closed(struct loop_watch *watch)
{
	struct plugin *p = container_of(watch, struct plugin, device_files.watch);

	close(p->device_files.notices.fd);
	closed(p);
}

static void on_file_closed(struct file_watch *watch)
{
	closed(container_of(watch, struct plugin, config_watch));
}

static void on_leave_closed(struct loop_timer *timer)
{
	closed(container_of(timer, struct plugin, leave));
}

static void on_leave(struct loop_timer *timer)
{
	struct plugin *p = container_of(timer, struct plugin, leave);

	api_close(take(p->api));
	loop_timer_close(&p->leave, on_leave_closed);
}

/* The API server's client cannot be closed in an answer of its own. */
static void on_left(void *owner, int status, const char *problem, const cJSON *object)
{
	struct plugin *p = owner;

	(void)status;
	(void)object;
	if (problem)
		log_warning("owner.left", "reason=%s", log_text(problem).text);
	loop_arm(&p->leave, 0);
}

/* The node's GPUs are no longer mete's; containers that have a share keep it. */
static void leave(struct plugin *p)
{
	bool waits = p->nodes && loop_timer_init(p->host->loop, &p->leave, on_leave) == 0;

	if (waits && !nodes_leave(p->nodes, on_left))
		loop_arm(&p->leave, 0);
	nodes_close(take(p->nodes));
	if (waits)
		p->open_handles++;
	else
		api_close(take(p->api));
}

static void plugin_close(struct plugin *p)
{
	/* Claims that wait for parts leave before those that have some are forgotten. */
	parts_rest(p->parts);
	if (p->host->stands_by)
		standby_close(p);
	else
		dra_disown(p);
	serve_close(p);
	dra_close(take(p->dra));
	containers_close(p);
	unsettle(p);
	metrics_close(p);
	events_close(p);
	/* And one, until all are being closed. */
	p->open_handles = 1;
	leave(p);
	p->open_handles += mig_label_close(take(p->mig), closed);
	parts_close(take(p->parts));
	if (p->mps) {
		p->open_handles++;
		mps_close(take(p->mps), closed);
	}
	p->open_handles +=
		(uint32_t)(p->sweep.open + p->profile.open + p->settle.open + p->enrol.again.open +
			   p->enrol.rival_again.open + p->enrol.folder.open +
			   p->device_files.watch.open + p->config_watch.watch.open);
	loop_timer_close(&p->sweep, on_sweep_closed);
	loop_timer_close(&p->profile, on_profile_closed);
	loop_timer_close(&p->settle, on_settle_closed);
	loop_timer_close(&p->enrol.again, on_again_closed);
	loop_timer_close(&p->enrol.rival_again, on_rival_closed);
	loop_unwatch(&p->enrol.folder, on_folder_closed);
	loop_unwatch(&p->device_files.watch, on_devices_closed);
	best_effort(file_watch_close(&p->config_watch, on_file_closed));
	closed(p);
}

static int plugin_open(const struct host *host, const char *config, struct plugin **ret_plugin,
		       struct fault *why)
{
	struct plugin *p = calloc(1, sizeof(*p));
	int r;

	log_set_level(host->log_level);
	log_limit(LOG_BURST, LOG_PER_SECOND);
	if (!p)
		return fault_set(why, -ENOMEM, "out of memory");
	p->host = host;
	p->enrol.notices.fd = p->device_files.notices.fd = -1;
	list_init(&p->asking);
	list_init(&p->events);
	p->config_path = strdup(config);
	r = p->config_path ? start(p, why) : fault_set(why, -ENOMEM, "out of memory");
	if (r < 0) {
		plugin_close(p);
		return r;
	}
	*ret_plugin = p;
	return 0;
}

static void reload(struct plugin *p)
{
	nodes_reload(p->nodes, p);
}

exported extern const struct plugin_entry mete_plugin;
const struct plugin_entry mete_plugin = {
	.version = HOST_VERSION,
	.open = plugin_open,
	.reload = reload,
	.divided = active_config_looked,
	.give = standby_give,
	.inherit = standby_inherit,
	.finish = standby_finish,
	.who = reviews_who,
	.may = reviews_may,
	.forget = reviews_forget,
	.close = plugin_close,
};
