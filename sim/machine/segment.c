/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/machine/clock.h"
#include "sim/machine/parts.h"
#include "sim/machine/segment_file.h"
#include "sim/machine/segment_mutex.h"
#include "sim/machine/segment_process.h"
#include "sim/machine/share_book.h"

/* The process's view of its node. Fields below `ready` are written before it is set. */
static struct {
	pthread_mutex_t mutex;
	_Atomic bool ready;
	bool said, handles_fork;
	int fd;
	uint32_t slot;
	struct segment *segment;
	struct segment_identity self;
	struct settings settings;
	char folder[SETTINGS_PATH_MAX];
} here = {.mutex = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* ---- slots --------------------------------------------------------------------------------- */

static void lock_node(struct segment *segment)
{
	/* Nothing to mend: a slot counts from the moment that its state is written, and that is a
	 * single store. */
	best_effort(segment_mutex_lock(&segment->mutex));
}

void segment_lock_node(void)
{
	lock_node(here.segment);
}

void segment_unlock_node(void)
{
	segment_mutex_unlock(&here.segment->mutex);
}

static void lower_mark(struct segment_engines *engines)
{
	while (engines->tickets_high && !engines->tickets[engines->tickets_high - 1].id)
		engines->tickets_high--;
}

/* A process that died here may have left a sum half updated, or tickets beyond the mark. */
static void mend_device(struct segment_device *device)
{
	struct segment_engines *engines = &device->engines;
	size_t number = (size_t)(device - here.segment->devices);
	uint64_t used_bytes = share_sum(device);

	for (uint32_t i = 0; i < segment_slots(here.segment); i++)
		if (atomic_load(&here.segment->processes[i].state) == SEGMENT_ALIVE)
			used_bytes += here.segment->processes[i].usage[number].used_bytes;
	device->used_bytes = used_bytes;
	engines->tickets_high = SEGMENT_TICKETS_MAX;
	lower_mark(engines);
	clock_wake(&engines->epoch);
}

void segment_lock(struct segment_device *device)
{
	if (segment_mutex_lock(&device->mutex))
		mend_device(device);
}

void segment_unlock(struct segment_device *device)
{
	segment_mutex_unlock(&device->mutex);
}

void segment_deaf_thread(void)
{
	segment_mutex_deaf_thread();
}

/* Removes a process that is dead, or leaves, from the books. The node's lock is held. If we die
 * half-way, the next process does it again from the start. */
static void bury(struct segment *segment, uint32_t slot)
{
	struct segment_process *process = &segment->processes[slot];

	for (uint32_t i = 0; i < segment_places(segment); i++) {
		struct segment_device *device = &segment->devices[i];
		struct segment_usage *usage = &process->usage[i];
		uint64_t used_bytes;
		bool woken = false;

		segment_lock(device);
		used_bytes = usage->used_bytes;
		usage->used_bytes = 0;
		device->used_bytes -= used_bytes;
		share_bury(device, slot);
		usage->managed_bytes = usage->pushed_bytes = 0;
		usage->contexts = 0;
		for (uint32_t t = 0; t < device->engines.tickets_high; t++) {
			struct segment_ticket *ticket = &device->engines.tickets[t];

			if (ticket->id && ticket->process == slot) {
				ticket->id = 0;
				woken = true;
			}
		}
		lower_mark(&device->engines);
		segment_unlock(device);
		if (woken)
			clock_wake(&device->engines.epoch);
	}
	process->ended_ns = clock_now_ns();
	atomic_store(&process->state, SEGMENT_DEAD);
}

static unsigned reap(struct segment *segment, int fd)
{
	unsigned count = 0;

	/* Asking the system which processes are dead takes long, so it is not done under the lock
	 * that all need. */
	for (uint32_t i = 0; i < segment_slots(segment); i++) {
		struct segment_process *process = &segment->processes[i];
		struct segment_identity identity;
		bool alive;

		if (atomic_load(&process->state) != SEGMENT_ALIVE || i == here.slot)
			continue;
		lock_node(segment);
		identity = (struct segment_identity){process->pid, process->start_ticks,
						     process->namespace_id};
		alive = atomic_load(&process->state) == SEGMENT_ALIVE;
		segment_mutex_unlock(&segment->mutex);
		if (!alive || !segment_process_dead(&identity, here.self.namespace_id, fd, i))
			continue;
		lock_node(segment);
		if (atomic_load(&process->state) == SEGMENT_ALIVE && process->pid == identity.pid &&
		    process->start_ticks == identity.start_ticks &&
		    process->namespace_id == identity.namespace_id) {
			bury(segment, i);
			count++;
		}
		segment_mutex_unlock(&segment->mutex);
	}
	return count;
}

unsigned segment_reap(void)
{
	unsigned count;

	if (!segment_self())
		return 0;
	count = reap(here.segment, here.fd);
	return count + share_reap(here.segment, here.self.namespace_id);
}

/* The slot of the process that has been dead for longest, if many are dead; else an unused one. */
static int32_t slot_to_take(const struct segment *segment)
{
	int32_t oldest = -1, high = (int32_t)segment_slots(segment);
	unsigned dead = 0;

	for (int32_t i = 0; i < high; i++) {
		const struct segment_process *process = &segment->processes[i];
		uint32_t state = atomic_load(&process->state);

		if (state == SEGMENT_FREE)
			return i;
		if (state != SEGMENT_DEAD)
			continue;
		dead++;
		if (oldest < 0 || process->ended_ns < segment->processes[oldest].ended_ns)
			oldest = i;
	}
	if (dead < SEGMENT_DEAD_MAX && high < SEGMENT_PROCESSES_MAX)
		return high;
	return oldest;
}

/* After exec() this process lives on, but its former slot is dead. */
static void bury_earlier_images(struct segment *segment)
{
	for (uint32_t i = 0; i < segment_slots(segment); i++) {
		const struct segment_process *process = &segment->processes[i];

		if (atomic_load(&process->state) == SEGMENT_ALIVE &&
		    process->pid == here.self.pid &&
		    process->start_ticks == here.self.start_ticks &&
		    process->namespace_id == here.self.namespace_id &&
		    process->image != segment_process_image())
			bury(segment, i);
	}
}

static int slot_take(struct segment *segment, int fd, uint32_t *ret_slot)
{
	struct segment_process *process;
	int32_t slot;
	int r = 0;

	here.slot = UINT32_MAX;
	lock_node(segment);
	bury_earlier_images(segment);
	slot = slot_to_take(segment);
	if (slot < 0) {
		segment_mutex_unlock(&segment->mutex);
		if (!reap(segment, fd))
			return -EUSERS;
		lock_node(segment);
		slot = slot_to_take(segment);
	}
	if (slot < 0) {
		r = -EUSERS;
	} else {
		process = &segment->processes[slot];
		r = segment_process_lock(fd, slot);
		if (r == 0) {
			atomic_store(&process->state, SEGMENT_FREE);
			memset((char *)process + sizeof(process->state), 0,
			       sizeof(*process) - sizeof(process->state));
			process->pid = here.self.pid;
			process->start_ticks = here.self.start_ticks;
			process->namespace_id = here.self.namespace_id;
			process->image = segment_process_image();
			process->joined_ns = clock_now_ns();
			snprintf(process->name, sizeof(process->name), "%s",
				 program_invocation_short_name);
			if ((uint32_t)slot >= segment_slots(segment))
				atomic_store(&segment->processes_high, (uint32_t)slot + 1);
			atomic_store(&process->state, SEGMENT_ALIVE);
			*ret_slot = (uint32_t)slot;
		}
	}
	segment_mutex_unlock(&segment->mutex);
	return r;
}

/* ---- joining ------------------------------------------------------------------------------- */

static int refuse(int error, const char *format, ...) printf_like(2, 3);

/* One sentence on stderr, the first time only: programs try again and again. */
static int refuse(int error, const char *format, ...)
{
	char text[640];
	va_list arguments;
	int n;

	if (!here.said) {
		here.said = true;
		n = snprintf(text, sizeof(text), "mete-sim: ");
		va_start(arguments, format);
		n += vsnprintf(text + n, sizeof(text) - (size_t)n - 1, format, arguments);
		va_end(arguments);
		if ((size_t)n > sizeof(text) - 2)
			n = sizeof(text) - 2;
		text[n++] = '\n';
		best_effort(write(STDERR_FILENO, text, (size_t)n));
	}
	return error;
}

/* The folder, and the users that may use its files: the segment is as open as its folder. */
static int open_folder(const char *path, mode_t *ret_mode)
{
	struct stat status;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return refuse(-errno, "cannot make METE_SIM_DIR %s: %s", path, strerror(errno));
	if (stat(path, &status) < 0)
		return refuse(-errno, "cannot use METE_SIM_DIR %s: %s", path, strerror(errno));
	if (!S_ISDIR(status.st_mode))
		return refuse(-ENOTDIR, "cannot use METE_SIM_DIR %s: not a folder", path);
	*ret_mode = status.st_mode & 0666;
	return 0;
}

/* Finds or makes the segment and takes a slot, alone: the lock's file outlives all segments. */
static int enter(const char *folder, mode_t mode, struct settings *settings)
{
	char path[SETTINGS_PATH_MAX + 16];
	owned(close) int lock = -1;
	owned(close) int fd = -1;
	struct segment *segment = NULL;
	struct fault why;
	int r;

	snprintf(path, sizeof(path), "%s/lock", folder);
	/* Another user's file in a sticky folder cannot be opened with O_CREAT. */
	lock = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (lock < 0 && errno == ENOENT)
		lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
	if (lock < 0)
		return refuse(-errno, "cannot open %s: %s", path, strerror(errno));
	best_effort(fchmod(lock, mode));
	do {
		r = flock(lock, LOCK_EX);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return refuse(-errno, "cannot lock %s: %s", path, strerror(errno));
	snprintf(path, sizeof(path), "%s/segment", folder);
	r = segment_find(path, here.self.namespace_id, &fd, &segment);
	if (r == 0) {
		r = settings_adopt(settings, &segment->settings, &why);
		if (r < 0)
			refuse(r, "%s", why.text);
	} else if (r == 1) {
		r = segment_make(path, mode, settings, &fd, &segment);
		if (r == 0)
			parts_show(segment, folder);
	}
	if (r == -EPROTO)
		return refuse(r, "%s is in use by another version of the simulator", path);
	if (r < 0)
		return refuse(r, "cannot make %s: %s", path, strerror(-r));
	clock_set_dilation(settings->dilate);
	here.segment = segment;
	r = slot_take(segment, fd, &here.slot);
	if (r < 0) {
		here.segment = NULL;
		munmap(segment, sizeof(*segment));
		return refuse(r, "%s has no slot left: %d processes use it", path,
			      SEGMENT_PROCESSES_MAX);
	}
	here.fd = take_fd(&fd);
	return 0;
}

static void before_fork(void)
{
	pthread_mutex_lock(&here.mutex);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&here.mutex);
}

/* The child is a process of its own, which has not joined. Its copy of the descriptor would keep
 * its parent's slot locked. */
static void after_fork_in_child(void)
{
	pthread_mutex_init(&here.mutex, NULL);
	if (atomic_load(&here.ready)) {
		atomic_store(&here.ready, false);
		close(here.fd);
		here.fd = -1;
		munmap(here.segment, sizeof(*here.segment));
		here.segment = NULL;
	}
}

static int join_locked(void)
{
	struct settings settings;
	struct fault why;
	mode_t mode = 0;
	int r;

	r = settings_load(&settings, &why);
	if (r == 0)
		r = settings_folder(here.folder, &why);
	if (r < 0)
		return refuse(r, "%s", why.text);
	r = segment_process_self(&here.self);
	if (r < 0)
		return refuse(r, "cannot read /proc/self: %s", strerror(-r));
	r = open_folder(here.folder, &mode);
	if (r < 0)
		return r;
	clock_set_dilation(settings.dilate);
	r = enter(here.folder, mode, &settings);
	if (r < 0)
		return r;
	here.settings = settings;
	if (!here.handles_fork) {
		pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
		here.handles_fork = true;
	}
	atomic_store_explicit(&here.ready, true, memory_order_release);
	return 0;
}

int segment_join(void)
{
	int r = 0;

	if (likely(atomic_load_explicit(&here.ready, memory_order_acquire)))
		return 0;
	pthread_mutex_lock(&here.mutex);
	if (!atomic_load(&here.ready))
		r = join_locked();
	pthread_mutex_unlock(&here.mutex);
	return r;
}

void segment_leave(void)
{
	pthread_mutex_lock(&here.mutex);
	if (atomic_load(&here.ready)) {
		lock_node(here.segment);
		bury(here.segment, here.slot);
		segment_mutex_unlock(&here.segment->mutex);
		atomic_store(&here.ready, false);
		close(here.fd);
		here.fd = -1;
		/* Stays mapped, as another thread may be reading it. */
	}
	pthread_mutex_unlock(&here.mutex);
}

struct segment *segment_get(void)
{
	return segment_self() ? here.segment : NULL;
}

const struct settings *segment_settings(void)
{
	return &here.settings;
}

const char *segment_folder(void)
{
	return here.folder;
}

struct segment_process *segment_self(void)
{
	if (segment_join() < 0)
		return NULL;
	return &here.segment->processes[here.slot];
}

uint32_t segment_number(const struct segment_process *process)
{
	return (uint32_t)(process - here.segment->processes);
}

pid_t segment_pid(const struct segment_process *process)
{
	struct segment_identity identity = {process->pid, process->start_ticks,
					    process->namespace_id};

	return segment_process_pid(&identity, here.self.namespace_id);
}
