/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete pick: free GPUs for a command, by GPUtil's criteria. GPUtil cannot keep two callers apart.
 * Here meted, if it runs, gives each GPU to one caller only. It answers before the ids are printed,
 * and ends the reservation when the command has ended, or when the time is over in which a program
 * with the printed ids should have started. That time begins when the ids have been printed: until
 * then the reservation ends with this process.
 */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/place.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/gpus.h"
#include "cli/sim_node.h"
#include "cli/values.h"

static const uint64_t second_ns = 1000000000;

struct wish {
	struct pick_criteria criteria;
	unsigned long attempts;
	uint64_t interval_ns, hold_ns;
	bool indices;
};

struct choice {
	size_t size;
	const struct pick_gpu *gpu[PICK_GPUS];
};

static uint64_t random_number(void)
{
	uint64_t number = 0;

	/* Without entropy GPUs are taken in the order of their indices. */
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		number = 0;
	return number;
}

/* 0: reserved for us; 1: for another caller. */
static int reserve(struct admin *admin, const struct pick_gpu *gpu, uint64_t hold_ns,
		   struct fault *why)
{
	struct wire_message request = {.code = WIRE_device_reserve}, answer;
	int r;

	wire_set_text(&request.device_reserve.device, gpu->uuid);
	request.device_reserve.hold = hold_ns;
	r = admin_ask(admin, &request, &answer, why);
	return r == -EPERM ? 1 : r;
}

/* `held`: what meted says of those that are as free as requested, and others'. */
static void say_none(const struct pick_criteria *criteria, const struct pick_gpu *gpus, size_t size,
		     const char *held, struct fault *why)
{
	size_t left = pick_left(criteria, gpus, size);
	const char *of = left < size ? " that --exclude leaves" : "";
	char unfit[sizeof(why->text)];

	pick_say_unfit(criteria, gpus, size, unfit, sizeof(unfit));

	if (size == 0)
		best_effort(fault_set(why, -ENODEV, "this machine has no GPU"));
	else if (left == 0)
		best_effort(fault_set(why, -ENODEV, "--exclude leaves none of %zu GPU%s", size,
				      size == 1 ? "" : "s"));
	else if (left == 1 && *held)
		best_effort(fault_set(why, -ENODEV, "%s", held));
	else if (left == 1)
		best_effort(fault_set(why, -ENODEV,
				      "the only GPU%s is not as free as requested; %s", of, unfit));
	else
		best_effort(fault_set(why, -ENODEV, "none of %zu GPUs%s is %s; %s%s%s", left, of,
				      *held ? "to be had" : "as free as requested", unfit,
				      *unfit && *held ? "; " : "", held));
}

/* One attempt: the GPUs that qualify, except those that others have reserved. */
static int try_once(const struct gpus *nvml, struct admin *admin, const struct wish *wish,
		    struct pick_gpu gpus[PICK_GPUS], struct choice *ret_choice, struct fault *why)
{
	size_t size = 0, count = 0, order[PICK_GPUS], n, used = 0;
	char held[sizeof(why->text)] = "";
	int r = gpus_look(nvml, gpus, &size, &count, why);

	if (r == 0)
		r = pick_check_exclude(wish->criteria.exclude, gpus, size, count, why);
	if (r < 0)
		return r;
	n = pick_choose(gpus, size, &wish->criteria, random_number, order);
	ret_choice->size = 0;
	for (size_t i = 0; i < n && ret_choice->size < wish->criteria.limit; i++) {
		r = admin->fd >= 0 ? reserve(admin, &gpus[order[i]], 0, why) : 0;
		if (r < 0)
			return r;
		if (r == 0)
			ret_choice->gpu[ret_choice->size++] = &gpus[order[i]];
		else if (used < sizeof(held))
			used += (size_t)snprintf(held + used, sizeof(held) - used, "%s%s",
						 used ? "; " : "", why->text);
	}
	if (!ret_choice->size)
		say_none(&wish->criteria, gpus, size, held, why);
	return 0;
}

static void wait_ns(uint64_t ns)
{
	struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};

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

