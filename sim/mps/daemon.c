/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mps/daemon.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/mps/names.h"

enum { PEERS_MAX = 512, DEVICES_MAX = 16, LINE = 1024, ANSWER = 8192 };

/* A connection: a client, from its "join" on; or one that sends commands. */
struct peer {
	int fd;
	int by;	   /* the namespace by whose socket it came; NAMES_NONE: the daemon's own */
	pid_t pid; /* of a client; 0: it is none yet */
	char line[LINE];
	size_t used;
};

static struct {
	struct peer peer[PEERS_MAX];
	int peers;
	pid_t server;
	double percentage;
	bool limited[DEVICES_MAX];
	char limit[DEVICES_MAX][16];
	bool quitting;
} daemon_ = {.percentage = 100};

/* ---- the server ---------------------------------------------------------------------------- */

pid_t mps_begin_server(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int fd = 0; fd < 1024; fd++)
		close(fd);
	for (;;)
		pause();
}

void mps_end_server(pid_t server)
{
	kill(server, SIGKILL);
}

static void start_server(void)
{
	if (!daemon_.server || kill(daemon_.server, 0) < 0)
		daemon_.server = mps_begin_server();
}

/* Clients of one folder belong to one server, whichever daemon accepted them. */
static uint32_t server_number(void)
{
	struct stat info;

	return stat(mps_folder(), &info) == 0 ? (uint32_t)info.st_ino | 1u << 31 : 1;
}

/* ---- commands ------------------------------------------------------------------------------ */

void mps_print(char *answer, const char *format, ...)
{
	size_t used = strlen(answer);
	va_list list;

	va_start(list, format);
	vsnprintf(answer + used, ANSWER - used, format, list);
	va_end(list);
}

static void get_servers(unused const char *words, char *answer)
{
	if (daemon_.server)
		mps_print(answer, "%d\n", (int)daemon_.server);
}

static void get_clients(const char *words, char *answer)
{
	if (!daemon_.server || atoi(words) != daemon_.server) {
		mps_print(answer, "Failed to query clients: no such server\n");
		return;
	}
	for (int i = 0; i < daemon_.peers; i++)
		if (daemon_.peer[i].pid)
			mps_print(answer, "%d\n", (int)daemon_.peer[i].pid);
}

static void get_percentage(unused const char *words, char *answer)
{
	mps_print(answer, "%.1f\n", daemon_.percentage);
}

static void set_percentage(const char *words, char *answer)
{
	char *end;
	double value = strtod(words, &end);

	if (end == words || value <= 0 || value > 100)
		mps_print(answer, "Invalid active thread percentage\n");
	else
		daemon_.percentage = value;
}

static void get_limit(const char *words, char *answer)
{
	int device = atoi(words);

	if (device < 0 || device >= DEVICES_MAX || !daemon_.limited[device])
		mps_print(answer, "No limit is set\n");
	else
		mps_print(answer, "%s\n", daemon_.limit[device]);
}

static void set_limit(const char *words, char *answer)
{
	unsigned device;
	char value[16], unit;
	unsigned long long amount;

	if (sscanf(words, "%u %15s", &device, value) != 2 || device >= DEVICES_MAX ||
	    sscanf(value, "%llu%c", &amount, &unit) != 2 || !strchr("GM", unit)) {
		mps_print(answer, "Invalid pinned memory limit\n");
		return;
	}
	snprintf(daemon_.limit[device], sizeof(daemon_.limit[device]), "%s", value);
	daemon_.limited[device] = true;
}

static void quit(unused const char *words, unused char *answer)
{
	daemon_.quitting = true;
}

static void start(unused const char *words, unused char *answer)
{
	start_server();
}

static void join(unused const char *words, char *answer)
{
	start_server();
	mps_print(answer, "ok %" PRIu32 " %.0f ", server_number(), daemon_.percentage * 10);
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (daemon_.limited[i])
			mps_print(answer, "%u=%s ", i, daemon_.limit[i]);
	mps_print(answer, "\n");
}

static const struct {
	const char *name;
	void (*answer)(const char *words, char *answer);
} commands[] = {
	{"get_server_list", get_servers},
	{"start_server", start},
	{"get_client_list", get_clients},
	{"get_default_active_thread_percentage", get_percentage},
	{"set_default_active_thread_percentage", set_percentage},
	{"get_default_device_pinned_mem_limit", get_limit},
	{"set_default_device_pinned_mem_limit", set_limit},
	{"quit", quit},
	{"join", join},
};

