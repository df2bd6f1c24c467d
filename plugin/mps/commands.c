/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carries out the commands of core/mps.h: the steps before and after a daemon, which its owner
 * knows, and NVIDIA's program with the commands of its documentation (docs.nvidia.com/deploy/mps).
 * The protocol between program and daemon is not documented, and not spoken here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/mps/inside.h"

/* ---- the program --------------------------------------------------------------------------- */

static bool is_program(const char *folder, size_t length, const char *below, char ret[MPS_PATH])
{
	return snprintf(ret, MPS_PATH, "%.*s%s/nvidia-cuda-mps-control", (int)length, folder,
			below) < MPS_PATH &&
	       access(ret, X_OK) == 0;
}

void mps_find_control(const struct config *config, char ret_path[MPS_PATH])
{
	const char *const roots[] = {config->as_nvidia.inner_root, config->as_nvidia.driver_root};
	const char *path = getenv("PATH");

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
		if (roots[i] && strcmp(roots[i], "/") != 0 &&
		    is_program(roots[i], strlen(roots[i]), "/usr/bin", ret_path))
			return;
	for (path = path ? path : "/usr/bin"; *path; path += strspn(path, ":")) {
		size_t length = strcspn(path, ":");

		if (is_program(path, length, "", ret_path))
			return;
		path += length;
	}
	*ret_path = '\0';
}

/* ---- what is marked ------------------------------------------------------------------------ */

static void set_mark(struct mps_daemon *daemon, bool marked)
{
	int r = marked ? daemon->uses->mark(daemon) : daemon->uses->unmark(daemon);

	if (r < 0)
		snprintf(daemon->run.output, sizeof(daemon->run.output),
			 "the record or the compute mode: %s", strerror(-r));
	mps_daemon_did(daemon, r == 0);
}

/* Its container can write there, and another one may have the place next. */
static void namespace_folder(const struct mps_daemon *daemon, char ret_path[RUN_TEXT])
{
	snprintf(ret_path, RUN_TEXT, "%s/pipe/" MPS_SERVER "/%s", daemon->folder, daemon->name);
}

/* A GPU goes from its daemon even if a container has left what cannot be removed. */
static int clear_folder(const struct mps_daemon *daemon)
{
	char path[RUN_TEXT];
	int r;

	if (daemon->uses->in_gpus_folder) {
		namespace_folder(daemon, path);
		return mps_folder_remove(path);
	}
	mps_unmount(daemon);
	r = mps_folder_remove(daemon->folder);
	return daemon->uses->cleans ? r : 0;
}

static void on_clean(struct loop_work *work)
{
	struct mps_daemon *daemon = container_of(work, struct mps_daemon, work);

	daemon->run.status = clear_folder(daemon);
}

/* At our end the record stays, and the next meted does the rest. */
static void on_cleaned(struct loop_work *work)
{
	struct mps_daemon *daemon = container_of(work, struct mps_daemon, work);
	struct mps_hub *hub = daemon->hub;

	if (daemon->run.status == 0) {
		daemon->has_folder = false;
		if (!hub->closed)
			set_mark(daemon, false);
	} else {
		snprintf(daemon->run.output, RUN_TEXT, "%.200s: %s", daemon->folder,
			 strerror(-daemon->run.status));
		mps_daemon_did(daemon, false);
	}
	mps_hub_release(hub);
}

static void unset_mark(struct mps_daemon *daemon)
{
	struct mps_hub *hub = daemon->hub;

	if (loop_work(hub->plugin->host->loop, &daemon->work, on_clean, on_cleaned) < 0) {
		snprintf(daemon->run.output, RUN_TEXT, "no thread for it");
		mps_daemon_did(daemon, false);
		return;
	}
	hub->handles++;
}

/* ---- commands of the program --------------------------------------------------------------- */

/* Programs of any user must reach the pipe: our umask does not count. */
static int make_open_folder(const char *path)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return -errno;
	return chmod(path, 0755) < 0 ? -errno : 0;
}

