/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file_watch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

enum { EVENTS = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE };

/* A file that was created is not written yet; a folder is all that it will be. */
static bool any_matters(const char *events, size_t size)
{
	const struct inotify_event *event;

	for (size_t at = 0; at < size; at += sizeof(*event) + event->len) {
		event = (const struct inotify_event *)(const void *)(events + at);
		if (!(event->mask & IN_CREATE) || event->mask & IN_ISDIR)
			return true;
	}
	return false;
}

static void on_events(struct loop_watch *watch, int events)
{
	struct file_watch *w = container_of(watch, struct file_watch, watch);
	char buffer[4096] __attribute__((aligned(8)));
	bool matters = false;
	ssize_t n;

	(void)events;
	if (w->notices.polled) {
		if (notices_ticked(&w->notices, notices_stamp(HASH_BEGIN, w->path)))
			w->changed(w);
		return;
	}
	while ((n = read(w->notices.fd, buffer, sizeof(buffer))) > 0)
		matters |= any_matters(buffer, (size_t)n);
	if (matters)
		w->changed(w);
}

static void let_go(struct file_watch *watch)
{
	close(take_fd(&watch->notices.fd));
	free(take(watch->path));
}

int file_watch_open(struct loop *loop, struct file_watch *watch, const char *path,
		    void (*changed)(struct file_watch *watch), struct fault *why)
{
	char folder[PATH_MAX];
	char *slash;
	int r;

	if (snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder))
		return fault_set(why, -ENAMETOOLONG, "%.40s...: path too long", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	watch->changed = changed;
	r = notices_open(&watch->notices);
	if (r < 0)
		return fault_set(why, r, "cannot create an inotify instance: %s", strerror(-r));
	watch->path = strdup(path);
	r = watch->path ? notices_add(&watch->notices, slash ? folder : ".", EVENTS) : -ENOMEM;
	if (r == 0)
		r = loop_watch(loop, &watch->watch, watch->notices.fd, LOOP_READ, on_events);
	if (r < 0)
		let_go(watch);
	return r < 0 ? fault_set(why, r, "%s: %s", folder, strerror(-r)) : 0;
}

static void on_closed(struct loop_watch *watch)
{
	struct file_watch *w = container_of(watch, struct file_watch, watch);

	let_go(w);
	w->closed(w);
}

bool file_watch_close(struct file_watch *watch, void (*closed)(struct file_watch *watch))
{
	if (!watch->watch.open)
		return false;
	watch->closed = closed;
	loop_unwatch(&watch->watch, on_closed);
	return true;
}
