/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete pick: free GPUs for a command, by GPUtil's criteria. What GPUtil cannot do is keep two
 * callers apart: here meted, where it runs, hands each GPU to one of them. It answers before the
 * ids are printed, and it forgets when the command has ended, or when the time is over in which
 * somebody who got the ids should have started.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/place.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/pick_choose.h"
#include "cuda/nvml_prototypes.h"

struct wish {
	struct pick_criteria criteria;
	unsigned long attempts;
	double interval_seconds, hold_seconds;
	bool indices;
};

struct choice {
	size_t size;
	const struct pick_gpu *gpu[PICK_GPUS];
};

/* The management library, as the loader or METE_DRIVER finds it; what we ask of it. */
struct nvml {
	void *library;
	__typeof__(&nvmlInit_v2) init;
	__typeof__(&nvmlErrorString) text;
	__typeof__(&nvmlDeviceGetCount_v2) count;
	__typeof__(&nvmlDeviceGetHandleByIndex_v2) handle;
	__typeof__(&nvmlDeviceGetUUID) uuid;
	__typeof__(&nvmlDeviceGetUtilizationRates) rates;
	__typeof__(&nvmlDeviceGetMemoryInfo) memory;
};

static int find_nvml(struct nvml *nvml, struct fault *why)
{
	const char *folder = getenv("METE_DRIVER");
	char path[PATH_MAX];
	nvmlReturn_t status;

	snprintf(path, sizeof(path), "%s%slibnvidia-ml.so.1", folder ? folder : "",
		 folder ? "/" : "");
	nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library) {
		fault_set(why, -ENOENT, "no NVIDIA driver here: %s", dlerror());
		return -ENOENT;
	}
	nvml->init = (__typeof__(nvml->init))dlsym(nvml->library, "nvmlInit_v2");
	nvml->text = (__typeof__(nvml->text))dlsym(nvml->library, "nvmlErrorString");
	nvml->count = (__typeof__(nvml->count))dlsym(nvml->library, "nvmlDeviceGetCount_v2");
	nvml->handle =
		(__typeof__(nvml->handle))dlsym(nvml->library, "nvmlDeviceGetHandleByIndex_v2");
	nvml->uuid = (__typeof__(nvml->uuid))dlsym(nvml->library, "nvmlDeviceGetUUID");
	nvml->rates =
		(__typeof__(nvml->rates))dlsym(nvml->library, "nvmlDeviceGetUtilizationRates");
	nvml->memory = (__typeof__(nvml->memory))dlsym(nvml->library, "nvmlDeviceGetMemoryInfo");
	if (!nvml->init || !nvml->text || !nvml->count || !nvml->handle || !nvml->uuid ||
	    !nvml->memory) {
		fault_set(why, -EINVAL, "%s is too old: functions are missing", path);
		return -EINVAL;
	}
	status = nvml->init();
	if (status != NVML_SUCCESS) {
		fault_set(why, -EIO, "NVML does not start: %s", nvml->text(status));
		return -EIO;
	}
	return 0;
}

/* A GPU that cannot be asked is left out, not fatal: the others may do. */
static int look(const struct nvml *nvml, struct pick_gpu gpus[PICK_GPUS], size_t *ret_size,
		size_t *ret_count, struct fault *why)
{
	unsigned count = 0;
	nvmlReturn_t status = nvml->count(&count);

	if (status != NVML_SUCCESS)
		return fault_set(why, -EIO, "NVML does not count its GPUs: %s", nvml->text(status));
	*ret_count = count;
	*ret_size = 0;
	for (unsigned i = 0; i < count && *ret_size < PICK_GPUS; i++) {
		struct pick_gpu *gpu = &gpus[*ret_size];
		nvmlUtilization_t rates;
		nvmlMemory_t memory;
		nvmlDevice_t device;

		if (nvml->handle(i, &device) != NVML_SUCCESS ||
		    nvml->uuid(device, gpu->uuid, sizeof(gpu->uuid)) != NVML_SUCCESS)
			continue;
		gpu->index = i;
		gpu->load = nvml->rates && nvml->rates(device, &rates) == NVML_SUCCESS
				    ? rates.gpu / 100.0
				    : NAN;
		gpu->memory = nvml->memory(device, &memory) == NVML_SUCCESS && memory.total
				      ? (double)memory.used / (double)memory.total
				      : NAN;
		++*ret_size;
	}
	return 0;
}