/* As `mkdir -p`: a parent that is there stays as it is. */
static int make_parents(const char *path)
{
	char parent[MPS_PATH];

	snprintf(parent, sizeof(parent), "%s", path);
	for (char *at = strchr(parent + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		if (mkdir(parent, 0755) == 0 ? chmod(parent, 0755) < 0 : errno != EEXIST)
			return -errno;
		*at = '/';
	}
	return 0;
}

/* A folder without a record of its daemon may have been another container's, or is one that an
 * earlier meted has left unbounded. */
static int make_folder(struct mps_daemon *daemon)
{
	int r = 0;

	if (!daemon->has_folder)
		r = clear_folder(daemon);
	if (r == 0)
		r = make_parents(daemon->root);
	if (r == 0)
		r = make_open_folder(daemon->root);
	if (r == 0)
		r = make_open_folder(daemon->folder);
	daemon->unbounded.text[0] = '\0';
	if (r < 0)
		return r;
	daemon->has_folder = true;
	best_effort(mps_mount(daemon, &daemon->unbounded));
	return 0;
}

/* A namespace's is made by the GPU's daemon, or is there: a former daemon's, which the container
 * has mounted. */
static int look_over_namespace(const struct mps_daemon *daemon)
{
	char path[RUN_TEXT];
	int r;

	namespace_folder(daemon, path);
	r = mps_folder_unlink_links(path);
	return r == -ENOENT ? 0 : r;
}

static int make_folders(struct mps_daemon *daemon)
{
	char path[MPS_PATH + 16];
	int r;

	if (daemon->uses->in_gpus_folder)
		return look_over_namespace(daemon);
	r = make_folder(daemon);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/log", daemon->folder);
	r = make_open_folder(path);
	snprintf(path, sizeof(path), "%s/pipe", daemon->folder);
	if (r == 0)
		r = make_open_folder(path);
	/* Containers can write there: what is no file of the daemon's goes. */
	return r < 0 ? r : mps_folder_unlink_links(path);
}

/* The daemon sees its own GPU alone, which is its device 0. */
static void set_environment(struct mps_daemon *daemon)
{
	const struct host *host = daemon->hub->plugin->host;
	struct run *r = &daemon->run;

	snprintf(r->settings[0], RUN_TEXT, "CUDA_MPS_PIPE_DIRECTORY=%s/pipe", daemon->folder);
	snprintf(r->settings[1], RUN_TEXT, "CUDA_MPS_LOG_DIRECTORY=%s/log", daemon->folder);
	snprintf(r->settings[2], RUN_TEXT, "CUDA_VISIBLE_DEVICES=%s", daemon->uuid);
	/* It goes before everything else that could choose the protocol. */
	snprintf(r->settings[3], RUN_TEXT, "CUDA_MPS_PROTOCOL_VERSION=%s",
		 daemon->protocol->version);
	if (host->driver_folder)
		snprintf(r->settings[4], RUN_TEXT, "LD_LIBRARY_PATH=%s", host->driver_folder);
}

static void on_run(struct loop_work *work)
{
	run(&container_of(work, struct mps_daemon, work)->run);
}

static void on_start(struct loop_work *work)
{
	struct mps_daemon *daemon = container_of(work, struct mps_daemon, work);

	daemon->run.status = make_folders(daemon);
	if (daemon->run.status == 0)
		run(&daemon->run);
	else
		snprintf(daemon->run.output, RUN_TEXT, "%.200s: %s", daemon->folder,
			 strerror(-daemon->run.status));
}

/* Once: it holds for all of them. */
static void tell_unbounded(struct mps_daemon *daemon)
{
	const char *reason = daemon->unbounded.text;

	if (*reason && !daemon->hub->told_unbounded)
		log_warning("mps.unbounded", "daemon=%s reason=%s", daemon->name,
			    log_text(reason).text);
	daemon->hub->told_unbounded |= *reason;
}

static void on_finished(struct loop_work *work)
{
	struct mps_daemon *daemon = container_of(work, struct mps_daemon, work);
	struct mps_hub *hub = daemon->hub;
	bool well = daemon->protocol->heard(daemon);

	if (daemon->machine.runs == MPS_START)
		tell_unbounded(daemon);
	if (daemon->run.status < 0 && !*daemon->run.output)
		snprintf(daemon->run.output, sizeof(daemon->run.output), "%s",
			 strerror(-daemon->run.status));
	mps_daemon_did(daemon, well);
	mps_hub_release(hub);
}

static void run_control(struct mps_daemon *daemon)
{
	struct mps_hub *hub = daemon->hub;
	bool starts = daemon->machine.runs == MPS_START;

	memset(&daemon->run, 0, sizeof(daemon->run));
	if (*hub->control)
		set_environment(daemon);
	daemon->protocol->say(daemon, daemon->machine.runs);
	if (!*hub->control || loop_work(hub->plugin->host->loop, &daemon->work,
					starts ? on_start : on_run, on_finished) < 0) {
		snprintf(daemon->run.output, RUN_TEXT, "nvidia-cuda-mps-control cannot be run");
		mps_daemon_did(daemon, false);
		return;
	}
	hub->handles++;
}

void mps_daemon_begin(struct mps_daemon *daemon, enum mps_command command)
{
	switch (command) {
	case MPS_MODE:
		set_mark(daemon, true);
		break;
	case MPS_UNMODE:
		unset_mark(daemon);
		break;
	case MPS_ASK:
	case MPS_START:
	case MPS_LIMIT:
	case MPS_QUIT:
		run_control(daemon);
		break;
	case MPS_NOTHING:
		break;
	}
}
