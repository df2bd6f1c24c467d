/* SPDX-License-Identifier: Apache-2.0 */
/* meted: owns the GPUs of a node. See node/daemon.h for its parts. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/held.h"
#include "base/least.h"
#include "base/process_look.h"
#include "node/again.h"
#include "node/daemon.h"
#include "node/devices/boards.h"
#include "node/devices/divided.h"
#include "node/devices/mark.h"
#include "node/devices/nvml.h"
#include "node/devices/reserve.h"
#include "node/events.h"
#include "node/kubernetes.h"
#include "node/memory/book.h"
#include "node/memory/measure.h"
#include "node/memory/native.h"
#include "node/memory/outside.h"
#include "node/memory/watch.h"
#include "node/missing.h"
#include "node/move/move.h"
#include "node/notify.h"
#include "node/options.h"
#include "node/place_lock.h"
#include "node/shown.h"
#include "node/standby.h"
#include "node/stop.h"
#include "node/peers/admin_accept.h"
#include "node/peers/door.h"
#include "node/peers/flow.h"
#include "node/state/events_file.h"
#include "node/state/restore.h"
#include "node/time/gate.h"
#include "node/time/lost.h"
#include "node/time/schedule.h"
#include "node/users/user.h"
#include "node/waits.h"

enum {
	FILES_FROM_START = 4096,
	LOG_BURST = 100,
	LOG_PER_SECOND = 5,
	LOG_MOST_BYTES = 1 << 20,
	ACCEPTS = 32, /* connections in a round of the loop */
};

static int lock(struct daemon *d, struct fault *why)
{
	int r;

	d->lock_fd = place_lock_open(d->place, why);
	if (d->lock_fd < 0)
		return d->lock_fd;
	r = place_lock_take(d->lock_fd);
	if (r == -EBUSY && d->options.stand_by)
		return standby_wait(d, why);
	if (r == -EBUSY)
		return fault_set(
			why, r, "%s: another meted is running there%s", d->place,
			d->options.system || d->options.dir
				? ""
				: ": if `mete run` has started it, it ends with its last "
				  "tenant (`mete ps`), and yours can start before the next");
	return r < 0 ? fault_set(why, r, "%s: the lock: %s", d->place, strerror(-r)) : 0;
}

/* Also detects a system daemon that the user may not connect to. */
static int beside_system(struct fault *why)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX,
				      .sun_path = PLACE_SYSTEM "/admin.sock"};
	owned(close) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
	    (errno != EACCES || held_file(PLACE_SYSTEM "/lock") != 1) && errno != EAGAIN)
		return 0;
	return fault_set(why, -EBUSY,
			 "the system's meted is running on this machine (%s): a user's own "
			 "would promise the same memory twice",
			 PLACE_SYSTEM);
}

static int make_place(struct daemon *d, struct fault *why)
{
	unsigned mode = d->options.system ? PLACE_PASSAGE : PLACE_PRIVATE;
	char tenants[PLACE_MAX + 16];
	int r;

	if (d->options.dir && strlen(d->options.dir) >= PLACE_MAX)
		return fault_set(why, -ENAMETOOLONG, "--dir: at most %d bytes", PLACE_MAX - 1);
	if (d->options.dir)
		snprintf(d->place, sizeof(d->place), "%s", d->options.dir);
	else if (d->options.system)
		snprintf(d->place, sizeof(d->place), "%s", PLACE_SYSTEM);
	else if ((r = place_user(d->place, why)) < 0)
		return r;
	r = place_make(d->place, mode, why);
	if (r < 0)
		return r;
	snprintf(tenants, sizeof(tenants), "%s/tenants", d->place);
	return place_make(tenants, mode, why);
}

static int open_devices(struct daemon *d, struct fault *why)
{
	int r = nvml_open(d->options.driver, &d->nvml, why);

	d->missing.no_driver = r < 0;
	/* On a Kubernetes node without GPUs yet, meted waits for them. */
	if (r == 0 && d->options.kubernetes && missing_is(d->nvml))
		r = fault_set(why, -ENODEV, "the driver shows no GPU");
	if (r < 0)
		return r;
	d->devices = nvml_count(d->nvml);
	if (d->devices > DAEMON_DEVICES)
		d->devices = DAEMON_DEVICES;
	d->present = d->devices;
	d->places = divided_may_be(d) ? DAEMON_DEVICES : d->devices;
	for (uint32_t i = 0; i < d->devices; i++)
		divided_found(d, i);
	return 0;
}

static int open_devices_or_wait(struct daemon *d, struct fault *why)
{
	int r = open_devices(d, why);

	if (r == 0 || !d->options.kubernetes)
		return r;
	d->missing.why = strdup(why->text);
	return d->missing.why ? 0 : fault_set(why, -ENOMEM, "out of memory");
}

static void on_admin(struct loop_watch *watch, int events)
{
	(void)events;
	struct daemon *d = container_of(watch, struct daemon, admins.listener);

	/* Others wait behind a user that opens thousands of connections: accept or refuse those
	 * quickly. */
	for (int i = 0; i < ACCEPTS && admin_accept(d); i++) {
	}
}

