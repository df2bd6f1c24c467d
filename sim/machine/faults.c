/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/faults.h"

#include <ctype.h>
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

static const struct {
	const char *name;
	enum faults_kind kind;
	enum faults_point point;
	bool value;
} faults_kinds[] = {
	{"oom", FAULTS_OUT_OF_MEMORY, FAULTS_ALLOCATION, false},
	{"launch", FAULTS_LAUNCH_FAILED, FAULTS_KERNEL, false},
	{"illegal", FAULTS_ILLEGAL_ADDRESS, FAULTS_KERNEL, false},
	{"ecc", FAULTS_ECC, FAULTS_KERNEL, false},
	{"ecc-corrected", FAULTS_ECC_CORRECTED, FAULTS_KERNEL, false},
	{"xid", FAULTS_XID, FAULTS_KERNEL, true},
	{"hang", FAULTS_HANG, FAULTS_KERNEL, false},
	{"lost", FAULTS_LOST, FAULTS_KERNEL, false},
	{"slow", FAULTS_SLOW, FAULTS_CALL, true},
	{"die", FAULTS_DIE, FAULTS_DIVISION, false},
};

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

/* ---- the language -------------------------------------------------------------------------- */

static int refuse(struct fault *why, const char *word, size_t length, const char *problem)
{
	return fault_set(
		why, -EINVAL,
		"fault '%.*s': %s; wants KIND[=VALUE][@N[+]][:DEVICE][/PID] with KIND oom, "
		"launch, illegal, ecc, ecc-corrected, xid, hang, lost, slow "
		"or die",
		(int)(length > 60 ? 60 : length), word, problem);
}

static int parse_number(const char **at, const char *end, uint64_t *ret_value)
{
	uint64_t value = 0;
	const char *start = *at;

	while (*at < end && isdigit((unsigned char)**at)) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(**at - '0'), &value))
			return -EINVAL;
		(*at)++;
	}
	*ret_value = value;
	return *at == start ? -EINVAL : 0;
}

static int parse_value(const char **at, const char *end, enum faults_kind kind, uint64_t *ret_value)
{
	char text[32];
	size_t length = 0;

	if (kind == FAULTS_XID)
		return parse_number(at, end, ret_value);
	while (*at < end && !strchr("@:/", **at) && length < sizeof(text) - 1)
		text[length++] = *(*at)++;
	text[length] = 0;
	return settings_parse_time(text, ret_value);
}

/* What follows the kind: "@3+", ":1", "/1234", in any order. */
static const char *parse_when(const char **at, const char *end, struct faults_row *row)
{
	char sign = *(*at)++;
	uint64_t value;

	if (parse_number(at, end, &value) < 0)
		return "no number where one is due";
	switch (sign) {
	case '@':
		if (!value)
			return "times count from 1";
		row->first = row->last = value;
		if (*at < end && **at == '+') {
			row->last = UINT64_MAX;
			(*at)++;
		}
		return NULL;
	case ':':
		if (value >= SETTINGS_DEVICES_MAX)
			return "no such device";
		row->device = (int)value;
		return NULL;
	case '/':
		if (!value || value > INT32_MAX)
			return "no such pid";
		row->pid = (int)value;
		return NULL;
	default:
		return "something behind it that is not understood";
	}
}

static int parse_row(const char *word, size_t length, struct faults_row *ret_row, struct fault *why)
{
	struct faults_row row = {.first = 1, .last = UINT64_MAX, .device = -1};
	const char *at = word, *end = word + length, *problem;
	size_t i, name;

	while (at < end && (islower((unsigned char)*at) || *at == '-'))
		at++;
	name = (size_t)(at - word);
	for (i = 0; i < ARRAY_SIZE(faults_kinds); i++)
		if (strlen(faults_kinds[i].name) == name &&
		    memcmp(faults_kinds[i].name, word, name) == 0)
			break;
	if (i == ARRAY_SIZE(faults_kinds))
		return refuse(why, word, length, "unknown kind");
	row.kind = faults_kinds[i].kind;
	if (faults_kinds[i].value) {
		if (at == end || *at++ != '=')
			return refuse(why, word, length, "its value is missing");
		if (parse_value(&at, end, row.kind, &row.value) < 0)
			return refuse(why, word, length, "its value cannot be read");
	}
	while (at < end) {
		problem = parse_when(&at, end, &row);
		if (problem)
			return refuse(why, word, length, problem);
	}
	*ret_row = row;
	return 0;
}

int faults_parse(const char *text, struct faults_row ret_rows[FAULTS_MAX], size_t *ret_count,
		 struct fault *why)
{
	struct faults_row rows[FAULTS_MAX];
	size_t count = 0;
	int r;

	while (*text) {
		size_t length = strcspn(text, ",;#\n \t\r");

		if (*text == '#') {
			text += strcspn(text, "\n");
			continue;
		}
		if (!length) {
			text++;
			continue;
		}
		if (count == FAULTS_MAX)
			return refuse(why, text, length, "too many faults");
		r = parse_row(text, length, &rows[count], why);
		if (r < 0)
			return r;
		count++;
		text += length;
	}
	memcpy(ret_rows, rows, count * sizeof(rows[0]));
	*ret_count = count;
	return 0;
}

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

static enum faults_point point_of(enum faults_kind kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(faults_kinds); i++)
		if (faults_kinds[i].kind == kind)
			return faults_kinds[i].point;
	return FAULTS_POINTS;
}

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

		if (point_of(row->kind) != point || (row->device >= 0 && row->device != place) ||
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

static void read_sources(void)
{
	if (atomic_load(&faults.state) == FAULTS_UNREAD) {
		const char *text = getenv("METE_SIM_FAULTS");

		if (!faults.handles_fork)
			pthread_atfork(NULL, NULL, after_fork_in_child);
		faults.handles_fork = true;
		faults.size = -1;
		take_text(&faults.environment, "METE_SIM_FAULTS", text ? text : "");
	}
	if (host_ns() >= atomic_load(&faults.next_check_ns)) {
		reread_file();
		atomic_store(&faults.next_check_ns, host_ns() + FAULTS_CHECK_NS);
	}
	atomic_store(&faults.state,
		     faults.environment.count || faults.file.count ? FAULTS_WANTED : FAULTS_QUIET);
}

enum faults_kind faults_at(enum faults_point point, int device)
{
	enum faults_kind felt, other;
	uint64_t slow_ns = 0;

	if (likely(atomic_load_explicit(&faults.state, memory_order_acquire) == FAULTS_QUIET) &&
	    host_ns() < atomic_load_explicit(&faults.next_check_ns, memory_order_relaxed))
		return FAULTS_NONE;
	if (!segment_self())
		return FAULTS_NONE;
	pthread_mutex_lock(&faults.mutex);
	read_sources();
	felt = apply(&faults.environment, point, device, &slow_ns);
	other = apply(&faults.file, point, device, &slow_ns);
	pthread_mutex_unlock(&faults.mutex);
	if (slow_ns)
		clock_spend(slow_ns);
	return felt != FAULTS_NONE ? felt : other;
}
