/* SPDX-License-Identifier: Apache-2.0 */
/* One GPU's control daemon: when something is due, whether its process lives, and what is said. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "plugin/mps/inside.h"

enum { PID_MOST = 64 };

static const char *uuid_of(const struct mps_gpu *gpu)
{
	return gpu->hub->plugin->host->device[gpu->device].uuid;
}

/* ---- its containers ------------------------------------------------------------------------ */

static void tell_containers(struct mps_gpu *gpu)
{
	struct plugin *p = gpu->hub->plugin;

	list_for_each(link, &p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		for (uint32_t i = 0; i < b->devices; i++)
			if (b->device[i] == gpu->device)
				best_effort(events_container(
					p, b, "MPSControlEnded",
					"the MPS control daemon of its GPU has ended, and is "
					"started "
					"again: if its programs report errors, start them again"));
	}
}

/* ---- its process --------------------------------------------------------------------------- */

static void on_watch_closed(struct loop_watch *loop_watch)
{
	struct mps_watch *watch = container_of(loop_watch, struct mps_watch, watch);
	struct mps_hub *hub = watch->hub;

	close(watch->fd);
	free(watch);
	mps_hub_release(hub);
}

void mps_gpu_unwatch(struct mps_gpu *gpu)
{
	struct mps_watch *watch = take(gpu->watch);

	if (!watch)
		return;
	watch->gpu = NULL;
	loop_unwatch(&watch->watch, on_watch_closed);
}

static void on_ended(struct loop_watch *loop_watch, unused int events)
{
	struct mps_watch *watch = container_of(loop_watch, struct mps_watch, watch);
	struct mps_gpu *gpu = watch->gpu;

	if (!gpu)
		return;
	mps_gpu_unwatch(gpu);
	if (gpu->machine.wanted) {
		log_warning("mps.ended", "uuid=%s", uuid_of(gpu));
		tell_containers(gpu);
	}
	mps_gone(&gpu->machine, loop_now_ns());
	mps_gpu_pump(gpu);
}

/* The daemon leaves its pid in its folder. Without it, questions tell whether it lives. */
static void watch_process(struct mps_gpu *gpu)
{
	char path[MPS_PATH + 96];
	owned(free) char *text = NULL;
	owned(close) int file = -1;
	struct mps_watch *watch;
	size_t size;
	int fd;

	snprintf(path, sizeof(path), "%s/%.47s/pipe/nvidia-cuda-mps-control.pid", gpu->root,
		 uuid_of(gpu));
	/* Containers can write there: what is no plain file must not keep us waiting. */
	file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (file < 0 || file_slurp_from(file, PID_MOST, &text, &size) < 0 || atoi(text) <= 0)
		return;
	fd = (int)syscall(SYS_pidfd_open, atoi(text), 0);
	if (fd < 0)
		return;
	watch = calloc(1, sizeof(*watch));
	if (watch) {
		*watch = (struct mps_watch){.gpu = gpu, .hub = gpu->hub, .fd = fd};
		if (loop_watch(gpu->hub->plugin->host->loop, &watch->watch, fd, LOOP_READ,
			       on_ended) == 0) {
			gpu->watch = watch;
			gpu->hub->handles++;
			return;
		}
	}
	free(watch);
	close(fd);
}

/* ---- what is said -------------------------------------------------------------------------- */

static void say(struct mps_gpu *gpu)
{
	struct plugin *p = gpu->hub->plugin;
	bool ready = gpu->machine.ready;
	struct fault what;

	if (ready == gpu->was_ready)
		return;
	gpu->was_ready = ready;
	gpu->said[0] = '\0';
	fault_set(&what, 0,
		  ready ? "the MPS control daemon of GPU %s is ready"
			: "the MPS control daemon of GPU %s is not ready: it gets no new "
			  "containers until then",
		  uuid_of(gpu));
	log_info(ready ? "mps.ready" : "mps.unready", "uuid=%s root=%s", uuid_of(gpu), gpu->root);
	if (ready) {
		watch_process(gpu);
		events_node_well(p, "MPSControlReady", what.text);
	} else if (gpu->machine.wanted && !gpu->machine.answers) {
		/* Limits that change are no end. */
		events_node(p, "MPSControlEnded", what.text);
	}
	if (!ready)
		mps_gpu_unwatch(gpu);
	serve_changed(p);
	if (ready)
		prestart_consider(p);
}

/* The same sentence once. A question that is not answered is no failure. */
static void say_failure(struct mps_gpu *gpu, enum mps_command command)
{
	static const char *const names[] = {
		[MPS_MODE] = "set-mode", [MPS_START] = "start",	      [MPS_LIMIT] = "limit",
		[MPS_QUIT] = "quit",	 [MPS_UNMODE] = "unset-mode",
	};
	const char *name = command < ARRAY_SIZE(names) ? names[command] : NULL;

	size_t length = strlen(gpu->run.output);

	while (length && gpu->run.output[length - 1] == '\n')
		gpu->run.output[--length] = '\0';
	if (!name || strcmp(gpu->said, gpu->run.output) == 0)
		return;
	snprintf(gpu->said, sizeof(gpu->said), "%s", gpu->run.output);
	log_warning("mps.failed", "uuid=%s command=%s status=%d reason=%s", uuid_of(gpu), name,
		    gpu->run.status, log_text(gpu->said).text);
}

/* ---- what is due --------------------------------------------------------------------------- */

void mps_gpu_did(struct mps_gpu *gpu, bool well)
{
	enum mps_command command = gpu->machine.runs;

	if (!well)
		say_failure(gpu, command);
	mps_did(&gpu->machine, well, loop_now_ns());
	if (well && command == MPS_START)
		log_info("mps.started", "uuid=%s", uuid_of(gpu));
	if (well && command == MPS_UNMODE) {
		log_info("mps.undone", "uuid=%s", uuid_of(gpu));
		mps_read_given(gpu->hub);
		mps_gpu_want(gpu); /* perhaps below another root */
		serve_changed(gpu->hub->plugin);
		return;
	}
	mps_gpu_pump(gpu);
}

void mps_gpu_pump(struct mps_gpu *gpu)
{
	uint64_t now = loop_now_ns(), due;
	enum mps_command command;

	if (gpu->hub->closed)
		return;
	say(gpu);
	/* A former meted's daemon, with clients. */
	if (gpu->keeps && !gpu->machine.wanted) {
		loop_disarm(&gpu->timer);
		return;
	}
	command = mps_next(&gpu->machine, now);
	if (command != MPS_NOTHING) {
		mps_gpu_begin(gpu, command); /* it may have ended already, and others begun */
		return;
	}
	due = mps_deadline(&gpu->machine);
	if (due == UINT64_MAX)
		loop_disarm(&gpu->timer);
	else
		loop_arm(&gpu->timer, due > now ? due - now : 0);
}
