/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/register.h"

#include <string.h>
#include <sys/stat.h>

#include "base/socket.h"
#include "base/words.h"
#include "kube/proto/pluginregistration.pb-c.h"
#include "plugin/dra/inside.h"

enum { SOCKET_PATH = 107 };

static void on_info(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
	struct registration *reg = owner;
	char *versions[] = {(char *)"v1.DRAPlugin", (char *)"v1.DRAResourceHealth",
			    (char *)"v1alpha1.DRAResourceHealth"};

	(void)request;
	info.type = (char *)"DRAPlugin";
	info.name = reg->driver;
	info.endpoint = (char *)grpc_server_path(reg->server);
	info.supported_versions = versions;
	info.n_supported_versions = ARRAY_SIZE(versions);
	serve_answer(call, &info.base);
}

static void on_status(struct grpc_call *call, struct grpc_bytes bytes, void *owner)
{
	Pluginregistration__RegistrationStatusResponse response =
		PLUGINREGISTRATION__REGISTRATION_STATUS_RESPONSE__INIT;
	Pluginregistration__RegistrationStatus *status =
		pluginregistration__registration_status__unpack(NULL, bytes.size, bytes.data);
	struct registration *reg = owner;

	if (!status) {
		grpc_end(call, GRPC_INVALID_ARGUMENT, "accepted: a RegistrationStatus");
		return;
	}
	reg->registered = status->plugin_registered;
	if (reg->registered)
		log_info("dra.registered", "driver=%s socket=%s", reg->driver,
			 grpc_server_path(reg->server));
	else
		log_error("dra.unregistered", "reason=%s", log_text(status->error).text);
	pluginregistration__registration_status__free_unpacked(status, NULL);
	serve_answer(call, &response.base);
	if (!reg->dra)
		return;
	publish_consider(reg->dra->publish);
	report_changed(reg->dra);
}

const struct grpc_method registration_methods[REGISTRATION_METHODS] = {
	{"/pluginregistration.Registration/GetInfo", on_info, NULL},
	{"/pluginregistration.Registration/NotifyRegistrationStatus", on_status, NULL},
};

