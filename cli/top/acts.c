/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/acts.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/held.h"
#include "cli/set.h"
#include "cli/suspend.h"
#include "cli/top/terminal.h"
#include "cli/ps_fetch.h"
#include "core/share/share.h"

enum { PROCESSES_MOST = 256 /* the most processes of a tenant that a key signals */ };

struct number {
	char text[16];
};

static struct number number(const struct wire_tenant_row *tenant)
{
	struct number said;

	snprintf(said.text, sizeof(said.text), "%u", tenant->tenant);
	return said;
}

static const struct {
	enum keys_act act;
	int signal;
	const char *verb;
} signals[] = {
	{KEYS_INTERRUPT, SIGINT, "interrupt"},
	{KEYS_TERMINATE, SIGTERM, "terminate"},
	{KEYS_KILL, SIGKILL, "kill"},
};

bool acts_is(enum keys_act act)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (signals[i].act == act)
			return true;
	return act == KEYS_SET || act == KEYS_SUSPEND || act == KEYS_RESUME;
}

static bool confirmed(const char *format, ...) printf_like(1, 2);

static bool confirmed(const char *format, ...)
{
	char question[ACTS_SAID], answer[8] = "";
	va_list arguments;
	size_t n;

	va_start(arguments, format);
	vsnprintf(question, sizeof(question) - 8, format, arguments);
	va_end(arguments);
	n = strlen(question);
	snprintf(question + n, sizeof(question) - n, " (y/n) ");
	return terminal_ask(question, answer, sizeof(answer)) && strcmp(answer, "y") == 0;
}

/* The meted to ask: that node's, or this machine's, whose connection is kept in `own`. */
static int reach(struct remote *remote, const struct wire_tenant_row *tenant, struct admin *own,
		 struct admin **ret_admin, struct fault *why)
{
	*ret_admin = remote->node ? &remote->admin : own;
	return remote->node ? remote_connect(remote, why)
			    : admin_connect_for(own, number(tenant).text, why);
}

static int set_typed(struct remote *remote, const struct wire_tenant_row *tenant,
		     char *const *typed, int count, struct fault *why)
{
	owned(admin_close) struct admin own = {.fd = -1};
	struct admin *admin;
	int r;

	/* meted follows a pod's annotations, and would undo any other change. */
	if (remote->node && remote_is_pods(tenant))
		return remote_annotate(remote, tenant->name.text, typed, count, why);
	r = reach(remote, tenant, &own, &admin, why);
	if (r < 0)
		return r;
	r = set_fields(admin, number(tenant).text, typed, count, why);
	/* A value that no meted accepts was not sent. */
	return r == -EINVAL ? r : remote_check(remote, r, why);
}

static void set(struct remote *remote, const struct wire_tenant_row *tenant, char *said)
{
	char question[WIRE_TEXT_MAX + 60], answer[WIRE_TEXT_MAX] = "", *rest = answer, *one;
	char *typed[SHARE_FIELDS + 1];
	struct fault why;
	int count = 0;

	snprintf(question, sizeof(question), "set %u %s: ", tenant->tenant, tenant->name.text);
	if (!terminal_ask(question, answer, sizeof(answer)))
		return;
	while ((one = strsep(&rest, " ")) != NULL && count <= SHARE_FIELDS)
		if (*one)
			typed[count++] = one;
	if (!count)
		return;
	if (set_typed(remote, tenant, typed, count, &why) < 0)
		snprintf(said, ACTS_SAID, "%.250s", why.text);
	else if (remote->node && remote_is_pods(tenant))
		snprintf(said, ACTS_SAID,
			 "%.100s: annotated; meted reports values that it does not accept as an "
			 "event of the pod",
			 tenant->name.text);
	else
		snprintf(said, ACTS_SAID, "tenant %u %.100s: set", tenant->tenant,
			 tenant->name.text);
}

static int suspend_at(struct remote *remote, const struct wire_tenant_row *tenant, bool suspends,
		      struct wire_done *ret_done, struct fault *why)
{
	owned(admin_close) struct admin own = {.fd = -1};
	struct admin *admin;
	int r = reach(remote, tenant, &own, &admin, why);

	if (r < 0)
		return r;
	r = suspend_ask(admin, number(tenant).text, suspends, 0, ret_done, why);
	return remote_check(remote, r, why);
}

static void suspend(struct remote *remote, const struct wire_tenant_row *tenant, bool suspends,
		    char *said)
{
	const char *name = tenant->name.text;
	struct wire_done done = {0};
	struct fault why;

	if (suspends && !confirmed("suspend tenant %u %.100s?", tenant->tenant, name))
		return;
	if (suspend_at(remote, tenant, suspends, &done, &why) < 0)
		snprintf(said, ACTS_SAID, "%.250s", why.text);
	else if (!suspends)
		snprintf(said, ACTS_SAID, "%.100s goes on", name);
	else
		snprintf(said, ACTS_SAID, "%.100s is suspended: %.60s leave%s%.60s%s", name,
			 text_size(done.moves, TEXT_UP).text, done.value ? ", " : "",
			 done.value ? text_size(done.value, TEXT_UP).text : "",
			 done.value ? " cannot move and stay" : "");
}

