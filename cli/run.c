/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete run: a tenant for one command. The admin connection is the tenant's life: it stays open
 * here until the program has ended (and its guests keep the tenant after that, if any are left).
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/driver.h"
#include "cli/signals.h"
#include "cli/visible.h"
#include "core/share.h"

enum {
	NAME_MAX_BYTES = 63,
};

/* Ours comes first; what was there stays. */
static int put_first(const char *variable, const char *value, struct fault *why)
{
	const char *there = getenv(variable);
	owned(free) char *both = NULL;

	if (asprintf(&both, "%s%s%s", value, there && *there ? ":" : "", there ? there : "") < 0) {
		both = NULL;
		return fault_set(why, -ENOMEM, "out of memory");
	}
	return setenv(variable, both, 1) == 0 ? 0 : fault_set(why, -errno, "out of memory");
}

static int set_environment(const struct driver *driver, const char *socket, struct fault *why)
{
	char guest[PATH_MAX], path[PATH_MAX + 16];
	int r = driver_guest(driver->version, guest, why);

	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/lib", guest);
	if ((r = put_first("LD_LIBRARY_PATH", path, why)) < 0)
		return r;
	snprintf(path, sizeof(path), "%s/libmete.so", guest);
	/* A path with a blank or colon would be two entries to the loader. */
	if (strpbrk(path, " :"))
		return fault_set(why, -EINVAL,
				 "%s: LD_PRELOAD cannot hold a path with blanks or colons", path);
	if ((r = put_first("LD_PRELOAD", path, why)) < 0)
		return r;
	if (setenv("METE_SOCKET", socket, 1) != 0 || setenv("METE_DRIVER", driver->folder, 1) != 0)
		return fault_set(why, -errno, "out of memory");
	return 0;
}

static int check_name(const char *name, struct fault *why)
{
	size_t n = 0;

	while (name[n] && (unsigned char)name[n] >= ' ' && name[n] != 0x7f)
		n++;
	if (n > 0 && n <= NAME_MAX_BYTES && !name[n])
		return 0;
	return fault_set(why, -EINVAL, "--name: accepted: 1 to %d bytes without control characters",
			 NAME_MAX_BYTES);
}

static int make_tenant(const struct cli_line *line, struct admin *admin,
		       struct wire_message *ret_made, struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_new};
	struct wire_tenant_new *tenant = &request.tenant_new;
	const char *name = cli_value(line, "name");
	const struct {
		wire_text *field;
		const char *option;
	} texts[] = {
		{&tenant->memory, "memory"},	   {&tenant->device, "device"},
		{&tenant->wait, "wait"},	   {&tenant->on_daemon_loss, "on_daemon_loss"},
		{&tenant->mode, "mode"},	   {&tenant->weight, "weight"},
		{&tenant->guarantee, "guarantee"}, {&tenant->cap, "cap"},
		{&tenant->class, "class"},	   {&tenant->escalate, "escalate"},
	};
	const char *program = strrchr(line->argv[0], '/');
	int r = name ? check_name(name, why) : 0;

	if (r < 0)
		return r;
	wire_set_text(&tenant->name, name ? name : program ? program + 1 : line->argv[0]);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *value = cli_value(line, texts[i].option);
		const char *accepts = share_accepts(texts[i].option);

		/* An empty text would mean the default: what was typed must not be dropped. */
		if (value && (!*value || strlen(value) > WIRE_TEXT_MAX))
			return fault_set(why, -EINVAL, "--%s: the value is %s; accepted: %s",
					 cli_dashed(texts[i].option).text,
					 *value ? "too long" : "empty",
					 accepts ? accepts : "a UUID or an index");
		wire_set_text(texts[i].field, value ? value : "");
	}
	if (!cli_value(line, "device") && strlen(visible_asked()) > WIRE_TEXT_MAX)
		return fault_set(why, -EINVAL,
				 "CUDA_VISIBLE_DEVICES: longer than %d bytes: use indices",
				 WIRE_TEXT_MAX);
	if (!cli_value(line, "device"))
		wire_set_text(&tenant->device, visible_asked());
	r = admin_ask(admin, &request, ret_made, why);
	if (r == 0 && ret_made->code != WIRE_tenant_made)
		return fault_set(why, -EPROTO, "meted answered '%s' to a new tenant",
				 wire_name(ret_made->code));
	return r;
}

/* A daemon whose last tenant has just left may go between our greeting and our request, and any may
 * be killed: the next one is asked then, for a tenant of its own. */
static int join(const struct cli_line *line, struct admin *admin, const struct driver *driver,
		struct wire_message *ret_made, struct fault *why)
{
	int r;

	do {
		admin_close(admin);
		r = daemon_connect(admin, driver, why);
		if (r == 0)
			r = make_tenant(line, admin, ret_made, why);
		if (r == 0)
			r = visible_show(cli_value(line, "device"), admin, &ret_made->tenant_made,
					 why);
	} while (r == -ECONNRESET || r == -EPIPE);
	return r;
}

/* Not before meted knows of it: were we killed earlier, it would find no tenant. */
static void noreturn_ become_program(const struct cli_line *line, const struct signals *before,
				     int start)
{
	int error;

	if (read(start, &(char){0}, 1) != 1)
		_exit(125);
	signals_give_back(before);
	execvp(line->argv[0], line->argv);
	error = errno;
	/* exec failed: what was set for the program must not be said of ours. */
	_exit(cli_complain(line, error == ENOENT ? 127 : 126, "%s: %s", line->argv[0],
			   error == ENOENT ? "no such program" : strerror(error)));
}

