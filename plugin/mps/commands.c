/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What core/mps.h's commands are: NVML's compute mode, and NVIDIA's program with commands as its
 * documentation has them (docs.nvidia.com/deploy/mps). The protocol between program and daemon is
 * not documented, and not spoken here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "plugin/mps/inside.h"

enum { RECORD_MOST = 1024 };

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

/* ---- records ------------------------------------------------------------------------------- */

void mps_record_folder(const struct plugin *p, char ret_path[PLUGIN_PATH])
{
	snprintf(ret_path, PLUGIN_PATH, "%s/mps", p->host->place);
}

static void record_path(const struct plugin *p, const char *uuid, char ret_path[PLUGIN_PATH + 64])
{
	char folder[PLUGIN_PATH];

	mps_record_folder(p, folder);
	snprintf(ret_path, PLUGIN_PATH + 64, "%s/%.47s", folder, uuid);
}

int mps_record_read(struct plugin *p, const char *uuid, char ret_root[MPS_PATH])
{
	char path[PLUGIN_PATH + 64];
	owned(free) char *text = NULL;
	size_t size;
	int r;

	record_path(p, uuid, path);
	r = file_slurp(path, RECORD_MOST, &text, &size);
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	snprintf(ret_root, MPS_PATH, "%.255s", text);
	return 0;
}

/* Before it is set: a meted that ends in between leaves a record too many, which is harmless. */
static int write_record(const struct mps_gpu *gpu)
{
	const struct plugin *p = gpu->hub->plugin;
	char path[PLUGIN_PATH + 64], text[MPS_PATH + 1];

	mps_record_folder(p, path);
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	record_path(p, p->host->device[gpu->device].uuid, path);
	snprintf(text, sizeof(text), "%s\n", gpu->root);
	return file_replace(path, text, strlen(text), 0600);
}

/* ---- the compute mode ---------------------------------------------------------------------- */

static void set_mode(struct mps_gpu *gpu, bool exclusive)
{
	const struct plugin *p = gpu->hub->plugin;
	char path[PLUGIN_PATH + 64];
	int r = exclusive ? write_record(gpu) : 0;

	if (r == 0)
		r = p->host->compute_mode(p->host->daemon, gpu->device, exclusive);
	if (r < 0)
		snprintf(gpu->run.output, sizeof(gpu->run.output), "the compute mode: %s",
			 strerror(-r));
	record_path(p, p->host->device[gpu->device].uuid, path);
	if (r == 0 && !exclusive)
		unlink(path);
	mps_gpu_did(gpu, r == 0);
}

/* ---- commands of the program --------------------------------------------------------------- */

/* Programs of any user have to get to the pipe, whatever our umask is. */
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

static int make_folders(const struct mps_gpu *gpu)
{
	const char *uuid = gpu->hub->plugin->host->device[gpu->device].uuid;
	static const char *const below[] = {"", "/pipe", "/log"};
	char path[MPS_PATH + 64];
	int r = make_parents(gpu->root);

	if (r == 0)
		r = make_open_folder(gpu->root);

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(below); i++) {
		snprintf(path, sizeof(path), "%s/%.47s%s", gpu->root, uuid, below[i]);
		r = make_open_folder(path);
	}
	return r;
}

/* The daemon sees its own GPU alone, which is its device 0. */
static void set_environment(struct mps_gpu *gpu)
{
	const struct host *host = gpu->hub->plugin->host;
	const char *uuid = host->device[gpu->device].uuid, *path = getenv("PATH");
	struct run *r = &gpu->run;
	size_t folder = (size_t)(strrchr(gpu->hub->control, '/') - gpu->hub->control);

	snprintf(r->settings[0], RUN_TEXT, "CUDA_MPS_PIPE_DIRECTORY=%s/%.47s/pipe", gpu->root,
		 uuid);
	snprintf(r->settings[1], RUN_TEXT, "CUDA_MPS_LOG_DIRECTORY=%s/%.47s/log", gpu->root, uuid);
	snprintf(r->settings[2], RUN_TEXT, "CUDA_VISIBLE_DEVICES=%.47s", uuid);
	/* Its server is beside it. */
	snprintf(r->settings[3], RUN_TEXT, "PATH=%.*s:%.200s", (int)folder, gpu->hub->control,
		 path ? path : "/usr/bin:/bin");
	if (host->driver_folder)
		snprintf(r->settings[4], RUN_TEXT, "LD_LIBRARY_PATH=%.200s", host->driver_folder);
}