/* Whether that process is one of the tenant's now. */
static bool belongs(const struct ps_rows *rows, uint32_t tenant, uint32_t pid)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_guest_row &&
		    rows->row[i].guest_row.tenant == tenant && rows->row[i].guest_row.pid == pid)
			return true;
	return false;
}

static int open_process(uint32_t pid, struct fault *why)
{
	int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);

	if (fd < 0 && errno != ESRCH)
		return fault_set(why, -errno, "process %u: %s", pid, strerror(errno));
	return fd < 0 ? -ESRCH : fd;
}

/* 1: it was sent; 0: it has ended. */
static int send_signal(int held, uint32_t pid, int signal, struct fault *why)
{
	if (syscall(SYS_pidfd_send_signal, held, signal, NULL, 0) == 0)
		return 1;
	return errno == ESRCH ? 0 : fault_set(why, -errno, "process %u: %s", pid, strerror(errno));
}

/* A pid may belong to another process by now: we take pidfds first, and then ask meted whose
 * processes they are. */
static int send_signals(uint32_t tenant, const uint32_t *pid, const int *held, size_t count,
			int signal, struct fault *why)
{
	owned(ps_rows_free) struct ps_rows rows = {0};
	int sent = 0, r = ps_fetch(&rows, why);

	for (size_t i = 0; i < count && r >= 0; i++) {
		if (held[i] < 0 || !belongs(&rows, tenant, pid[i]))
			continue;
		r = send_signal(held[i], pid[i], signal, why);
		sent += r > 0;
	}
	return r < 0 ? r : sent;
}

/* Returns how many processes it was sent to. */
static int signal_all(uint32_t tenant, const uint32_t *pid, size_t count, int signal,
		      struct fault *why)
{
	int held[PROCESSES_MOST], r = 0;
	size_t opened = 0;

	for (; opened < count; opened++) {
		held[opened] = open_process(pid[opened], why);
		if (held[opened] < 0 && held[opened] != -ESRCH) {
			r = held[opened];
			break;
		}
	}
	if (r == 0)
		r = send_signals(tenant, pid, held, count, signal, why);
	while (opened-- > 0)
		if (held[opened] >= 0)
			close(held[opened]);
	return r;
}

/* The processes of a tenant, on whichever device; once each. */
static size_t processes_of(const struct ps_rows *rows, uint32_t tenant, uint32_t *ret_pid,
			   size_t room)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_guest_row *guest = &rows->row[i].guest_row;
		bool known = false;

		if (rows->row[i].code != WIRE_guest_row || guest->tenant != tenant)
			continue;
		for (size_t k = 0; k < n; k++)
			known |= ret_pid[k] == guest->pid;
		if (!known && n < room)
			ret_pid[n++] = guest->pid;
	}
	return n;
}

static void end(size_t which, const struct view_line *line, char *said)
{
	const struct wire_tenant_row *tenant = line->tenant->row;
	owned(ps_rows_free) struct ps_rows rows = {0};
	uint32_t pid[PROCESSES_MOST] = {0};
	struct fault why = {""};
	size_t count = 1;
	int sent;

	if (line->process)
		pid[0] = line->process->pid;
	else if (ps_fetch(&rows, &why) == 0)
		count = processes_of(&rows, tenant->tenant, pid, ARRAY_SIZE(pid));
	if (why.text[0] || !count) {
		snprintf(said, ACTS_SAID, "%.250s", why.text[0] ? why.text : "it has no process");
		return;
	}
	if (line->process
		    ? !confirmed("%s process %u of %.100s?", signals[which].verb, pid[0],
				 tenant->name.text)
		    : !confirmed("%s the %zu process%s of tenant %u %.100s?", signals[which].verb,
				 count, count == 1 ? "" : "es", tenant->tenant, tenant->name.text))
		return;
	sent = signal_all(tenant->tenant, pid, count, signals[which].signal, &why);
	if (sent < 0)
		snprintf(said, ACTS_SAID, "%.250s", why.text);
	else
		snprintf(said, ACTS_SAID, "SIG%s sent to %d process%s",
			 sigabbrev_np(signals[which].signal), sent, sent == 1 ? "" : "es");
}

void acts_do(enum keys_act act, struct remote *remote, const struct view_line *line,
	     char ret_said[ACTS_SAID])
{
	const struct wire_tenant_row *tenant = line->tenant->row;

	ret_said[0] = '\0';
	if (act == KEYS_SET)
		set(remote, tenant, ret_said);
	if (act == KEYS_SUSPEND || act == KEYS_RESUME)
		suspend(remote, tenant, act == KEYS_SUSPEND, ret_said);
	if (remote->node && act != KEYS_SET && act != KEYS_SUSPEND && act != KEYS_RESUME)
		snprintf(ret_said, ACTS_SAID,
			 "a node's processes are not ended from here: kubectl delete pod");
	for (size_t i = 0; i < ARRAY_SIZE(signals) && !remote->node; i++)
		if (signals[i].act == act)
			end(i, line, ret_said);
}
