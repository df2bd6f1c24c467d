/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
	ANSWER_MS = 10000, /* once it is connected */
	HURRY_S = 3,	   /* METE_COMPLETE_SECONDS */
	HURRY_S_MOST = 600,
};

/* How long each step may take while somebody completes a line. A sentence about a wrong value would
 * stand in the middle of that line: the value is then as if it were not set. */
static int hurry_s(void)
{
	const char *set = getenv("METE_COMPLETE_SECONDS");
	char *end = NULL;
	long seconds = set && *set >= '0' && *set <= '9' ? strtol(set, &end, 10) : 0;

	return seconds >= 1 && seconds <= HURRY_S_MOST && !*end ? (int)seconds : HURRY_S;
}

static int patience_ms(const struct remote *remote)
{
	return remote->hurried ? hurry_s() * 1000 : KUBECTL_PATIENCE_MS;
}

struct words {
	const char *word[KUBECTL_WORDS + 1];
	int count;
	char context[300], within[40];
};

static void add(struct words *words, const char *word)
{
	if (words->count < KUBECTL_WORDS)
		words->word[words->count++] = word;
}

/* The verb comes first: sentences name it. */
static void begin(struct words *words, const struct remote *remote, const char *verb)
{
	*words = (struct words){.word = {verb}, .count = 1};
	if (remote->context) {
		snprintf(words->context, sizeof(words->context), "--context=%s", remote->context);
		add(words, words->context);
	}
	if (remote->hurried) {
		snprintf(words->within, sizeof(words->within), "--request-timeout=%ds", hurry_s());
		add(words, words->within);
	}
}

/* The pod's name; -ESRCH: there is none. If two exist, because one replaces the other, the one that
 * stays. */
static int find_pod(const struct remote *remote, char ret_pod[REMOTE_NAME_MOST + 1],
		    struct fault *why)
{
	static const char names[] = "jsonpath={range .items[*]}{.metadata.name} "
				    "{.metadata.deletionTimestamp}{\"\\n\"}{end}";
	char selector[REMOTE_NAME_MOST + 60], said[4096], *rest = said, *line;
	struct words words;
	int r;

	begin(&words, remote, "get");
	snprintf(selector, sizeof(selector), "status.phase=Running,spec.nodeName=%s", remote->node);
	for (const char *const *word =
		     (const char *const[]){"pods", "-n", remote->space, "-l",
					   "app.kubernetes.io/name=mete", "--field-selector",
					   selector, "-o", names, NULL};
	     *word; word++)
		add(&words, *word);
	r = kubectl_run(words.word, patience_ms(remote), said, sizeof(said), why);
	if (r < 0)
		return r;
	while ((line = strsep(&rest, "\n")) != NULL) {
		size_t n = strcspn(line, " ");

		if (n && n <= REMOTE_NAME_MOST && !line[n + (line[n] != '\0')]) {
			snprintf(ret_pod, REMOTE_NAME_MOST + 1, "%.*s", (int)n, line);
			return 0;
		}
	}
	return fault_set(why, -ESRCH,
			 "no meted runs there: mete shares the GPUs of nodes with the label "
			 "mete.dev/shared=true, and its pods are in the namespace %.60s "
			 "(--mete-namespace)",
			 remote->space);
}

static int start_relay(struct remote *remote, const char *pod, int fd, struct fault *why)
{
	struct words words;

	begin(&words, remote, "exec");
	for (const char *const *word =
		     (const char *const[]){"-i", "-n", remote->space, pod, "-c", "meted", "--",
					   "on-node", "mete", "--relay", NULL};
	     *word; word++)
		add(&words, *word);
	return kubectl_start(&remote->kubectl, words.word, fd, why);
}

/* kubectl's own message is more specific than "the connection has ended". */
static int explain(struct remote *remote, int r, struct fault *why)
{
	char last[300];

	admin_close(&remote->admin);
	kubectl_end(&remote->kubectl, last, sizeof(last));
	if (strstr(last, "unknown verb '--relay'"))
		return fault_set(
			why, r,
			"node %s: the mete there is older than this one, and has no --relay: "
			"kubectl mete top --node %s --live",
			remote->node, remote->node);
	if (*last && r != -EPERM && r != -EPROTO)
		return fault_set(why, r, "node %s: %s", remote->node, last);
	fault_within(why, "node %s", remote->node);
	return r;
}

static int connect_to(struct remote *remote, const char *pod, struct fault *why)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		return fault_set(why, -errno, "no socket: %s", strerror(errno));
	r = start_relay(remote, pod, pair[1], why);
	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
		return r;
	}
	r = admin_greet_stream(&remote->admin, pair[0], patience_ms(remote), why);
	if (r < 0)
		return explain(remote, r, why);
	admin_be_patient(&remote->admin, remote->hurried ? patience_ms(remote) : ANSWER_MS);
	return 0;
}

