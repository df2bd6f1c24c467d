/* SPDX-License-Identifier: Apache-2.0 */
/* mete doctor on a node of Kubernetes: what the device plugin needs there. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/place.h"
#include "base/socket.h"
#include "cli/doctor_node.h"
#include "plugin/inject/cdi_choice.h"

#define REGISTRY  "/var/lib/kubelet/plugins_registry"
#define PLUGINS	  "/var/lib/kubelet/device-plugins"
#define RESOURCES "/var/lib/kubelet/pod-resources/kubelet.sock"
#define ENVVAR	  "accept-nvidia-visible-devices-envvar-when-unprivileged"
enum { TOOLKIT_MOST = 256 << 10, RECORD_MOST = 4096 };

/* The folder of the node's files in mete's container, which deploy/on-node names. */
static const char *node_root(void)
{
	const char *root = getenv("METE_HOST");

	return root ? root : "";
}

const char *node_path(const char *path, char ret_path[PATH_MAX])
{
	if (snprintf(ret_path, PATH_MAX, "%s%s", node_root(), path) >= PATH_MAX)
		*ret_path = '\0';
	return ret_path;
}

/* The kubelet's sockets, under the paths at which meted's container mounts them. */
const char *node_kubelet_path(const char *path, char ret_path[PATH_MAX])
{
	struct stat there;

	if (stat(path, &there) != 0)
		return node_path(path, ret_path);
	snprintf(ret_path, PATH_MAX, "%s", path);
	return ret_path;
}

/* A container has files of its own: a file that is missing here may exist on the node. (With
 * hostPID, process 1 is the node's.) */
static bool sees_node(void)
{
	char path[PATH_MAX];
	struct stat its, own;

	if (*node_root())
		return access(node_path("/etc", path), X_OK) == 0;
	return stat("/proc/1/root/", &its) != 0 || stat("/", &own) != 0 ||
	       (its.st_dev == own.st_dev && its.st_ino == own.st_ino);
}

static bool is_node(void)
{
	char path[PATH_MAX];
	struct stat there;

	return stat(node_kubelet_path(PLUGINS, path), &there) == 0;
}

/* Whether this machine is a node, and the user may read its files. */
bool node_may_read(struct finding *finding)
{
	char path[PATH_MAX];

	if (!is_node()) {
		finding->verdict = FINDING_NONE;
		return false;
	}
	if (access(node_kubelet_path(PLUGINS, path), R_OK | X_OK) == 0)
		return true;
	finding_set(finding, FINDING_NOTE, "%s: %s", path, strerror(errno));
	finding_advise(finding, "run this as root to see what the kubelet sees");
	return false;
}

void check_kubelet(struct patient *patient, struct finding *finding)
{
	char path[PATH_MAX];
	int r;

	(void)patient;
	if (!node_may_read(finding))
		return;
	r = socket_answers(node_kubelet_path(PLUGINS "/kubelet.sock", path));
	if (r == 0) {
		finding_set(finding, FINDING_FINE, PLUGINS "/kubelet.sock answers");
		return;
	}
	finding_set(finding, FINDING_WRONG, PLUGINS "/kubelet.sock: %s", strerror(-r));
	finding_advise(finding,
		       "the kubelet is not running, or its root folder is a different one: see "
		       "mete.kubelet-folder in mete-config(5)");
}

/* A socket of ours that answers, or else one of a meted that was killed; "" if there is none. */
static void find_socket(char *ret_path, size_t size)
{
	char plugins[PATH_MAX], name[NAME_MAX + 1];
	DIR *folder = opendir(node_kubelet_path(PLUGINS, plugins));
	struct dirent *entry;

	*ret_path = '\0';
	if (socket_find(plugins, "mete-", name, sizeof(name)) == 0)
		snprintf(ret_path, size, "%.3000s/%s", plugins, name);
	while (folder && !*ret_path && (entry = readdir(folder)))
		if (strncmp(entry->d_name, "mete-", 5) == 0)
			snprintf(ret_path, size, "%.3000s/%s", plugins, entry->d_name);
	if (folder)
		closedir(folder);
}