/* The program keeps its tenant, too: it has one when we are killed. */
static int keep(struct admin *admin, uint32_t tenant, pid_t child, struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_keep}, answer;

	request.tenant_keep.tenant = tenant;
	request.tenant_keep.pid = (uint32_t)child;
	return admin_ask(admin, &request, &answer, why);
}

/* meted ended under us (an upgrade, a crash): start it again, and keep the tenant in the
 * new one. */
static void keep_again(struct admin *admin, const struct driver *driver, uint32_t tenant,
		       pid_t child)
{
	struct fault why;

	int r;

	/* The next one may be killed as well. */
	do {
		admin_close(admin);
		r = daemon_connect(admin, driver, &why);
		if (r == 0)
			r = keep(admin, tenant, child, &why);
	} while (r == -ECONNRESET || r == -EPIPE);
	if (r < 0)
		fprintf(stderr, "mete run: meted is gone, the program goes on: %s\n", why.text);
}

/* Waits for the program, and looks after the daemon meanwhile. Returns how often it was replaced.
 */
static unsigned wait_for_program(pid_t child, struct admin *admin, const struct driver *driver,
				 uint32_t tenant)
{
	unsigned replaced = 0;
	owned(close) int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	struct pollfd watched[] = {{.fd = pidfd, .events = POLLIN}, {.events = POLLIN}};

	if (pidfd < 0)
		return 0; /* then waitpid() waits, and the daemon looks after itself */
	for (;;) {
		watched[1].fd = admin->fd;
		if (poll(watched, ARRAY_SIZE(watched), -1) < 0 && errno != EINTR)
			return replaced;
		if (watched[0].revents)
			return replaced;
		if (watched[1].revents) {
			keep_again(admin, driver, tenant, child);
			replaced++;
		}
		watched[0].revents = watched[1].revents = 0;
	}
}

/* What the ledger saw of the tenant: one line per device, while the admin connection keeps it. */
static void report(const struct cli_line *line, struct admin *admin, uint32_t tenant, bool whole)
{
	struct wire_message request = {.code = WIRE_list}, row = {0};
	bool joined = !whole; /* what an earlier meted saw is not known */
	struct fault why;
	int r;

	request.list.tenant = tenant;
	r = admin_ask(admin, &request, &row, &why);
	for (; r == 0 && row.code != WIRE_end; r = admin_next(admin, &row, &why)) {
		const struct wire_tenant_row *seen = &row.tenant_row;

		if (row.code != WIRE_tenant_row || seen->tenant != tenant)
			continue;
		fprintf(stderr,
			"mete run: %s: device=%u limit_bytes=%llu peak_bytes=%llu refusals=%llu\n",
			seen->name.text, seen->device, (unsigned long long)seen->limit,
			(unsigned long long)seen->peak, (unsigned long long)seen->refusals);
		joined |= seen->joins != 0;
	}
	if (r == 0 && !joined)
		fprintf(stderr,
			"mete run: no process of %s came to mete: if it used a GPU, nothing was "
			"limited (static programs, an emptied environment and a driver opened by "
			"its absolute path pass mete by)\n",
			line->argv[0]);
	if (r < 0)
		best_effort(cli_complain(line, 0, "no report: %s", why.text));
}

/* Ends as the program ended: with its status, or by the signal that killed it. */
static int pass_end_on(int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	prctl(PR_SET_DUMPABLE, 0); /* one core file, the program's, is enough */
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return 128 + WTERMSIG(status);
}

int run_main(const struct cli_line *line)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	struct wire_message made = {0};
	struct driver driver;
	struct fault why;
	struct signals before;
	unsigned replaced;
	pid_t child;
	int status, start[2];

	if (line->argc == 0)
		return cli_complain(line, CLI_USAGE,
				    "no program given: mete run [OPTION]... -- PROGRAM");
	if (driver_find(&driver, &why) < 0 || join(line, &admin, &driver, &made, &why) < 0 ||
	    set_environment(&driver, made.tenant_made.socket.text, &why) < 0)
		return cli_fail(line, 125, &why);
	fflush(NULL);
	if (pipe2(start, O_CLOEXEC) != 0)
		return cli_complain(line, 125, "no pipe: %s", strerror(errno));
	signals_take(&before);
	child = fork();
	if (child == 0) {
		close(start[1]);
		become_program(line, &before, start[0]);
	}
	signals_release(&before, child);
	if (child < 0)
		return cli_complain(line, 125, "no process for %s: %s", line->argv[0],
				    strerror(errno));
	/* Where meted has just gone it is told when that is seen. */
	best_effort(keep(&admin, made.tenant_made.tenant, child, &why));
	best_effort(write(start[1], "", 1));
	close(start[0]);
	close(start[1]);
	replaced = wait_for_program(child, &admin, &driver, made.tenant_made.tenant);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return cli_complain(line, 125, "%s: %s", line->argv[0], strerror(errno));
	signals_release(&before, 0);
	if (cli_value(line, "report"))
		report(line, &admin, made.tenant_made.tenant, replaced == 0);
	return pass_end_on(status);
}