static uint64_t random_number(void)
{
	uint64_t number = 0;

	/* Without entropy the order is the index's: still an order. */
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = 0;
	return number;
}

/* 0: ours; 1: somebody else's. */
static int reserve(struct admin *admin, const struct pick_gpu *gpu, double hold_seconds,
		   struct fault *why)
{
	struct wire_message request = {.code = WIRE_device_reserve}, answer;
	int r;

	wire_set_text(&request.device_reserve.device, gpu->uuid);
	request.device_reserve.hold = (uint64_t)(hold_seconds * 1e9);
	r = admin_ask(admin, &request, &answer, why);
	return r == -EPERM ? 1 : r;
}

/* One look: the GPUs that qualify, and of these the ones that nobody else was given. */
static int try_once(const struct nvml *nvml, struct admin *admin, const struct wish *wish,
		    double hold_seconds, struct pick_gpu gpus[PICK_GPUS], struct choice *ret_choice,
		    struct fault *why)
{
	size_t size = 0, count = 0, order[PICK_GPUS], n;
	int r = look(nvml, gpus, &size, &count, why);

	if (r == 0)
		r = pick_check_exclude(wish->criteria.exclude, gpus, size, count, why);
	if (r < 0)
		return r;
	n = pick_choose(gpus, size, &wish->criteria, random_number, order);
	ret_choice->size = 0;
	if (n == 0)
		fault_set(why, -ENODEV, "none of %zu GPUs is as free as asked", size);
	for (size_t i = 0; i < n && ret_choice->size < wish->criteria.limit; i++) {
		r = admin->fd >= 0 ? reserve(admin, &gpus[order[i]], hold_seconds, why) : 0;
		if (r < 0)
			return r;
		if (r == 0)
			ret_choice->gpu[ret_choice->size++] = &gpus[order[i]];
	}
	return 0;
}

static void wait_seconds(double seconds)
{
	struct timespec time = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) == EINTR)
		;
}

static void print_ids(char *text, size_t size, const struct choice *choice, bool indices)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < choice->size && used < size; i++) {
		const char *comma = i ? "," : "";

		used += (size_t)(indices ? snprintf(text + used, size - used, "%s%u", comma,
						    choice->gpu[i]->index)
					 : snprintf(text + used, size - used, "%s%s", comma,
						    choice->gpu[i]->uuid));
	}
}

/* The connection, and with it the reservation, outlives us by becoming a process of its own that
 * ends with the program: the program is then exactly what was asked for, with its own signals and
 * exit status, and holds no descriptor of meted's. */