static void answer_older(const char *line, char *answer)
{
	size_t length = strcspn(line, " ");

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strlen(commands[i].name) == length &&
		    strncmp(commands[i].name, line, length) == 0) {
			commands[i].answer(line + length + strspn(line + length, " "), answer);
			return;
		}
	mps_print(answer, "Unknown command\n");
}

/* Without -m a server takes clients of its own user alone. */
static void join_newer(const struct peer *peer, const struct ucred *who, char *answer)
{
	if (mps_is_multiuser() || who->uid == getuid())
		names_join(peer->by, answer);
}

static void answer_line(const struct peer *peer, const struct ucred *who, char *answer)
{
	const char *line = peer->line;

	if (!mps_is_newer())
		answer_older(line, answer);
	else if (strcmp(line, "join") == 0)
		join_newer(peer, who, answer);
	else if (strcmp(line, "-q") == 0)
		daemon_.quitting = who->uid == getuid();
	else
		names_command(line, who->uid, answer);
}

/* ---- peers --------------------------------------------------------------------------------- */

bool mps_has_clients(int name)
{
	for (int i = 0; i < daemon_.peers; i++)
		if (daemon_.peer[i].pid && daemon_.peer[i].by == name)
			return true;
	return false;
}

void mps_print_clients(int name, const char *server, const char *namespace, char *answer)
{
	for (int i = 0; i < daemon_.peers; i++)
		if (daemon_.peer[i].pid && daemon_.peer[i].by == name)
			mps_print(answer, "%d,%s,0,%s,-\n", (int)daemon_.peer[i].pid, server,
				  namespace);
}

static void drop(int i)
{
	close(daemon_.peer[i].fd);
	daemon_.peer[i] = daemon_.peer[--daemon_.peers];
}

static void take_line(int i)
{
	struct peer *peer = &daemon_.peer[i];
	char answer[ANSWER] = "";
	bool joins = strcmp(peer->line, "join") == 0;
	struct ucred who = {.pid = 0};
	socklen_t size = sizeof(who);

	getsockopt(peer->fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
	answer_line(peer, &who, answer);
	if (send(peer->fd, answer, strlen(answer), MSG_NOSIGNAL) < 0 || !joins) {
		drop(i);
		return;
	}
	peer->pid = who.pid;
	peer->used = 0;
}

static void hear(int i)
{
	struct peer *peer = &daemon_.peer[i];
	ssize_t n = recv(peer->fd, peer->line + peer->used, LINE - 1 - peer->used, 0);
	char *end;

	if (n <= 0 || peer->used + (size_t)n == LINE - 1) {
		drop(i);
		return;
	}
	peer->used += (size_t)n;
	peer->line[peer->used] = '\0';
	end = strchr(peer->line, '\n');
	if (!end)
		return;
	*end = '\0';
	take_line(i);
}

static void admit(int fd, int by)
{
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);

	if (peer < 0)
		return;
	if (daemon_.peers == PEERS_MAX) {
		close(peer);
		return;
	}
	daemon_.peer[daemon_.peers++] = (struct peer){.fd = peer, .by = by};
}

/* The daemon's socket, and those of namespaces. */
static int watch_sockets(int fd, struct pollfd watched[NAMES_MAX + 1])
{
	watched[0] = (struct pollfd){.fd = fd, .events = POLLIN};
	for (int i = 0; i < NAMES_MAX; i++)
		watched[i + 1] = (struct pollfd){.fd = names_socket(i), .events = POLLIN};
	return NAMES_MAX + 1;
}

void mps_serve(int fd)
{
	static struct pollfd watched[NAMES_MAX + 1 + PEERS_MAX];

	while (!daemon_.quitting) {
		int count = daemon_.peers, sockets = watch_sockets(fd, watched);

		for (int i = 0; i < count; i++)
			watched[sockets + i] =
				(struct pollfd){.fd = daemon_.peer[i].fd, .events = POLLIN};
		if (poll(watched, (nfds_t)sockets + (nfds_t)count, -1) < 0)
			continue;
		/* First, as a command may remove a namespace. */
		for (int i = 0; i < sockets; i++)
			if (watched[i].revents)
				admit(watched[i].fd, i - 1);
		/* Backwards: a peer that goes is replaced by one that was already served. */
		for (int i = count - 1; i >= 0; i--)
			if (watched[sockets + i].revents)
				hear(i);
	}
	if (daemon_.server > 0)
		kill(daemon_.server, SIGKILL);
}
