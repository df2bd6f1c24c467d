/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/faults.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/segment.h"

/* How often the control file is checked, on the host's clock. */
#define FAULTS_CHECK_NS 10000000

enum { FAULTS_FILE_BYTES = 4096 };

struct faults_source {
	struct faults_row rows[FAULTS_MAX];
	size_t count;
	uint64_t seen[FAULTS_POINTS][SETTINGS_DEVICES_MAX + 1]; /* the last: of no device */
	uint64_t seen_any[FAULTS_POINTS];
};

/* Of this process: the wanted faults, and how often each point was reached. */
static struct {
	pthread_mutex_t mutex;
	_Atomic uint32_t state; /* FAULTS_UNREAD ... */
	_Atomic uint64_t next_check_ns;
	struct timespec changed;
	off_t size;
	bool handles_fork;
	struct faults_source environment, file;
} faults = {.mutex = PTHREAD_MUTEX_INITIALIZER};

enum {
	FAULTS_UNREAD,
	FAULTS_QUIET, /* no faults are wanted, as far as is known */
	FAULTS_WANTED,
};

/* ---- where they come from ------------------------------------------------------------------ */

static void complain(const char *where, const struct fault *why)
{
	char text[768];
	int n = snprintf(text, sizeof(text), "mete-sim: %s: %s\n", where, why->text);

	best_effort(write(STDERR_FILENO, text,
			  (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1));
}

static void take_text(struct faults_source *source, const char *where, const char *text)
{
	struct fault why;

	memset(source, 0, sizeof(*source));
	if (faults_parse(text, source->rows, &source->count, &why) < 0)
		complain(where, &why);
}

/* Reads the control file if it has changed. Counting then starts anew. */
static void reread_file(void)
{
	char path[SETTINGS_PATH_MAX + 16], text[FAULTS_FILE_BYTES];
	struct stat status;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/faults", segment_folder());
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &status) < 0) {
		faults.file.count = 0;
		faults.size = -1;
		return;
	}
	if (status.st_size == faults.size && status.st_mtim.tv_sec == faults.changed.tv_sec &&
	    status.st_mtim.tv_nsec == faults.changed.tv_nsec)
		return;
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return;
	text[n] = 0;
	faults.size = status.st_size;
	faults.changed = status.st_mtim;
	take_text(&faults.file, path, text);
}

static uint64_t host_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- what goes wrong ----------------------------------------------------------------------- */

static enum faults_kind effect(const struct faults_row *row, int device, uint64_t *slow_ns)
{
	if (device < 0 && row->kind != FAULTS_SLOW && row->kind != FAULTS_OUT_OF_MEMORY &&
	    row->kind != FAULTS_DIE)
		return FAULTS_NONE;
	switch (row->kind) {
	case FAULTS_SLOW:
		*slow_ns += row->value;
		return FAULTS_NONE;
	case FAULTS_XID:
		device_xid(device, row->value);
		return FAULTS_NONE;
	case FAULTS_ECC_CORRECTED:
		device_ecc_error(device, true);
		return FAULTS_NONE;
	case FAULTS_ECC:
		device_ecc_error(device, false);
		return row->kind;
	case FAULTS_LOST:
		device_lose(device);
		return row->kind;
	case FAULTS_DIE:
		raise(SIGKILL);
		return row->kind;
	case FAULTS_NONE:
	case FAULTS_OUT_OF_MEMORY:
	case FAULTS_LAUNCH_FAILED:
	case FAULTS_ILLEGAL_ADDRESS:
	case FAULTS_HANG:
	case FAULTS_IN_USE:
	case FAULTS_NO_ROOM:
	case FAULTS_UNKNOWN:
	case FAULTS_STALL:
	case FAULTS_ELSEWHERE:
		return row->kind;
	}
	return FAULTS_NONE;
}

/* Returns the first fault that fails the call; the others happen as well. */
static enum faults_kind apply(struct faults_source *source, enum faults_point point, int device,
			      uint64_t *slow_ns)
{
	enum faults_kind felt = FAULTS_NONE, kind;
	uint64_t times, times_any;
	int pid = getpid(), place = device < 0 ? -1 : (int)device_place(device);

	times = ++source->seen[point][device < 0 ? SETTINGS_DEVICES_MAX : device];
	times_any = ++source->seen_any[point];
	for (size_t i = 0; i < source->count; i++) {
		const struct faults_row *row = &source->rows[i];
		uint64_t count = row->device < 0 ? times_any : times;

		if (row->point != point || (row->device >= 0 && row->device != place) ||
		    (row->pid && row->pid != pid) || count < row->first || count > row->last)
			continue;
		kind = effect(row, device, slow_ns);
		if (felt == FAULTS_NONE)
			felt = kind;
	}
	return felt;
}

/* The child counts anew, and none of its threads holds the mutex. */
static void after_fork_in_child(void)
{
	pthread_mutex_init(&faults.mutex, NULL);
	atomic_store(&faults.state, FAULTS_UNREAD);
	atomic_store(&faults.next_check_ns, 0);
}

/* `now`: whatever the time of the last check was. */
static void read_sources(bool now)
{
	if (atomic_load(&faults.state) == FAULTS_UNREAD) {
		const char *text = getenv("METE_SIM_FAULTS");

		if (!faults.handles_fork)
			pthread_atfork(NULL, NULL, after_fork_in_child);
		faults.handles_fork = true;
		faults.size = -1;
		take_text(&faults.environment, "METE_SIM_FAULTS", text ? text : "");
	}
	if (now || host_ns() >= atomic_load(&faults.next_check_ns)) {
		reread_file();
		atomic_store(&faults.next_check_ns, host_ns() + FAULTS_CHECK_NS);
	}
	atomic_store(&faults.state,
		     faults.environment.count || faults.file.count ? FAULTS_WANTED : FAULTS_QUIET);
}

static bool stalls(const struct faults_source *source, enum faults_point point)
{
	for (size_t i = 0; i < source->count; i++)
		if (source->rows[i].point == point && source->rows[i].kind == FAULTS_STALL)
			return true;
	return false;
}

/* Until the control file says nothing of it any more: for ever, if the environment does. */
static void stall(enum faults_point point)
{
	const struct timespec pause = {0, FAULTS_CHECK_NS};
	bool on = true;

	while (on) {
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&faults.mutex);
		read_sources(true);
		on = stalls(&faults.environment, point) || stalls(&faults.file, point);
		pthread_mutex_unlock(&faults.mutex);
	}
}

enum faults_kind faults_at(enum faults_point point, int device)
{
	enum faults_kind felt, other;
	/* Changes by MIG are rare: none comes between a fault and its being known. */
	bool rare = point >= FAULTS_DIVISION;
	uint64_t slow_ns = 0;

	if (!rare &&
	    likely(atomic_load_explicit(&faults.state, memory_order_acquire) == FAULTS_QUIET) &&
	    host_ns() < atomic_load_explicit(&faults.next_check_ns, memory_order_relaxed))
		return FAULTS_NONE;
	if (!segment_self())
		return FAULTS_NONE;
	pthread_mutex_lock(&faults.mutex);
	read_sources(rare);
	felt = apply(&faults.environment, point, device, &slow_ns);
	other = apply(&faults.file, point, device, &slow_ns);
	pthread_mutex_unlock(&faults.mutex);
	if (slow_ns)
		clock_spend(slow_ns);
	felt = felt != FAULTS_NONE ? felt : other;
	if (felt != FAULTS_STALL)
		return felt;
	stall(point);
	return FAULTS_NONE;
}
