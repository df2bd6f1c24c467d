/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete run: a tenant for one command. The admin connection is the tenant's life: it stays open
 * here until the program has ended (and its guests keep the tenant after that, if any are left).
 */
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/place.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/driver.h"
#include "cli/run_cdi.h"
#include "cli/run_keep.h"
#include "cli/run_report.h"
#include "cli/signals.h"
#include "cli/sim_node.h"
#include "cli/values.h"
#include "cli/visible.h"

enum {
	NAME_MAX_BYTES = 63,
	JOIN_OUTSIDE = 1, /* outcome of join(): our outer tenant belongs to another meted */
};

/* Ours comes first; the previous entries stay. */
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
	/* The loader would read a path with a space or colon as two entries. */
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
	if (n == 0 || n > NAME_MAX_BYTES || name[n])
		return fault_set(why, -EINVAL,
				 "--name: accepted: 1 to %d bytes without control characters",
				 NAME_MAX_BYTES);
	/* `mete set 7 ...` means tenant 7. */
	if (!name[strspn(name, "0123456789")])
		return fault_set(why, -EINVAL,
				 "--name '%s': a number is a tenant's id; accepted: a name with "
				 "something else in it",
				 name);
	return 0;
}

/* Options that are fields of a share; each is a text of a message that has no room for more. */
#define FIELD_OPTIONS(X)                                                                           \
	X(memory)                                                                                  \
	X(wait)                                                                                    \
	X(on_daemon_loss)                                                                          \
	X(mode)                                                                                    \
	X(weight) X(guarantee) X(cap) X(class) X(escalate) X(swap) X(idle) X(oversize)

static const char *const field_options[] = {
#define NAME(name) #name,
	FIELD_OPTIONS(NAME)
#undef NAME
		"notices",
};

/* "", "0,", ",0", "0,,1" */
static bool has_empty_part(const char *list)
{
	size_t n = strlen(list);

	return !n || list[0] == ',' || list[n - 1] == ',' || strstr(list, ",,");
}

/* The value of a field. A program without a limit may have all that it asks for: its memory moves
 * if others also need the room (decision 91). With a limit the device is divided, and memory need
 * not move; with --wait the program waits for room instead. */
static const char *field_value(const struct cli_call *call, const char *field)
{
	const char *value = cli_value(call, field);

	if (!value && strcmp(field, "swap") == 0 && !cli_value(call, "memory") &&
	    !cli_value(call, "wait"))
		return "auto";
	return value;
}

/* Faults that depend neither on meted nor on the device. */
static int check_values(const struct cli_call *call, struct fault *why)
{
	const char *name = cli_value(call, "name"), *device = cli_value(call, "device");
	struct share share;
	int r = name ? check_name(name, why) : 0;

	if (r == 0)
		r = run_cdi_check(call, why);
	share_init(&share);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(field_options); i++) {
		const char *value = cli_value(call, field_options[i]);
		char typed[40];

		snprintf(typed, sizeof(typed), "--%s", cli_dashed(field_options[i]).text);
		if (value && strlen(value) > WIRE_TEXT_MAX)
			r = fault_set(why, -EINVAL, "%s: the value is too long", typed);
		else if (value)
			r = values_field(typed, field_options[i], value, &share, why);
	}
	if (r == 0 && device && (has_empty_part(device) || strlen(device) > WIRE_TEXT_MAX))
		r = fault_set(why, -EINVAL,
			      "--device: '%.60s' is %s; accepted: a UUID or an index, or several "
			      "with commas",
			      device,
			      !*device		       ? "empty"
			      : has_empty_part(device) ? "not a list: nothing is beside a comma"
						       : "too long");
	return r;
}

/* The socket of the tenant that we run in; NULL: none, or it no longer exists. */
static const char *outer_socket(void)
{
	const char *path = getenv("METE_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	owned(close) int fd = -1;

	if (!path)
		path = PLACE_SYSTEM "/guest.sock"; /* in a container */
	if (strlen(path) >= sizeof(address.sun_path))
		return NULL;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 ||
	    (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 && errno != EAGAIN))
		return NULL;
	return path;
}

/* The share, from the options. */
static void fill_fields(const struct cli_call *call, struct wire_tenant_new *tenant)
{
	wire_text *const fields[] = {
#define FIELD(name) &tenant->name,
		FIELD_OPTIONS(FIELD)
#undef FIELD
	};
	const char *notices = cli_value(call, "notices");

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		const char *value = field_value(call, field_options[i]);

		wire_set_text(fields[i], value ? value : "");
	}
	/* check_values() has made sure that it is on or off. */
	tenant->quiet = strcmp(notices ? notices : "", "off") == 0;
}