static void on_admin_pause_over(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, admins.pause);

	loop_rewatch(&d->admins.listener, LOOP_READ);
}

static int listen_admin(struct daemon *d, struct fault *why)
{
	char path[PLACE_MAX + 16];
	int r;

	snprintf(path, sizeof(path), "%s/admin.sock", d->place);
	/* The system's daemon identifies its callers by their credentials. */
	r = door_listen(path, d->options.system ? 0666 : 0600, geteuid(), &d->admins.fd, why);
	if (r < 0)
		return r;
	r = loop_timer_init(&d->loop, &d->admins.pause, on_admin_pause_over);
	if (r == 0)
		r = loop_watch(&d->loop, &d->admins.listener, d->admins.fd, LOOP_READ, on_admin);
	return r < 0 ? fault_set(why, r, "%s: %s", path, uv_strerror(r)) : 0;
}

static void on_terminate(struct loop_signal *signal)
{
	struct daemon *d = container_of(signal, struct daemon, terminate);

	log_info("daemon.signal", "signal=TERM");
	d->missing.again = false;    /* a meted that is told to end has no successor */
	d->stopping |= d->stands_by; /* standby_wait() ends, even if the lock comes meanwhile */
	if (!standby_precede(d))
		loop_stop(&d->loop);
}

static void on_interrupt(struct loop_signal *signal)
{
	struct daemon *d = container_of(signal, struct daemon, interrupt);

	log_info("daemon.signal", "signal=INT");
	d->missing.again = false;
	d->stopping |= d->stands_by;
	loop_stop(&d->loop);
}

static void on_watchdog(struct loop_timer *timer)
{
	notify_send("WATCHDOG=1");
	loop_arm(timer, notify_watchdog_ns());
}

static int start_signals(struct daemon *d, struct fault *why)
{
	int r = loop_signal(&d->loop, &d->terminate, SIGTERM, on_terminate);

	if (r == 0)
		r = loop_signal(&d->loop, &d->interrupt, SIGINT, on_interrupt);
	if (r == 0)
		r = loop_timer_init(&d->loop, &d->watchdog, on_watchdog);
	if (r < 0)
		return fault_set(why, r, "cannot receive signals: %s", uv_strerror(r));
	if (notify_watchdog_ns())
		loop_arm(&d->watchdog, notify_watchdog_ns());
	again_listen_to_ends();
	return 0;
}

/* A table of descriptors that grows while a process has threads waits for all processors to have
 * passed by (expand_fdtable() of Linux): 10 ms and more, each time that it doubles, in which nobody
 * is served. So it grows now. */
static void make_room_for_files(const struct rlimit *files)
{
	owned(close) int fd = eventfd(0, EFD_CLOEXEC);
	owned(close) int last =
		fcntl(fd, F_DUPFD_CLOEXEC, (int)least(files->rlim_cur, FILES_FROM_START) - 1);

	(void)last;
}

/* A guest needs three descriptors. */
static void raise_limits(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		return;
	files.rlim_cur = files.rlim_max;
	best_effort(setrlimit(RLIMIT_NOFILE, &files));
	make_room_for_files(&files);
}

static void draw_generation(struct daemon *d)
{
	const char *dilation = getenv("METE_SIM_DILATE");

	d->clock_dilation = dilation ? (uint32_t)strtoul(dilation, NULL, 10) : 1;
	if (!d->clock_dilation)
		d->clock_dilation = 1;
	if (getrandom(&d->generation, sizeof(d->generation), GRND_NONBLOCK) < 0)
		d->generation = loop_now_ns();
}

/* Takes the folder, which no other meted may have. A user's meted must not be beside the
 * system's. */
static int take_place(struct daemon *d, struct fault *why)
{
	int r = make_place(d, why);

	if (r == 0)
		r = lock(d, why);
	if (r < 0)
		return r;
	snprintf(d->log_path, sizeof(d->log_path), "%s/meted.log", d->place);
	log_rotate(d->log_path, LOG_MOST_BYTES);
	return d->options.system ? 0 : beside_system(why);
}

static int open_flows(struct daemon *d)
{
	door_open_files(d);
	flow_init_last(&d->admins.flow, &d->flows);
	return flows_open(&d->flows, &d->loop, DAEMON_TENANTS + DAEMON_USERS);
}

static int open_events(struct daemon *d)
{
	events_file_open(d);
	return 0;
}

static int open_kubernetes(struct daemon *d, struct fault *why)
{
	return kubernetes_open(d, &d->kubernetes, why);
}

static int open_shown(struct daemon *d, struct fault *why)
{
	return shown_open(d, &d->shown, why);
}

/* In this order: lower parts come first. Those with `start` set the reason of a failure
 * themselves. */