/* A process of its own keeps the connection, and with it the reservation, until the program has
 * ended. So we can become the program: it has its own signals and exit status, and holds no
 * descriptor of meted's. */
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
		return fault_set(why, -errno, "cannot start a process to keep the reservation: %s",
				 strerror(errno));
	if (child == 0) {
		struct pollfd ends = {.fd = program, .events = POLLIN};
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		/* No process waits for this one, no terminal stops it, and it keeps no pipe open.
		 */
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

static int become(const struct cli_call *call, struct admin *admin, const struct choice *choice)
{
	char ids[PICK_GPUS * 100];
	struct fault why;
	int error;

	print_ids(ids, sizeof(ids), choice, false);
	if (setenv("CUDA_VISIBLE_DEVICES", ids, 1) != 0)
		return cli_complain(call, 125, "out of memory");
	if (admin->fd >= 0 && leave_keeper(admin, &why) < 0)
		return cli_fail(call, 125, &why);
	execvp(call->argv[0], call->argv);
	error = errno;
	return cli_complain(call, error == ENOENT ? 127 : 126, "%s: %s", call->argv[0],
			    error == ENOENT ? "no such program" : strerror(error));
}

/* The GPUs whose ids were printed, for the time until a program with them has started. */
static int hold(const struct cli_call *call, struct admin *admin, const struct choice *choice,
		uint64_t hold_ns)
{
	struct fault why;
	int r = 0;

	for (size_t i = 0; i < choice->size && r == 0; i++)
		r = reserve(admin, choice->gpu[i], hold_ns, &why);
	if (r == 0)
		return 0;
	return cli_complain(call, 1, "nothing is reserved any more: %s",
			    r < 0 ? why.text : "meted does not allow it");
}

static int count(const struct cli_call *call, const char *option, unsigned long most,
		 unsigned long *value, struct fault *why)
{
	const char *text = cli_value(call, option);
	unsigned long given;
	char *end;

	if (!text)
		return 0;
	given = strtoul(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || given > most)
		return fault_set(why, -EINVAL,
				 "--%s '%s': a whole number from 1 to %lu is accepted",
				 cli_dashed(option).text, text, most);
	*value = given;
	return 0;
}

/* A number, or all GPUs. */
static int parse_limit(const struct cli_call *call, unsigned *ret_limit, struct fault *why)
{
	const char *text = cli_value(call, "limit");
	unsigned long limit = 1;
	struct fault general;

	if (text && strcmp(text, "all") == 0)
		limit = 0;
	else if (count(call, "limit", PICK_GPUS, &limit, &general) < 0)
		return fault_set(
			why, -EINVAL,
			"--limit '%s': a whole number from 1 to %d is accepted, or all (as 0)",
			text, PICK_GPUS);
	*ret_limit = limit > 0 ? (unsigned)limit : PICK_GPUS;
	return 0;
}

/* "Less than 100%" would leave out full GPUs, so 100% is no bound. */
static int parse_most(const struct cli_call *call, const char *option, double *ret_most,
		      struct fault *why)
{
	uint32_t milli = 500;
	int r = values_part(call, option, 0, 1000, &milli, why);

	*ret_most = milli == 1000 ? INFINITY : milli / 1000.0;
	return r;
}

static int parse(const struct cli_call *call, struct wish *wish, struct fault *why)
{
	const char *order = cli_value(call, "order");
	int r = order ? pick_parse_order(order, &wish->criteria.order, why) : 0;

	wish->criteria.include_nan = cli_value(call, "include_nan");
	wish->criteria.exclude = cli_value(call, "exclude");
	wish->indices = cli_value(call, "index");
	wish->attempts = 1;
	wish->interval_ns = 900 * second_ns;
	wish->hold_ns = 30 * second_ns;
	if (r == 0)
		r = parse_limit(call, &wish->criteria.limit, why);
	if (r == 0)
		r = values_amount(call, "memory_free", &wish->criteria.memory_free, why);
	if (r == 0)
		r = parse_most(call, "max_load", &wish->criteria.max_load, why);
	if (r == 0)
		r = parse_most(call, "max_memory", &wish->criteria.max_memory, why);
	if (r == 0)
		r = count(call, "attempts", 1000000000, &wish->attempts, why);
	if (r == 0 && !wish->attempts)
		r = fault_set(why, -EINVAL, "--attempts '0': at least 1 is accepted");
	if (r == 0)
		r = values_time(call, "interval", 0, 100 * 86400 * second_ns, &wish->interval_ns,
				why);
	if (r == 0)
		r = values_time(call, "hold", 0, 86400 * second_ns, &wish->hold_ns, why);
	return r;
}

struct started {
	int r;
	struct fault why;
};

/* In a process of its own: starts meted, reports the outcome, and stays connected to it until the
 * caller is. */
static void noreturn_ keep_started(const struct driver *driver, int peer)
{
	struct admin admin = {.fd = -1};
	struct started said = {0};

	said.r = daemon_connect(&admin, driver, -1, &said.why);
	if (write(peer, &said, sizeof(said)) == sizeof(said))
		while (read(peer, &(char){0}, 1) < 0 && errno == EINTR)
			;
	_exit(0);
}

/* A program has its GPUs until it ends, and the next caller must learn of that: if no meted runs,
 * the user's own is started, as by `mete run`. It ends when its last reservation or tenant has. It
 * is no child of ours: we become the program, which expects no child. */
static int start_meted(struct admin *admin, struct fault *why)
{
	const char *folder = getenv("METE_DRIVER");
	struct driver driver = {0};
	struct started said = {.r = -EPIPE};
	int pair[2], status, r = 0;
	char place[PLACE_MAX];
	pid_t helper;

	if (!folder)
		r = driver_find(&driver, why);
	else if (!realpath(folder, driver.folder))
		r = fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return fault_set(why, -errno, "meted cannot be started: %s", strerror(errno));
	fflush(NULL);
	helper = fork();
	if (helper == 0) {
		close(pair[0]);
		keep_started(&driver, pair[1]);
	}
	close(pair[1]);
	best_effort(fault_set(&said.why, said.r, "meted cannot be started"));
	while (helper > 0 && read(pair[0], &said, sizeof(said)) < 0 && errno == EINTR)
		;
	*why = said.why;
	r = said.r == 0 ? admin_connect_any(admin, place, why) : said.r;
	close(pair[0]);
	while (helper > 0 && waitpid(helper, &status, 0) < 0 && errno == EINTR)
		;
	return r;
}

/* Between two attempts meted may have started, ended or been replaced: each attempt connects anew.
 * If meted may not be asked, or does not start, NVML alone decides, and `why` says why nothing is
 * reserved. */
static int find_meted(const struct cli_call *call, struct admin *admin, struct fault *why)
{
	char place[PLACE_MAX];
	int r;

	admin_close(admin);
	r = admin_connect_any(admin, place, why);
	if (r == 0)
		return sim_node_same(admin->daemon.pid, why);
	if (r == ADMIN_ABSENT && call->argc)
		r = start_meted(admin, why);
	else if (r != ADMIN_ABSENT && r != -EACCES && r != -EPERM)
		return r;
	if (r == ADMIN_ABSENT)
		best_effort(fault_set(
			why, r,
			"no meted is running, so another `mete pick` may be given the same GPU"));
	return 0;
}

/* Attempts until there is a choice, or all were made. Returns 0, or the exit status after a
 * complaint. `unreserved` says why nothing is reserved, if meted is not connected. */
static int choose(const struct cli_call *call, const struct wish *wish, struct admin *admin,
		  struct pick_gpu gpus[PICK_GPUS], struct choice *ret_choice,
		  struct fault *unreserved)
{
	owned(gpus_close) struct gpus *nvml = NULL;
	struct fault why;
	int r;

	if (gpus_open(&nvml, &why) < 0)
		return cli_fail(call, 1, &why);
	for (unsigned long i = 0; i < wish->attempts && !ret_choice->size; i++) {
		if (i > 0)
			wait_ns(wish->interval_ns);
		r = find_meted(call, admin, unreserved);
		if (r < 0)
			return cli_fail(call, 1, unreserved);
		r = try_once(nvml, admin, wish, gpus, ret_choice, &why);
		if (r < 0)
			return cli_fail(call, 1, &why);
	}
	return ret_choice->size ? 0 : cli_fail(call, 1, &why);
}

/* Prints the ids, and keeps the GPUs for a program that starts with them. */
static int print(const struct cli_call *call, const struct wish *wish, struct admin *admin,
		 const struct choice *choice)
{
	char ids[PICK_GPUS * 100];

	print_ids(ids, sizeof(ids), choice, wish->indices);
	puts(ids);
	/* Nobody has them: main() says why, and the GPUs are free when this process has ended. */
	if (fflush(stdout) != 0)
		return 1;
	return admin->fd >= 0 && wish->hold_ns ? hold(call, admin, choice, wish->hold_ns) : 0;
}

int pick_main(const struct cli_call *call)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	struct pick_gpu gpus[PICK_GPUS];
	struct choice choice = {0};
	struct wish wish = {0};
	struct fault why, unreserved;
	int status;

	if (parse(call, &wish, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	status = choose(call, &wish, &admin, gpus, &choice, &unreserved);
	if (status)
		return status;
	if (admin.fd < 0 && !cli_value(call, "quiet"))
		best_effort(cli_complain(call, 0, "nothing is reserved: %s", unreserved.text));
	return call->argc ? become(call, &admin, &choice) : print(call, &wish, &admin, &choice);
}