static int make_tenant(const struct cli_call *call, struct admin *admin,
		       struct wire_message *ret_made, struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_new};
	struct wire_tenant_new *tenant = &request.tenant_new;
	const char *name = cli_value(call, "name"), *device = cli_value(call, "device");
	const char *program = strrchr(call->argv[0], '/');
	const char *outer = outer_socket();
	int r;

	wire_set_text(&tenant->name, name ? name : program ? program + 1 : call->argv[0]);
	fill_fields(call, tenant);
	wire_set_text(&tenant->device, device ? device : visible_asked());
	if (!device && strlen(visible_asked()) > WIRE_TEXT_MAX)
		return fault_set(why, -EINVAL,
				 "CUDA_VISIBLE_DEVICES: longer than %d bytes: use indices",
				 WIRE_TEXT_MAX);
	wire_set_text(&tenant->outer, outer ? outer : "");
	r = admin_ask(admin, &request, ret_made, why);
	if (r == -EPERM && outer && ret_made->code == WIRE_refused &&
	    ret_made->refused.code == WIRE_REFUSED_IDENTITY)
		return JOIN_OUTSIDE;
	if (r == 0 && ret_made->code != WIRE_tenant_made)
		return fault_set(why, -EPROTO, "meted replied '%s' to the request for a tenant",
				 wire_name(ret_made->code));
	return r;
}

/* A daemon whose last tenant has just left may end between our greeting and our request, and any
 * daemon may be killed: then the next one is asked to make the tenant. */
static int join(const struct cli_call *call, struct admin *admin, const struct driver *driver,
		struct wire_message *ret_made, struct fault *why)
{
	int r;

	do {
		admin_close(admin);
		r = daemon_connect(admin, driver, -1, why);
		if (r == 0 && driver->simulated)
			r = sim_node_check(admin->daemon.pid, why);
		if (r == 0)
			admin_tell(admin, "run");
		if (r == 0)
			r = make_tenant(call, admin, ret_made, why);
		if (r == 0)
			r = visible_show(cli_value(call, "device"), admin, &ret_made->tenant_made,
					 why);
	} while (r == -ECONNRESET || r == -EPIPE);
	return r;
}

/* Lists the options that are not honoured because the program runs in an existing share. `outside`:
 * that share is another meted's, which is not asked for a report either. */
static void list_unheard(const struct cli_call *call, bool outside, char *text, size_t size)
{
	static const char *const more[] = {"name", "cdi", "report", "report_json"};
	size_t n = 0;

	*text = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(field_options) + ARRAY_SIZE(more); i++) {
		const char *option = i < ARRAY_SIZE(field_options)
					     ? field_options[i]
					     : more[i - ARRAY_SIZE(field_options)];

		if (!cli_value(call, option))
			continue;
		if (!outside && (strcmp(option, "memory") == 0 || strcmp(option, "cdi") == 0 ||
				 strncmp(option, "report", 6) == 0))
			continue;
		if (n < size)
			n += (size_t)snprintf(text + n, size - n, "%s--%s", n ? ", " : "",
					      cli_dashed(option).text);
	}
}

/* The program runs in the outer tenant's share: no other was made. */
static void say_joined(const struct cli_call *call, const struct wire_tenant_made *made)
{
	char unheard[256];

	if (!made->joined)
		return;
	list_unheard(call, false, unheard, sizeof(unheard));
	if (*unheard)
		fprintf(stderr,
			"mete run: note: this runs in the share of tenant %u (%s): %s %s not "
			"honoured (--memory below that tenant's limit would make a tenant of its "
			"own, within that one)\n",
			made->tenant, made->name.text, unheard,
			strchr(unheard, ',') ? "are" : "is");
}

/* Whoever names it will look for that name: `mete set NAME` would change somebody else's share. */
static void say_renamed(const struct cli_call *call, const struct wire_tenant_made *made)
{
	const char *name = cli_value(call, "name");

	if (name && !made->joined && strcmp(made->name.text, name) != 0)
		fprintf(stderr,
			"mete run: note: there is a tenant called '%.60s' already: this one is "
			"'%s'\n",
			name, made->name.text);
}

/* Tells others about the share: the user, and container engines. */
static int offer(const struct cli_call *call, const struct driver *driver,
		 const struct wire_tenant_made *made, struct run_cdi *ret_cdi, struct fault *why)
{
	say_joined(call, made);
	if (!cli_value(call, "cdi"))
		say_renamed(call, made);
	return run_cdi_write(call, driver, made, ret_cdi, why);
}

/* We run in a share of another meted than the one that was found. The program stays in that share.
 */
static void noreturn_ run_in_outer(const struct cli_call *call)
{
	char unheard[256];
	int error;

	list_unheard(call, true, unheard, sizeof(unheard));
	fprintf(stderr,
		"mete run: note: this runs within a share of another meted, which also applies to "
		"%s; no other share was created%s%s\n",
		call->argv[0], *unheard ? "; not honoured: " : "", unheard);
	fflush(NULL);
	execvp(call->argv[0], call->argv);
	error = errno;
	exit(cli_complain(call, error == ENOENT ? 127 : 126, "%s: %s", call->argv[0],
			  error == ENOENT ? "no such program" : strerror(error)));
}