static int leave_keeper(struct admin *admin, struct fault *why)
{
	owned(close) int program = (int)syscall(SYS_pidfd_open, getpid(), 0);
	pid_t child;
	int status;

	if (program < 0)
		return fault_set(why, -errno, "pidfd_open: %s", strerror(errno));
	fflush(NULL);
	child = fork();
	if (child < 0)
		return fault_set(why, -errno, "no process to keep the reservation: %s",
				 strerror(errno));
	if (child == 0) {
		struct pollfd ends = {.fd = program, .events = POLLIN};
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		/* Nobody waits for it, no terminal stops it, no pipe stays open for it. */
		if (setsid() < 0 || null < 0 || fork() != 0)
			_exit(0);
		for (int fd = 0; fd <= 2; fd++)
			dup2(null, fd);
		while (poll(&ends, 1, -1) < 0 && errno == EINTR)
			;
		_exit(0);
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	admin_close(admin);
	return 0;
}

static int become(const struct cli_line *line, struct admin *admin, const struct choice *choice)
{
	char ids[PICK_GPUS * 100];
	struct fault why;
	int error;

	print_ids(ids, sizeof(ids), choice, false);
	if (setenv("CUDA_VISIBLE_DEVICES", ids, 1) != 0)
		return cli_complain(line, 125, "out of memory");
	if (admin->fd >= 0 && leave_keeper(admin, &why) < 0)
		return cli_fail(line, 125, &why);
	execvp(line->argv[0], line->argv);
	error = errno;
	return cli_complain(line, error == ENOENT ? 127 : 126, "%s: %s", line->argv[0],
			    error == ENOENT ? "no such program" : strerror(error));
}

enum kind { WHOLE, ANY };

static int number(const struct cli_line *line, const char *option, enum kind kind, double least,
		  double most, double *value, struct fault *why)
{
	const char *text = cli_value(line, option);
	char *end;
	double given;

	if (!text)
		return 0;
	given = strtod(text, &end);
	if (!*text || *end || !(given >= least) || !(given <= most) ||
	    (kind == WHOLE && given != floor(given)))
		return fault_set(why, -EINVAL, "--%s '%s': a %snumber from %g to %g is accepted",
				 cli_dashed(option).text, text, kind == WHOLE ? "whole " : "",
				 least, most);
	*value = given;
	return 0;
}

static int parse(const struct cli_line *line, struct wish *wish, struct fault *why)
{
	double limit = 1, attempts = 1;
	const char *order = cli_value(line, "order");
	int r = order ? pick_parse_order(order, &wish->criteria.order, why) : 0;

	wish->criteria.max_load = wish->criteria.max_memory = 0.5;
	wish->criteria.include_nan = cli_value(line, "include_nan");
	wish->criteria.exclude = cli_value(line, "exclude");
	wish->indices = cli_value(line, "index");
	wish->interval_seconds = 900;
	wish->hold_seconds = 30;
	if (r == 0)
		r = number(line, "limit", WHOLE, 1, PICK_GPUS, &limit, why);
	/* A little above 1, as "less than" leaves a full GPU out otherwise. */
	if (r == 0)
		r = number(line, "max_load", ANY, 0, 2, &wish->criteria.max_load, why);
	if (r == 0)
		r = number(line, "max_memory", ANY, 0, 2, &wish->criteria.max_memory, why);
	if (r == 0)
		r = number(line, "attempts", WHOLE, 1, 1e9, &attempts, why);
	if (r == 0)
		r = number(line, "interval", ANY, 0, 1e7, &wish->interval_seconds, why);
	if (r == 0)
		r = number(line, "hold", ANY, 0, 86400, &wish->hold_seconds, why);
	wish->criteria.limit = (unsigned)limit;
	wish->attempts = (unsigned long)attempts;
	return r;
}

/* Between two looks meted may have come, gone or changed: each look finds it anew. Where it may not
 * be asked (a system's, and we are not root) NVML alone decides. */
static int find_meted(const struct cli_line *line, struct admin *admin, bool first,
		      struct fault *why)
{
	char place[PLACE_MAX];
	int r;

	admin_close(admin);
	r = admin_connect_any(admin, place, why);
	if (r != -EACCES && r != -EPERM)
		return r;
	if (first)
		best_effort(cli_complain(line, 0, "nothing is reserved: %s", why->text));
	return 0;
}

int pick_main(const struct cli_line *line)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	char ids[PICK_GPUS * 100];
	struct pick_gpu gpus[PICK_GPUS];
	struct choice choice = {0};
	struct nvml nvml = {0};
	struct wish wish = {0};
	struct fault why;
	int r;

	if (parse(line, &wish, &why) < 0)
		return cli_fail(line, CLI_USAGE, &why);
	if (find_nvml(&nvml, &why) < 0)
		return cli_fail(line, 1, &why);
	for (unsigned long i = 0; i < wish.attempts && !choice.size; i++) {
		if (i > 0)
			wait_seconds(wish.interval_seconds);
		r = find_meted(line, &admin, i == 0, &why);
		if (r < 0)
			return cli_fail(line, 1, &why);
		r = try_once(&nvml, &admin, &wish, line->argc ? 0 : wish.hold_seconds, gpus,
			     &choice, &why);
		if (r < 0)
			return cli_fail(line, r == -EINVAL ? CLI_USAGE : 1, &why);
	}
	if (!choice.size)
		return cli_fail(line, 1, &why);
	if (line->argc)
		return become(line, &admin, &choice);
	print_ids(ids, sizeof(ids), &choice, wish.indices);
	puts(ids);
	return 0;
}
