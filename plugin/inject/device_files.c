/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's device files may appear after meted starts: /dev/nvidia-uvm is created when the
 * first program asks for CUDA, and a reloaded driver creates all of them again. The edits for
 * containers are then updated at once, also those of bound containers, which may be restarted.
 */
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>

#include "plugin/dra/dra.h"
#include "plugin/plugin.h"
#include "plugin/slots.h"

enum {
	EVENTS = IN_CREATE | IN_DELETE | IN_MOVED_TO,
	NAMES = 200, /* of the files, in a line of the log */
};

static void watch_folder(const struct plugin *p, const char *root, const char *folder)
{
	char path[PLUGIN_PATH];

	snprintf(path, sizeof(path), "%s%s", strcmp(root, "/") == 0 ? "" : root, folder);
	/* A file that is missing, now or for ever, is not watched; one that is watched already
	 * stays so. */
	best_effort(notices_add(&p->device_files.notices, path, EVENTS));
}

static void watch_folders(const struct plugin *p)
{
	watch_folder(p, p->config->driver_root, "/dev");
	watch_folder(p, p->config->driver_root, "/dev/nvidia-caps");
	watch_folder(p, "/", "/dev");
	watch_folder(p, "/", "/dev/nvidia-caps");
}

/* All that would be told of by the driver's files. */
static uint64_t stamp_folders(const struct plugin *p)
{
	char path[PLUGIN_PATH + 32];
	uint64_t stamp = notices_stamp(HASH_BEGIN, "/dev");

	stamp = notices_stamp(stamp, "/dev/nvidia-caps");
	if (strcmp(p->config->driver_root, "/") == 0)
		return stamp;
	snprintf(path, sizeof(path), "%s/dev", p->config->driver_root);
	stamp = notices_stamp(stamp, path);
	snprintf(path, sizeof(path), "%s/dev/nvidia-caps", p->config->driver_root);
	return notices_stamp(stamp, path);
}

/* Reads the names of the driver's files that have changed. */
static bool read_names(int inotify, char ret_names[NAMES])
{
	char buffer[4096] __attribute__((aligned(8)));
	size_t used = 0;
	bool any = false;
	ssize_t n;

	ret_names[0] = '\0';
	while ((n = read(inotify, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct inotify_event *event = (const void *)(buffer + at);

			at += (ssize_t)(sizeof(*event) + event->len);
			/* After an overflow any of them may have changed. */
			any |= (event->mask & IN_Q_OVERFLOW) != 0;
			if (!event->len || strncmp(event->name, "nvidia", 6) != 0)
				continue;
			any = true;
			if (used < NAMES)
				used += (size_t)snprintf(ret_names + used, NAMES - used, "%s%s",
							 used ? "," : "", event->name);
		}
	}
	return any;
}

static void on_events(struct loop_watch *watch, int events)
{
	struct device_files *files = container_of(watch, struct device_files, watch);
	struct plugin *p = container_of(files, struct plugin, device_files);
	char names[NAMES];
	struct fault why;

	(void)events;
	names[0] = '\0';
	if (!(files->notices.polled ? notices_ticked(&files->notices, stamp_folders(p))
				    : read_names(files->notices.fd, names)) ||
	    !p->settled)
		return;
	watch_folders(p);
	if (plugin_look(p, &why) < 0) {
		log_warning("devices.unseen", "files=%s reason=%s", names, log_text(why.text).text);
		return;
	}
	slots_refresh(p);
	dra_refresh(p->dra);
	log_info("devices.changed", "files=%s nodes=%u containers=%u", names, p->edits->nodes,
		 p->bindings.count);
}

int device_files_open(struct plugin *p, struct fault *why)
{
	struct device_files *files = &p->device_files;
	int r = 0;

	if (!files->watch.open) {
		r = notices_open(&files->notices);
		if (r == 0)
			r = loop_watch(p->host->loop, &files->watch, files->notices.fd, LOOP_READ,
				       on_events);
		if (r < 0 && files->notices.fd >= 0)
			close(take_fd(&files->notices.fd));
	}
	if (r < 0)
		return fault_set(why, r, "cannot create an inotify instance: %s", strerror(-r));
	watch_folders(p);
	return 0;
}