static const struct part {
	const char *name;
	int (*open)(struct daemon *d);
	int (*start)(struct daemon *d, struct fault *why);
} parts[] = {
	{"the tenants' queues", open_flows, NULL},
	{"the book of memory", book_open, NULL},
	{"the gates", gates_open, NULL},
	{"the turns", schedule_open, NULL},
	{"the time that is lost", lost_open, NULL},
	{"the watch on long waits", waits_open, NULL},
	{"the measurements", measure_open, NULL},
	{"the figures of what is outside", outside_open, NULL},
	{"the watch on quiet guests", watch_open, NULL},
	{"the driver's own limits", native_open, NULL},
	{"the store of memory that moves", move_open, NULL},
	{"the users", NULL, user_open},
	{"the reservations", reserve_open, NULL},
	{"the devices' marks", mark_open, NULL},
	{"the watch on MIG", divided_open, NULL},
	{"the figures of boards", boards_open, NULL},
	{"the events", open_events, NULL},
	{"the journal", NULL, restore_open},
	{"the admin socket", NULL, listen_admin},
	{"Kubernetes' part", NULL, open_kubernetes},
	{"the page", NULL, open_shown},
};

static int open_part(struct daemon *d, const struct part *part, struct fault *why)
{
	int r = part->start ? part->start(d, why) : part->open(d);

	return r < 0 && !part->start
		       ? fault_set(why, r, "cannot open %s: %s", part->name, uv_strerror(r))
		       : r;
}

static int start(struct daemon *d, struct fault *why)
{
	/* A meted that stands by may wait for days, and may be told to end meanwhile. */
	int r = d->options.stand_by ? start_signals(d, why) : 0;

	d->looks = looks_new();
	if (r == 0 && !d->looks)
		r = fault_set(why, -ENOMEM, "out of memory");
	if (r == 0)
		r = take_place(d, why);
	if (r == 0)
		r = open_devices_or_wait(d, why);
	if (r == 0 && !d->options.stand_by)
		r = start_signals(d, why);
	if (d->missing.why)
		return r < 0 ? r : missing_open(d, why);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		r = open_part(d, &parts[i], why);
	return r;
}

/* The exit status of what only prints. */
static int printed(void)
{
	if (fflush(stdout) == 0)
		return 0;
	fprintf(stderr, "meted: its output cannot be written: %s\n", strerror(errno));
	return 1;
}

/* What the process is, whatever it serves. */
static void set_process(const struct options *options)
{
	log_set_level(options->log_level);
	log_limit(LOG_BURST, LOG_PER_SECOND);
	umask(0077);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* treat a file-size limit like a full disk */
	/* One thread for the driver, which may not answer, and one for the rest. A page asks it
	 * for other figures beside. */
	setenv("UV_THREADPOOL_SIZE", options->page ? "3" : "2", 0);
	/* They allocate little: an arena for each would keep a hundred KiB. */
	mallopt(M_ARENA_MAX, 1);
	raise_limits();
}

/* Nothing is open, and nobody is there. */
static void begin_empty(struct daemon *d)
{
	d->lock_fd = d->admins.fd = d->door.spare_fd = d->restore.journal.fd = -1;
	list_init(&d->tenants.all);
	list_init(&d->restore.absent);
	for (size_t i = 0; i < ARRAY_SIZE(d->tenants.by_id); i++)
		list_init(&d->tenants.by_id[i]);
	for (size_t i = 0; i < ARRAY_SIZE(d->tenants.guests); i++)
		list_init(&d->tenants.guests[i]);
	list_init(&d->admins.all);
	draw_generation(d);
}

/* Until it is told to end. */
static int serve(struct daemon *d)
{
	struct fault why;
	int r = start(d, &why);

	if (r < 0) {
		log_error("daemon.failed", "reason=%s", log_text(why.text).text);
		return r;
	}
	log_info("daemon.ready", "version=%s pid=%d dir=%s devices=%u", METE_VERSION, (int)getpid(),
		 d->place, d->devices);
	again_listen();
	events_began(d);
	notify_send("READY=1");
	loop_run(&d->loop);
	return 0;
}

int main(int argc, char **argv)
{
	/* All zero, so that places for more devices take no memory. */
	static struct daemon daemon;
	struct fault why;
	int r = options_parse(argc, argv, &daemon.options, &why);

	if (r < 0) {
		fprintf(stderr, "meted: %s\n", why.text);
		return 2;
	}
	if (daemon.options.help) {
		options_help(stdout);
		return printed();
	}
	if (daemon.options.version) {
		puts("meted " METE_VERSION);
		return printed();
	}
	set_process(&daemon.options);
	begin_empty(&daemon);
	r = loop_init(&daemon.loop);
	if (r < 0) {
		fprintf(stderr, "meted: cannot create an event loop: %s\n", uv_strerror(r));
		return 1;
	}
	r = serve(&daemon);
	if (daemon.missing.again)
		again_hold(&daemon);
	daemon_stop(&daemon);
	looks_free(daemon.looks);
	if (r == 0 && daemon.missing.again) {
		r = again_begin(argv);
		log_error("daemon.failed", "reason=%s", log_text(strerror(-r)).text);
	}
	return r < 0 ? 1 : 0;
}
