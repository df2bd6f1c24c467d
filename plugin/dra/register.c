/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the kubelet gets to know the driver: it finds a socket in its folder plugins_registry, asks
 * there what this is, and is told where the driver's own socket is. A kubelet that starts looks
 * through that folder, so nothing here has to notice it.
 */
#include <string.h>
#include <sys/stat.h>

#include "kube/proto/pluginregistration.pb-c.h"
#include "plugin/dra/inside.h"

enum { SOCKET_PATH = 107 };

static void on_info(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	Pluginregistration__PluginInfo info = PLUGINREGISTRATION__PLUGIN_INFO__INIT;
	struct dra *dra = owner;
	char *versions[] = {(char *)"v1.DRAPlugin", (char *)"v1.DRAResourceHealth",
			    (char *)"v1alpha1.DRAResourceHealth"};

	(void)request;
	info.type = (char *)"DRAPlugin";
	info.name = dra->driver;
	info.endpoint = dra->path;
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
	struct dra *dra = owner;

	if (!status) {
		grpc_end(call, GRPC_INVALID_ARGUMENT, "accepted: a RegistrationStatus");
		return;
	}
	dra->registered = status->plugin_registered;
	if (dra->registered)
		log_info("dra.registered", "driver=%s socket=%s", dra->driver, dra->path);
	else
		log_error("dra.unregistered", "reason=%s", log_text(status->error).text);
	pluginregistration__registration_status__free_unpacked(status, NULL);
	serve_answer(call, &response.base);
	publish_consider(dra->publish);
	report_changed(dra);
}

static const struct grpc_method registration_methods[] = {
	{"/pluginregistration.Registration/GetInfo", on_info, NULL},
	{"/pluginregistration.Registration/NotifyRegistrationStatus", on_status, NULL},
};

static int make_folder(const char *path, struct fault *why)
{
	if (mkdir(path, 0750) != 0 && errno != EEXIST)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

static int find_paths(struct dra *dra, struct fault *why)
{
	const char *kubelet = dra->plugin->config->kubelet_folder;
	char folder[PLUGIN_PATH];
	int a, b, r;

	a = snprintf(dra->registration_path, sizeof(dra->registration_path),
		     "%s/plugins_registry/%s-reg.sock", kubelet, dra->driver);
	b = snprintf(dra->path, sizeof(dra->path), "%s/plugins/%s/dra.sock", kubelet, dra->driver);
	if (a > SOCKET_PATH || b > SOCKET_PATH)
		return fault_set(
			why, -ENAMETOOLONG,
			"%s: too long for a socket's path; accepted: a shorter 'domain' or "
			"'kubelet-folder'",
			a > b ? dra->registration_path : dra->path);
	snprintf(folder, sizeof(folder), "%s/plugins", kubelet);
	r = make_folder(folder, why);
	snprintf(folder, sizeof(folder), "%s/plugins/%s", kubelet, dra->driver);
	return r == 0 ? make_folder(folder, why) : r;
}

static int serve(struct dra *dra, struct fault *why)
{
	struct loop *loop = dra->plugin->host->loop;
	int r = find_paths(dra, why);

	/* The socket that the other one tells of is there first. */
	if (r == 0)
		r = grpc_server_open(loop, dra->path, 0600, serve_methods, serve_method_count, dra,
				     &dra->server, why);
	if (r == 0)
		r = grpc_server_open(loop, dra->registration_path, 0600, registration_methods,
				     ARRAY_SIZE(registration_methods), dra, &dra->registration,
				     why);
	return r;
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

void register_open(struct dra *dra)
{
	struct fault why;

	if (dra->server && dra->registration && grpc_server_is_reachable(dra->server) &&
	    grpc_server_is_reachable(dra->registration))
		return;
	register_close(dra);
	if (serve(dra, &why) == 0) {
		free(take(dra->complaint));
		return;
	}
	register_close(dra);
	complain(dra, why.text);
}

void register_close(struct dra *dra)
{
	serve_forget(dra);
	health_forget(dra);
	grpc_server_close(take(dra->registration), NULL);
	grpc_server_close(take(dra->server), NULL);
	dra->registered = false;
}