static bool is_folder(const char *path)
{
	struct stat there;

	return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

/* Waits until meted knows the program: if we were killed earlier, it would find no tenant. */
static void noreturn_ become_program(const struct cli_call *call, const struct signals *before,
				     int start)
{
	int error;

	if (read(start, &(char){0}, 1) != 1)
		_exit(125);
	signals_give_back(before);
	execvp(call->argv[0], call->argv);
	error = errno;
	/* exec failed: the program's settings must not apply to us. */
	_exit(cli_complain(call, error == ENOENT ? 127 : 126, "%s: %s", call->argv[0],
			   error == ENOENT	      ? "no such program"
			   : is_folder(call->argv[0]) ? "is a folder, not a program"
						      : strerror(error)));
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

/* Starts a process, which becomes the program once meted knows that it keeps the tenant. Returns 0,
 * or the exit status after a complaint. */
static int start_program(const struct cli_call *call, struct admin *admin, uint32_t tenant,
			 struct signals *before, pid_t *ret_child)
{
	struct fault why;
	int start[2];
	pid_t child;

	fflush(NULL);
	if (pipe2(start, O_CLOEXEC) != 0)
		return cli_complain(call, 125, "cannot create a pipe: %s", strerror(errno));
	signals_take(before);
	child = fork();
	if (child == 0) {
		close(start[1]);
		become_program(call, before, start[0]);
	}
	signals_release(before, child);
	if (child < 0)
		return cli_complain(call, 125, "cannot start a process for %s: %s", call->argv[0],
				    strerror(errno));
	/* If meted has just ended, run_keep_until_end() tells the next one. */
	best_effort(run_keep(admin, tenant, child, &why));
	best_effort(write(start[1], "", 1));
	close(start[0]);
	close(start[1]);
	*ret_child = child;
	return 0;
}

/* What one call has of meted, the driver and the machine, until its program has ended. */
struct run {
	struct admin admin;
	struct run_report report;
	struct run_cdi cdi;
	struct driver driver;
	struct wire_message made;
};

static void run_done_owned(struct run *run)
{
	run_cdi_remove(&run->cdi);
	run_report_close(&run->report);
	admin_close(&run->admin);
}

/* Makes the tenant, tells others of it, and sets the environment that the program inherits. */
static int prepare(const struct cli_call *call, struct run *run, struct fault *why)
{
	const struct wire_tenant_made *made = &run->made.tenant_made;
	int r = run_report_open(call, &run->report, why);

	if (r == 0)
		r = driver_find(&run->driver, why);
	if (r == 0)
		r = join(call, &run->admin, &run->driver, &run->made, why);
	if (r == JOIN_OUTSIDE) {
		admin_close(&run->admin);
		run_in_outer(call);
	}
	if (made->note.text[0])
		fprintf(stderr, "mete run: note: %s\n", made->note.text);
	if (r == 0)
		r = offer(call, &run->driver, made, &run->cdi, why);
	return r < 0 ? r : set_environment(&run->driver, made->socket.text, why);
}

/* Keeps the tenant until the program has ended, and says what it used. Returns mete's status. */
static int await_end(const struct cli_call *call, struct run *run, const struct signals *before,
		     pid_t child)
{
	const struct wire_tenant_made *made = &run->made.tenant_made;
	struct run_kept kept = {.admin = &run->admin,
				.driver = &run->driver,
				.tenant = made->tenant,
				.child = child,
				.system = run->admin.daemon.system != 0};
	int status;

	run_keep_until_end(&kept);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return cli_complain(call, 125, "%s: %s", call->argv[0], strerror(errno));
	signals_release(before, 0);
	run_cdi_remove(&run->cdi);
	run->report.tenant = made->tenant;
	run->report.name = made->name.text;
	run->report.whole = kept.replaced == 0;
	run->report.status = status;
	run_report_say(call, &run->admin, &run->report);
	return pass_end_on(status);
}

int run_main(const struct cli_call *call)
{
	owned(run_done) struct run run = {.admin = {.fd = -1}};
	struct signals before;
	struct fault why;
	pid_t child = -1;
	int status;

	if (call->argc == 0)
		return cli_complain(call, CLI_USAGE,
				    "no program given: mete run [OPTION]... -- PROGRAM");
	if (check_values(call, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (prepare(call, &run, &why) < 0)
		return cli_fail(call, 125, &why);
	status = start_program(call, &run.admin, run.made.tenant_made.tenant, &before, &child);
	return status ? status : await_end(call, &run, &before, child);
}