static int make_folder(const char *path, struct fault *why)
{
	if (mkdir(path, 0750) != 0 && errno != EEXIST)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

int registration_name(const struct config *config, char ret_driver[80], struct fault *why)
{
	if (strlen(config->domain) > CONFIG_NAME_MAX - strlen("gpu."))
		return config_blame(
			config, "domain", why,
			"'%s' is too long for a DRA driver's name, gpu.%s; accepted: at "
			"most %zu characters",
			config->domain, config->domain, CONFIG_NAME_MAX - strlen("gpu."));
	snprintf(ret_driver, 80, "gpu.%s", config->domain);
	return 0;
}

/* The pod's UID, as the downward API has it; NULL: this is no pod. */
static const char *pod_uid(void)
{
	const char *uid = getenv("POD_UID");

	return uid && words_is_label(uid) ? uid : NULL;
}

/* Of both sockets. */
struct paths {
	char registration[PLUGIN_PATH], driver[PLUGIN_PATH];
};

/* The longer one's length. `uid`: NULL: they have none in their names. */
static int write_paths(const char *driver, const char *kubelet, const char *uid,
		       struct paths *ret_paths)
{
	const char *dash = uid ? "-" : "";
	int a = snprintf(ret_paths->registration, sizeof(ret_paths->registration),
			 "%s/plugins_registry/%s%s%s-reg.sock", kubelet, driver, dash,
			 uid ? uid : "");
	int b = snprintf(ret_paths->driver, sizeof(ret_paths->driver), "%s/plugins/%s/dra%s%s.sock",
			 kubelet, driver, dash, uid ? uid : "");

	return a > b ? a : b;
}

static int find_paths(const char *driver, const char *kubelet, struct paths *ret_paths,
		      struct fault *why)
{
	const char *uid = pod_uid();
	char folder[PLUGIN_PATH];
	int r;

	if (!(uid && write_paths(driver, kubelet, uid, ret_paths) <= SOCKET_PATH) &&
	    write_paths(driver, kubelet, NULL, ret_paths) > SOCKET_PATH)
		return fault_set(
			why, -ENAMETOOLONG,
			"%s: too long for a socket's path; accepted: a shorter 'domain' or "
			"'kubelet-folder'",
			strlen(ret_paths->driver) > strlen(ret_paths->registration)
				? ret_paths->driver
				: ret_paths->registration);
	snprintf(folder, sizeof(folder), "%s/plugins", kubelet);
	r = make_folder(folder, why);
	snprintf(folder, sizeof(folder), "%s/plugins/%s", kubelet, driver);
	return r == 0 ? make_folder(folder, why) : r;
}

struct registration *registration_new(const char *driver, struct dra *dra)
{
	struct registration *reg = calloc(1, sizeof(*reg));

	if (!reg)
		return NULL;
	snprintf(reg->driver, sizeof(reg->driver), "%s", driver);
	reg->dra = dra;
	return reg;
}

/* Two that replace each other's socket would do so for ever. The other one may be about to end: it
 * is tried again at the next look. */
static int check_other(struct dra *dra, const struct paths *paths, struct fault *why)
{
	enum other_state state = other_look(dra, paths->driver);
	const char *path = paths->driver;

	if (state == OTHER_IS_SILENT) {
		log_warning("dra.taken_over",
			    "driver=%s reason=\"another meted has %s, and has said nothing for "
			    "three looks: it was stopped, say\"",
			    dra->driver, path);
		return 0;
	}
	if (state == OTHER_IS_NONE) {
		path = paths->registration;
		if (socket_answers(path) != 0)
			return 0;
	}
	return fault_set(why, -EADDRINUSE, "%s: another meted is serving there", path);
}

static int make(struct dra *dra, struct registration **ret_registration, struct fault *why)
{
	owned(registration_free) struct registration *reg = registration_new(dra->driver, dra);
	const struct plugin *p = dra->plugin;
	struct paths paths;
	int r;

	if (!reg)
		return fault_set(why, -ENOMEM, "out of memory");
	r = find_paths(reg->driver, p->config->kubelet_folder, &paths, why);
	if (r == 0)
		r = check_other(dra, &paths, why);
	/* The socket that the other one tells of is there first. */
	if (r == 0)
		r = grpc_server_open(p->host->loop, paths.driver, 0600, serve_methods,
				     serve_method_count, dra, &reg->server, why);
	if (r == 0)
		r = grpc_server_open(p->host->loop, paths.registration, 0600, registration_methods,
				     REGISTRATION_METHODS, reg, &reg->registry, why);
	if (r == 0)
		*ret_registration = take(reg);
	return r;
}

void registration_free(struct registration *reg)
{
	if (!reg)
		return;
	grpc_server_close(reg->registry, NULL);
	grpc_server_close(reg->server, NULL);
	free(reg);
}

void dra_disown(struct plugin *p)
{
	if (p->host->carried)
		registration_free(take(*p->host->carried));
}

bool registration_is_reachable(const struct registration *reg)
{
	return grpc_server_is_reachable(reg->server) && grpc_server_is_reachable(reg->registry);
}

/* What this process took over while it stood by. */
static bool adopt(struct dra *dra)
{
	struct registration **carried = dra->plugin->host->carried;
	struct registration *reg = carried ? take(*carried) : NULL;

	if (!reg)
		return false;
	if (strcmp(reg->driver, dra->driver) != 0 || !registration_is_reachable(reg)) {
		registration_free(reg);
		return false;
	}
	reg->dra = dra;
	dra->registration = reg;
	grpc_server_go_on(reg->server, dra);
	log_info("dra.inherited", "driver=%s socket=%s", reg->driver,
		 grpc_server_path(reg->server));
	publish_consider(dra->publish);
	return true;
}

/* Of pods that were killed: the kubelet would call there again and again. */
static void clear_left(const struct dra *dra)
{
	const char *kubelet = dra->plugin->config->kubelet_folder;
	char folder[PLUGIN_PATH], prefix[90];

	snprintf(folder, sizeof(folder), "%s/plugins/%s", kubelet, dra->driver);
	socket_clear(folder, "dra", "sock");
	snprintf(folder, sizeof(folder), "%s/plugins_registry", kubelet);
	snprintf(prefix, sizeof(prefix), "%s-", dra->driver);
	socket_clear(folder, prefix, ".sock");
}

/* Once, until there is another sentence. */
static void complain(struct dra *dra, const char *sentence)
{
	if (dra->complaint && strcmp(dra->complaint, sentence) == 0)
		return;
	free(dra->complaint);
	dra->complaint = strdup(sentence);
	log_warning("dra.unserved", "reason=%s", log_text(sentence).text);
}

static void close_sockets(struct dra *dra)
{
	serve_forget(dra);
	health_forget(dra);
	registration_free(take(dra->registration));
}

void register_open(struct dra *dra)
{
	struct fault why;

	if (dra->registration && registration_is_reachable(dra->registration)) {
		name_note(dra);
		return;
	}
	close_sockets(dra);
	if (adopt(dra) || make(dra, &dra->registration, &why) == 0) {
		free(take(dra->complaint));
		other_forget(dra);
		clear_left(dra);
		name_note(dra);
		return;
	}
	complain(dra, why.text);
}

bool register_is_known(const struct dra *dra)
{
	return dra->registration && dra->registration->registered;
}

static void one_left(struct registration *reg)
{
	const struct host *host = reg->dra->plugin->host;

	if (--reg->leaving == 0)
		host->finished(host->daemon);
}

static void on_server_left(void *owner)
{
	one_left(((struct dra *)owner)->registration);
}

static void on_registry_left(void *owner)
{
	one_left(owner);
}

bool register_leave(struct dra *dra, bool given)
{
	struct registration *reg = dra->registration;

	dra->finishing = true;
	health_end(dra);
	if (!reg)
		return false;
	if (grpc_server_leave(reg->server, given, on_server_left))
		reg->leaving++;
	if (grpc_server_leave(reg->registry, given, on_registry_left))
		reg->leaving++;
	return reg->leaving > 0;
}

void register_close(struct dra *dra)
{
	close_sockets(dra);
	other_forget(dra);
}