void check_plugin(struct patient *patient, struct finding *finding)
{
	char path[PATH_MAX];
	int r;

	(void)patient;
	if (!node_may_read(finding))
		return;
	find_socket(path, sizeof(path));
	if (!*path) {
		finding_set(finding, FINDING_WRONG, "mete has no socket in " PLUGINS);
		finding_advise(finding, "is meted running with --kubernetes? If not, see its log: "
					"kubectl -n mete-system logs ds/mete");
		return;
	}
	r = socket_answers(path);
	if (r == 0) {
		finding_set(finding, FINDING_FINE, "%s answers", path);
		return;
	}
	finding_set(finding, FINDING_WRONG, "%s: %s", path, strerror(-r));
	finding_advise(finding, "meted exited without removing it: its log says why");
}

void check_owner(struct patient *patient, struct finding *finding)
{
	char theirs[NAME_MAX + 1], ours[NAME_MAX + 1], path[PATH_MAX], registry[PATH_MAX];

	(void)patient;
	if (!node_may_read(finding))
		return;
	if (socket_find(node_kubelet_path(PLUGINS, path), "nvidia-", theirs, sizeof(theirs)) == 0) {
		bool both = socket_find(path, "mete-", ours, sizeof(ours)) == 0;

		finding_set(
			finding, FINDING_WRONG, "NVIDIA's device plugin is running here (%s)%s",
			theirs,
			both ? ", alongside mete's, which gives nothing to new containers meanwhile"
			     : "");
		finding_advise(finding, "a device has one owner: keep either its DaemonSet or "
					"mete's off this node");
		return;
	}
	if (socket_find(node_kubelet_path(REGISTRY, registry), "gpu.nvidia.com", theirs,
			sizeof(theirs)) == 0) {
		finding_set(finding, FINDING_WRONG, "NVIDIA's DRA driver is running here (%s)",
			    theirs);
		finding_advise(finding,
			       "a device has one owner: keep either its DaemonSet or mete's off "
			       "this node (of NVIDIA's GPU Operator: label the node "
			       "nvidia.com/gpu.deploy.operands=false)");
		return;
	}
	finding_set(finding, FINDING_FINE, "NVIDIA's is not running here");
}

void check_resources(struct patient *patient, struct finding *finding)
{
	char path[PATH_MAX];
	int r;

	(void)patient;
	if (!node_may_read(finding))
		return;
	r = socket_answers(node_kubelet_path(RESOURCES, path));
	if (r == 0) {
		finding_set(finding, FINDING_FINE, "/var/lib/kubelet/pod-resources answers");
		return;
	}
	finding_set(finding, FINDING_WRONG, RESOURCES ": %s", strerror(-r));
	finding_advise(
		finding,
		"meted asks it which pod a container belongs to; Kubernetes has it since 1.20");
}

/* What the API server told meted about the kubelet and the runtime: two lines. False: nothing. */
static bool read_versions(char *ret_text[2], char **ret_whole)
{
	size_t size;
	char *end;

	if (file_slurp(PLACE_SYSTEM "/runtime", RECORD_MOST, ret_whole, &size) < 0)
		return false;
	ret_text[0] = *ret_whole;
	end = strchr(*ret_whole, '\n');
	if (!end)
		return false;
	*end = '\0';
	ret_text[1] = end + 1;
	ret_text[1][strcspn(ret_text[1], "\n")] = '\0';
	return true;
}

/* As meted chooses with `cdi: auto`. */
static bool has_cdi(bool folder, struct fault *ret_reason)
{
	owned(free) char *config = cdi_config(node_root());
	owned(free) char *whole = NULL;
	char *version[2];
	struct cdi_facts facts = {.config = config, .folder = folder};

	if (read_versions(version, &whole)) {
		facts.runtime = *version[0] ? version[0] : NULL;
		facts.kubelet = *version[1] ? version[1] : NULL;
	}
	return cdi_choice(&facts, ret_reason);
}

