/* SPDX-License-Identifier: Apache-2.0 */
/* One control daemon: when something is due, whether its process lives, and what is logged. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "plugin/mps/inside.h"

enum { PID_MOST = 64 };

/* ---- opening and closing ------------------------------------------------------------------- */

static void on_due(struct loop_timer *timer)
{
	mps_daemon_pump(container_of(timer, struct mps_daemon, timer));
}

int mps_daemon_open(struct mps_daemon *daemon, struct mps_hub *hub, bool marked)
{
	int r;

	daemon->hub = hub;
	daemon->has_folder = marked;
	mps_init(&daemon->machine, marked, loop_now_ns());
	r = loop_timer_init(hub->plugin->host->loop, &daemon->timer, on_due);
	if (r == 0)
		hub->handles++;
	return r;
}

static void on_timer_closed(struct loop_timer *timer)
{
	mps_hub_release(container_of(timer, struct mps_daemon, timer)->hub);
}

void mps_daemon_place(struct mps_daemon *daemon, const char *root)
{
	if (*daemon->folder && strcmp(daemon->root, root) == 0)
		return; /* a thread may be reading it */
	snprintf(daemon->root, sizeof(daemon->root), "%.190s", root);
	snprintf(daemon->folder, sizeof(daemon->folder), "%.190s/%.47s", root,
		 daemon->uses->in_gpus_folder ? daemon->uuid : daemon->name);
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

static void unwatch(struct mps_daemon *daemon)
{
	struct mps_watch *watch = take(daemon->watch);

	if (!watch)
		return;
	watch->daemon = NULL;
	loop_unwatch(&watch->watch, on_watch_closed);
}

void mps_daemon_close(struct mps_daemon *daemon, void (*closed)(struct loop_timer *timer))
{
	unwatch(daemon);
	if (daemon->timer.open)
		loop_timer_close(&daemon->timer, closed ? closed : on_timer_closed);
}

static void on_ended(struct loop_watch *loop_watch, unused int events)
{
	struct mps_watch *watch = container_of(loop_watch, struct mps_watch, watch);
	struct mps_daemon *daemon = watch->daemon;

	if (!daemon)
		return;
	unwatch(daemon);
	if (daemon->machine.wanted) {
		log_warning("mps.ended", "uuid=%s daemon=%s", daemon->uuid, daemon->name);
		daemon->uses->ended(daemon);
	}
	mps_gone(&daemon->machine, loop_now_ns());
	mps_daemon_pump(daemon);
}

/* The daemon leaves its pid in its folder. Without it, questions tell whether it lives. */
static void watch_process(struct mps_daemon *daemon)
{
	char path[MPS_PATH + 96];
	owned(free) char *text = NULL;
	owned(close) int file = -1;
	struct mps_watch *watch;
	size_t size;
	int fd;

	snprintf(path, sizeof(path), "%s/pipe/" MPS_PID_FILE, daemon->folder);
	/* Containers can write there. */
	file = mps_folder_open_file(path);
	if (file < 0 || file_slurp_from(file, PID_MOST, &text, &size) < 0 || atoi(text) <= 0)
		return;
	fd = (int)syscall(SYS_pidfd_open, atoi(text), 0);
	if (fd < 0)
		return;
	watch = calloc(1, sizeof(*watch));
	if (watch) {
		*watch = (struct mps_watch){.daemon = daemon, .hub = daemon->hub, .fd = fd};
		if (loop_watch(daemon->hub->plugin->host->loop, &watch->watch, fd, LOOP_READ,
			       on_ended) == 0) {
			daemon->watch = watch;
			daemon->hub->handles++;
			return;
		}
	}
	free(watch);
	close(fd);
}

/* ---- what is logged ------------------------------------------------------------------------ */

static void say(struct mps_daemon *daemon)
{
	bool ready = daemon->machine.ready;

	if (ready == daemon->was_ready)
		return;
	daemon->was_ready = ready;
	daemon->said[0] = '\0';
	log_info(ready ? "mps.ready" : "mps.unready", "uuid=%s root=%s daemon=%s", daemon->uuid,
		 daemon->root, daemon->name);
	if (ready) {
		daemon->has_folder = true;
		if (!daemon->uses->in_gpus_folder)
			watch_process(daemon);
	} else {
		unwatch(daemon);
	}
	daemon->uses->turned(daemon);
}

/* The same sentence once. A question that is not answered is no failure. */
static void say_failure(struct mps_daemon *daemon, enum mps_command command)
{
	static const char *const names[] = {
		[MPS_MODE] = "set-mode", [MPS_START] = "start",	      [MPS_LIMIT] = "limit",
		[MPS_QUIT] = "quit",	 [MPS_UNMODE] = "unset-mode",
	};
	const char *name = command < ARRAY_SIZE(names) ? names[command] : NULL;
	char *output = daemon->run.output;
	size_t length = strlen(output);

	while (length && output[length - 1] == '\n')
		output[--length] = '\0';
	if (!name || strcmp(daemon->said, output) == 0)
		return;
	snprintf(daemon->said, sizeof(daemon->said), "%s", output);
	log_warning("mps.failed", "uuid=%s daemon=%s command=%s status=%d reason=%s", daemon->uuid,
		    daemon->name, name, daemon->run.status, log_text(daemon->said).text);
}

/* ---- what is due --------------------------------------------------------------------------- */

void mps_daemon_did(struct mps_daemon *daemon, bool well)
{
	enum mps_command command = daemon->machine.runs;

	if (!well)
		say_failure(daemon, command);
	mps_did(&daemon->machine, well, loop_now_ns());
	if (well && command == MPS_START)
		log_info("mps.started", "uuid=%s daemon=%s", daemon->uuid, daemon->name);
	if (well && command == MPS_UNMODE) {
		log_info("mps.undone", "uuid=%s daemon=%s", daemon->uuid, daemon->name);
		daemon->uses->undone(daemon);
		return;
	}
	mps_daemon_pump(daemon);
}

void mps_daemon_want(struct mps_daemon *daemon, bool wanted)
{
	mps_want(&daemon->machine, wanted, loop_now_ns());
	mps_daemon_pump(daemon);
}

void mps_daemon_pump(struct mps_daemon *daemon)
{
	uint64_t now = loop_now_ns(), due;
	enum mps_command command;

	if (daemon->hub->closed)
		return;
	say(daemon);
	if (daemon->uses->rests && daemon->uses->rests(daemon)) {
		loop_disarm(&daemon->timer);
		return;
	}
	command = mps_next(&daemon->machine, now);
	if (command != MPS_NOTHING) {
		mps_daemon_begin(daemon, command); /* it may have ended already, and others begun */
		return;
	}
	due = mps_deadline(&daemon->machine);
	if (due == UINT64_MAX)
		loop_disarm(&daemon->timer);
	else
		loop_arm(&daemon->timer, due > now ? due - now : 0);
}