/* Without `one_only` a container says in its own environment how much of this it has, and mete's
 * guest holds it to that. */
static void say_limits(struct mps_gpu *gpu)
{
	const struct plugin *p = gpu->hub->plugin;
	char percent[MPS_TEXT], limit[MPS_TEXT];

	mps_part(p, gpu->device, gpu->one_only ? 1 : gpu->replicas, gpu->replicas, percent, limit);
	limit[1] = ' '; /* "0 1024M" */
	snprintf(gpu->run.input, RUN_TEXT,
		 "set_default_device_pinned_mem_limit %s\n"
		 "set_default_active_thread_percentage %s\n"
		 "get_default_active_thread_percentage\n",
		 limit, percent);
	gpu->percent = (uint32_t)atoi(percent);
}

/* The last line is a number: whatever it begins with. -1: it is none. */
static int last_number(const char *text)
{
	const char *line = text, *end;
	int number = -1;

	for (; line && *line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		number = *line >= '0' && *line <= '9' ? atoi(line) : -1;
	}
	return number;
}

static bool went_well(const struct mps_gpu *gpu)
{
	int number = last_number(gpu->run.output);

	if (gpu->run.status != 0)
		return false;
	if (gpu->machine.runs == MPS_LIMIT)
		return number == (int)gpu->percent;
	return gpu->machine.runs != MPS_ASK || number >= 0;
}

static void on_run(struct loop_work *work)
{
	run(&container_of(work, struct mps_gpu, work)->run);
}

static void on_finished(struct loop_work *work)
{
	struct mps_gpu *gpu = container_of(work, struct mps_gpu, work);
	bool well = went_well(gpu);

	if (gpu->run.status < 0)
		snprintf(gpu->run.output, sizeof(gpu->run.output), "%s",
			 strerror(-gpu->run.status));
	mps_gpu_did(gpu, well);
	mps_hub_release(gpu->hub);
}

static void run_control(struct mps_gpu *gpu, const char *input)
{
	struct mps_hub *hub = gpu->hub;

	memset(&gpu->run, 0, sizeof(gpu->run));
	set_environment(gpu);
	if (gpu->machine.runs == MPS_START) {
		/* It leaves sockets and files for programs of other users. */
		gpu->run.words[0] = "/bin/sh";
		gpu->run.words[1] = "-c";
		gpu->run.words[2] = "umask 022; exec \"$0\" -d";
		gpu->run.words[3] = hub->control;
	} else {
		gpu->run.words[0] = hub->control;
	}
	snprintf(gpu->run.input, RUN_TEXT, "%s", input);
	if (gpu->machine.runs == MPS_LIMIT)
		say_limits(gpu);
	if (!*hub->control ||
	    loop_work(hub->plugin->host->loop, &gpu->work, on_run, on_finished) < 0) {
		snprintf(gpu->run.output, RUN_TEXT, "nvidia-cuda-mps-control cannot be run");
		mps_gpu_did(gpu, false);
		return;
	}
	hub->handles++;
}

static void start(struct mps_gpu *gpu)
{
	int r = make_folders(gpu);

	if (r < 0) {
		snprintf(gpu->run.output, RUN_TEXT, "%.200s: %s", gpu->root, strerror(-r));
		mps_gpu_did(gpu, false);
		return;
	}
	run_control(gpu, "");
}

void mps_gpu_begin(struct mps_gpu *gpu, enum mps_command command)
{
	switch (command) {
	case MPS_MODE:
		set_mode(gpu, true);
		break;
	case MPS_UNMODE:
		set_mode(gpu, false);
		break;
	case MPS_ASK:
		run_control(gpu, "get_default_active_thread_percentage\n");
		break;
	case MPS_START:
		start(gpu);
		break;
	case MPS_LIMIT:
		run_control(gpu, "");
		break;
	case MPS_QUIT:
		run_control(gpu, "quit\n");
		break;
	case MPS_NOTHING:
		break;
	}
}