/* The first that exists, under meted's path or else under the node's. NULL: none. */
static const char *find_folder(char ret_path[PATH_MAX])
{
	static const char *const folders[] = {"/var/run/cdi", "/etc/cdi"};
	struct stat there;

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (stat(folders[i], &there) == 0)
			return folders[i];
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (stat(node_path(folders[i], ret_path), &there) == 0)
			return ret_path;
	return NULL;
}

void check_cdi(struct patient *patient, struct finding *finding)
{
	char path[PATH_MAX];
	const char *folder;
	struct fault reason;

	(void)patient;
	if (!node_may_read(finding))
		return;
	folder = find_folder(path);
	if (!has_cdi(folder != NULL, &reason)) {
		finding_set(finding, FINDING_NOTE, "%s", reason.text);
		finding_advise(
			finding,
			"with 'cdi: auto' containers get mounts and environment variables "
			"instead; 'ids: slot' needs CDI: containerd reads CDI files from 2.0 "
			"on (1.7 with enable_cdi = true), CRI-O always");
		return;
	}
	if (!folder) {
		finding_set(finding, FINDING_NOTE, "neither /var/run/cdi nor /etc/cdi exists; %s",
			    reason.text);
		finding_advise(finding, "meted creates the one in its configuration");
		return;
	}
	if (access(folder, W_OK) == 0) {
		finding_set(finding, FINDING_FINE, "%s; %s", folder, reason.text);
		return;
	}
	finding_set(finding, FINDING_WRONG, "%s: %s", folder, strerror(errno));
	finding_advise(finding, "meted must be able to write there");
}

/* "name = value", anywhere in the file. */
static bool says(const char *text, const char *name, const char *value)
{
	const char *at = strstr(text, name);

	if (!at)
		return false;
	for (const char *c = at; c > text && c[-1] != '\n'; c--)
		if (c[-1] == '#')
			return false;
	at += strlen(name);
	at += strspn(at, " \t");
	if (*at++ != '=')
		return false;
	at += strspn(at, " \t");
	return strncmp(at, value, strlen(value)) == 0;
}

/* Where packages install it, or NVIDIA's operator. NULL: it is not installed. */
static char *read_toolkit(char ret_path[PATH_MAX])
{
	static const char *const files[] = {
		"/etc/nvidia-container-runtime/config.toml",
		"/usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml",
	};
	char *text;
	size_t size;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (file_slurp(node_path(files[i], ret_path), TOOLKIT_MOST, &text, &size) == 0)
			return text;
	return NULL;
}

void check_toolkit(struct patient *patient, struct finding *finding)
{
	owned(free) char *text = NULL;
	char path[PATH_MAX];

	(void)patient;
	if (!node_may_read(finding))
		return;
	if (!sees_node()) {
		finding_set(finding, FINDING_NOTE, "the node's files cannot be seen from here");
		if (*node_root())
			finding_advise(
				finding,
				"mount the node's / at %s in mete's container, as deploy/base "
				"does: there is nothing",
				node_root());
		else
			finding_advise(finding, "in mete's container: on-node mete doctor");
		return;
	}
	text = read_toolkit(path);
	if (!text) {
		finding_set(finding, FINDING_FINE, "not installed: nothing else mounts the driver");
		return;
	}
	if (says(text, ENVVAR, "false")) {
		finding_set(finding, FINDING_FINE,
			    "gives no devices to a container that only names them");
		return;
	}
	finding_set(finding, FINDING_WRONG,
		    "where NVIDIA's runtime is the default, a container that names devices in "
		    "NVIDIA_VISIBLE_DEVICES gets all of them, whole");
	finding_advise(finding, "set " ENVVAR " = false in %s", path + strlen(node_root()));
}