int remote_connect(struct remote *remote, struct fault *why)
{
	char pod[REMOTE_NAME_MOST + 1];
	int r;

	if (remote->admin.fd >= 0)
		return 0;
	r = find_pod(remote, pod, why);
	if (r < 0) {
		fault_within(why, "node %s", remote->node);
		return r;
	}
	return connect_to(remote, pod, why);
}

int remote_reach(struct remote *remote, const char *who, struct fault *why)
{
	return remote->node ? remote_connect(remote, why)
			    : admin_connect_for(&remote->admin, who, why);
}

int remote_check(struct remote *remote, int r, struct fault *why)
{
	/* A refusal is meted's answer. */
	return !remote->node || r >= 0 || r == -EPERM ? r : explain(remote, r, why);
}

void remote_close(struct remote *remote)
{
	char last[8];

	admin_close(&remote->admin);
	if (remote->node)
		kubectl_end(&remote->kubectl, last, sizeof(last));
}

/* ---- for a shell that completes -------------------------------------------------------------- */

/* Keeps the lines that are a single name: pods that are about to end have more words. An incomplete
 * last line is dropped. */
static void keep_names(char *said)
{
	char *kept = said, *line = said, *end;

	for (; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		size_t n = strcspn(line, " \n");

		if (!n || (line[n] == ' ' && line[n + 1] != '\n'))
			continue;
		memmove(kept, line, n);
		kept += n;
		*kept++ = '\n';
	}
	*kept = '\0';
}

int remote_list_nodes(const struct remote *remote, char *ret_said, size_t size, struct fault *why)
{
	static const char names[] = "jsonpath={range .items[*]}{.spec.nodeName} "
				    "{.metadata.deletionTimestamp}{\"\\n\"}{end}";
	struct words words;
	int r;

	begin(&words, remote, "get");
	for (const char *const *word =
		     (const char *const[]){"pods", "-n", remote->space, "-l",
					   "app.kubernetes.io/name=mete", "--field-selector",
					   "status.phase=Running", "-o", names, NULL};
	     *word; word++)
		add(&words, *word);
	r = kubectl_run(words.word, patience_ms(remote), ret_said, size, why);
	keep_names(ret_said);
	return r;
}

int remote_list_contexts(char *ret_said, size_t size, struct fault *why)
{
	static const char *const words[] = {"config", "get-contexts", "-o", "name", NULL};
	int r = kubectl_run(words, hurry_s() * 1000, ret_said, size, why);

	keep_names(ret_said);
	return r;
}

/* ---- a pod's share --------------------------------------------------------------------------- */

/* A name of a namespace, a pod or a container, as Kubernetes has them (RFC 1123). */
static bool is_kubernetes_name(const char *text, size_t size)
{
	static const char ends[] = "abcdefghijklmnopqrstuvwxyz0123456789";

	return size && size <= REMOTE_NAME_MOST && strchr(ends, text[0]) &&
	       strchr(ends, text[size - 1]) &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") >= size;
}

bool remote_is_pods(const struct wire_tenant_row *tenant)
{
	const char *part = tenant->name.text;

	/* A nested tenant chose its name itself. So does `mete run`, hence the check of the form.
	 */
	if (tenant->outer)
		return false;
	for (int slashes = 2; slashes >= 0; slashes--) {
		size_t size = strcspn(part, "/");

		if (!is_kubernetes_name(part, size) || !part[size] != !slashes)
			return false;
		part += size + 1;
	}
	return true;
}

int remote_annotate(const struct remote *remote, const char *tenant, char *const *typed, int count,
		    struct fault *why)
{
	char name[WIRE_TEXT_MAX + 1], *rest = name, said[300];
	const char *space, *pod, *container;
	char mark[KUBECTL_WORDS / 2][WIRE_TEXT_MAX * 2 + 20];
	struct words words;

	snprintf(name, sizeof(name), "%s", tenant);
	space = strsep(&rest, "/");
	pod = strsep(&rest, "/");
	container = rest;
	begin(&words, remote, "annotate");
	for (const char *const *word =
		     (const char *const[]){"pod", "-n", space, "--overwrite", "--", pod, NULL};
	     *word; word++)
		add(&words, *word);
	for (int i = 0; i < count && i < (int)ARRAY_SIZE(mark); i++) {
		size_t key = strcspn(typed[i], "=");
		char *at;

		if (!key || !typed[i][key])
			return fault_set(why, -EINVAL,
					 "'%.60s': expected KEY=VALUE, as in memory=4GiB",
					 typed[i]);
		snprintf(mark[i], sizeof(mark[i]), "%s.mete.dev/%s", container, typed[i]);
		/* `mete set` writes on_daemon_loss. */
		for (at = strchr(mark[i], '/'); *at != '='; at++)
			if (*at == '_')
				*at = '-';
		add(&words, mark[i]);
	}
	return kubectl_run(words.word, patience_ms(remote), said, sizeof(said), why);
}
