/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mps/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/mps/daemon.h"

enum { NAME = 65, WORDS_MAX = 8, WORD = 128, DEVICES = 16 };

struct name {
	char server[NAME], name[NAME];
	double percentage;
	char limit[16]; /* "": none */
	int fd;		/* of its socket */
	pid_t process;	/* of a default namespace: its server's */
};

static struct name names[NAMES_MAX];

/* The words of a command, its options apart. */
struct command {
	char word[WORDS_MAX][WORD];
	int words;
	char option[WORDS_MAX][WORD];
	int options;
};

static void read_command(const char *line, struct command *c)
{
	char text[1024], *at = text, *word;

	memset(c, 0, sizeof(*c));
	snprintf(text, sizeof(text), "%s", line);
	while ((word = strsep(&at, " "))) {
		bool option = strncmp(word, "--", 2) == 0;
		int *count = option ? &c->options : &c->words;

		if (!*word || *count == WORDS_MAX)
			continue;
		snprintf(option ? c->option[*count] : c->word[*count], WORD, "%s",
			 word + (option ? 2 : 0));
		(*count)++;
	}
}

static const char *option(const struct command *c, const char *name)
{
	size_t length = strlen(name);

	for (int i = 0; i < c->options; i++)
		if (strncmp(c->option[i], name, length) == 0 &&
		    (!c->option[i][length] || c->option[i][length] == '='))
			return c->option[i] + length + (c->option[i][length] == '=');
	return NULL;
}

/* ---- names --------------------------------------------------------------------------------- */

static bool is_name(const char *text)
{
	size_t length = strlen(text);

	return length && length < NAME &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static int find(const char *server, const char *name)
{
	for (int i = 0; i < NAMES_MAX; i++)
		if (*names[i].server && strcmp(names[i].server, server) == 0 &&
		    strcmp(names[i].name, name) == 0)
			return i;
	return NAMES_NONE;
}

static void path_of(const struct name *n, char ret_path[512])
{
	snprintf(ret_path, 512, "%s/%s/%s", mps_folder(), n->server, n->name);
}

/* A former daemon may have left the folder: containers have it mounted. */
static int make(const char *server, const char *name)
{
	char path[512];
	int i = 0;

	while (i < NAMES_MAX && *names[i].server)
		i++;
	if (i == NAMES_MAX)
		return NAMES_NONE;
	names[i] = (struct name){.percentage = 100};
	snprintf(names[i].server, NAME, "%s", server);
	snprintf(names[i].name, NAME, "%s", name);
	snprintf(path, sizeof(path), "%s/%s", mps_folder(), server);
	mkdir(path, 0755);
	path_of(&names[i], path);
	mkdir(path, 0755);
	names[i].fd = mps_listen(path);
	if (names[i].fd >= 0)
		return i;
	*names[i].server = '\0';
	return NAMES_NONE;
}

static void drop(int i)
{
	char path[512], socket[600];

	close(names[i].fd);
	path_of(&names[i], path);
	snprintf(socket, sizeof(socket), "%s/control", path);
	unlink(socket);
	rmdir(path);
	if (names[i].process > 0)
		mps_end_server(names[i].process);
	names[i] = (struct name){.fd = -1};
}

int names_socket(int name)
{
	return *names[name].server ? names[name].fd : -1;
}

void names_join(int name, char *answer)
{
	const struct name *n = name == NAMES_NONE ? NULL : &names[name];
	char path[512];
	struct stat info;

	snprintf(path, sizeof(path), "%s/%s", mps_folder(), n ? n->server : "");
	if (stat(path, &info) < 0)
		return;
	mps_print(answer, "ok %" PRIu32 " %.0f ", (uint32_t)info.st_ino | 1u << 31,
		  (n ? n->percentage : 100) * 10);
	for (int i = 0; n && *n->limit && i < DEVICES; i++)
		mps_print(answer, "%d=%s ", i, n->limit);
	mps_print(answer, "\n");
}

/* ---- limits -------------------------------------------------------------------------------- */

static bool is_limit(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits && digits < 12 && text[digits] && strchr("KMG", text[digits]) &&
	       !text[digits + 1];
}

static bool is_percentage(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	return digits && !text[digits] && atoi(text) >= 1 && atoi(text) <= 100;
}

static void set(const struct command *c, int i, char *answer)
{
	const char *percentage = option(c, "active-thread-percentage"),
		   *limit = option(c, "pinned-memory-limit");

	if (mps_has_clients(i))
		mps_print(answer, "!the namespace has active clients\n");
	else if ((percentage && !is_percentage(percentage)) || (limit && !is_limit(limit)) ||
		 (!percentage && !limit))
		mps_print(answer, "!invalid value\n");
	if (*answer)
		return;
	if (percentage)
		names[i].percentage = atoi(percentage);
	if (limit)
		snprintf(names[i].limit, sizeof(names[i].limit), "%s", limit);
}

/* ---- server -------------------------------------------------------------------------------- */

static void server_create(const struct command *c, char *answer)
{
	const char *uid = option(c, "uid");
	int i;

	if (!is_name(c->word[2]) || find(c->word[2], "default") != NAMES_NONE)
		mps_print(answer, "!invalid or existing server name\n");
	else if (uid && mps_is_multiuser() && strcmp(uid, "0") != 0)
		mps_print(answer, "!in multiuser mode only uid 0 is allowed\n");
	if (*answer)
		return;
	i = make(c->word[2], "default");
	if (i == NAMES_NONE)
		mps_print(answer, "!no socket for the server\n");
	else
		names[i].process = mps_begin_server();
}

static void server_list(const struct command *c, char *answer)
{
	bool found = false;

	for (int i = 0; i < NAMES_MAX; i++) {
		if (!*names[i].server || strcmp(names[i].name, "default") != 0 ||
		    (c->words > 2 && strcmp(names[i].server, c->word[2]) != 0))
			continue;
		found = true;
		mps_print(answer, "%s,%u,%d,Ready,%s/%s,-,-\n", names[i].server, (unsigned)getuid(),
			  (int)names[i].process, mps_folder(), names[i].server);
	}
	if (c->words > 2 && !found)
		mps_print(answer, "!no such server\n");
}

static void server_set(const struct command *c, char *answer)
{
	int i = find(c->word[2], "default");

	if (i == NAMES_NONE)
		mps_print(answer, "!no such server\n");
	else
		set(c, i, answer);
}

static void server_delete(const struct command *c, char *answer)
{
	int gone = 0;

	for (int i = 0; i < NAMES_MAX; i++)
		if (strcmp(names[i].server, c->word[2]) == 0 && mps_has_clients(i) &&
		    !option(c, "force"))
			mps_print(answer, "!the server has active clients\n");
	for (int i = 0; i < NAMES_MAX && !*answer; i++)
		if (*names[i].server && strcmp(names[i].server, c->word[2]) == 0) {
			drop(i);
			gone++;
		}
	if (!gone && !*answer)
		mps_print(answer, "!no such server\n");
}

/* ---- namespace ----------------------------------------------------------------------------- */

static int find_said(const struct command *c, char *answer)
{
	const char *server = option(c, "server");
	int i = server ? find(server, c->word[2]) : NAMES_NONE;

	if (i == NAMES_NONE)
		mps_print(answer, "!no such namespace\n");
	return i;
}

static void namespace_create(const struct command *c, char *answer)
{
	const char *server = option(c, "server");

	if (!server || find(server, "default") == NAMES_NONE)
		mps_print(answer, "!no such server\n");
	else if (!is_name(c->word[2]) || find(server, c->word[2]) != NAMES_NONE)
		mps_print(answer, "!invalid or existing namespace name\n");
	else if (make(server, c->word[2]) == NAMES_NONE)
		mps_print(answer, "!no socket for the namespace\n");
}

static void namespace_set(const struct command *c, char *answer)
{
	int i = find_said(c, answer);

	if (i != NAMES_NONE)
		set(c, i, answer);
}

static void namespace_delete(const struct command *c, char *answer)
{
	int i = find_said(c, answer);

	if (i == NAMES_NONE)
		return;
	if (mps_has_clients(i) && !option(c, "force"))
		mps_print(answer, "!the namespace has active clients\n");
	else
		drop(i);
}

static void namespace_list(const struct command *c, char *answer)
{
	const char *server = option(c, "server");
	bool found = false;

	for (int i = 0; i < NAMES_MAX; i++) {
		const struct name *n = &names[i];

		if (!*n->server || (server && strcmp(n->server, server) != 0) ||
		    (c->words > 2 && strcmp(n->name, c->word[2]) != 0))
			continue;
		found = true;
		mps_print(answer, "%s,%s,Ready,%s,%.2f,0,%s/%s/%s\n", n->name, n->server,
			  *n->limit ? n->limit : "-", n->percentage, mps_folder(), n->server,
			  n->name);
	}
	if (c->words > 2 && !found)
		mps_print(answer, "!no such namespace\n");
}

static void client_list(unused const struct command *c, char *answer)
{
	for (int i = 0; i < NAMES_MAX; i++)
		if (*names[i].server)
			mps_print_clients(i, names[i].server, names[i].name, answer);
}

/* -------------------------------------------------------------------------------------------- */

static const struct {
	const char *module, *verb;
	void (*answer)(const struct command *c, char *answer);
	bool changes; /* only the daemon's own user may */
} commands[] = {
	{"server", "create", server_create, true},
	{"server", "delete", server_delete, true},
	{"server", "list", server_list, false},
	{"server", "set", server_set, true},
	{"namespace", "create", namespace_create, true},
	{"namespace", "delete", namespace_delete, true},
	{"namespace", "list", namespace_list, false},
	{"namespace", "set", namespace_set, true},
	{"client", "list", client_list, false},
};

void names_command(const char *line, uid_t who, char *answer)
{
	struct command c;

	read_command(line, &c);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (strcmp(commands[i].module, c.word[0]) != 0 ||
		    strcmp(commands[i].verb, c.word[1]) != 0)
			continue;
		if (commands[i].changes && who != getuid())
			mps_print(answer, "!insufficient privileges for UID %u\n", (unsigned)who);
		else
			commands[i].answer(&c, answer);
		return;
	}
	mps_print(answer, "!no command of protocol 3\n");
}
