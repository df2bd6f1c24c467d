/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API client and the server for figures, told line by line what to do (standard input), saying
 * line by line what happens (standard output). test_api.py and test_http.py speak to it.
 *
 *	open kubeconfig FILE | open account FOLDER | pace WHAT NUMBER | watch NAME PATH | close NAME
 *	ask NAME MS VERB PATH [TYPE [BODY]] | forget NAME | current NAME | finish | serve ADDRESS |
 * unserve when NAME EVENT COMMAND     run COMMAND inside the next callback of that kind, once
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "kube/api_inside.h"
#include "http/http.h"

enum { THINGS = 64, LINE_MAX_ = 64 << 10 };

struct thing {
	char name[32];
	struct api_watch *watch;
	struct api_asked *asked;
	char *when, *then; /* event and command */
};

struct client {
	struct loop loop;
	struct loop_watch input;
	struct api *api;
	struct http *http;
	struct thing things[THINGS];
	char line[LINE_MAX_];
	size_t held;
};

static struct client client;

static void obey(char *line);

static struct thing *thing_of(const char *name)
{
	for (size_t i = 0; i < THINGS; i++)
		if (strcmp(client.things[i].name, name) == 0)
			return &client.things[i];
	for (size_t i = 0; i < THINGS; i++) {
		if (!client.things[i].name[0]) {
			snprintf(client.things[i].name, sizeof(client.things[i].name), "%s", name);
			return &client.things[i];
		}
	}
	abort();
}

/* The work of this callback is done. */
static void happened(struct thing *thing, const char *event)
{
	char *then;

	if (!thing->when || strcmp(thing->when, event) != 0)
		return;
	then = take(thing->then);
	free(take(thing->when));
	obey(then);
	free(then);
}

static const char *text_in(const cJSON *object, const char *name)
{
	const cJSON *member = cJSON_GetObjectItemCaseSensitive(
		cJSON_GetObjectItemCaseSensitive(object, "metadata"), name);

	return cJSON_IsString(member) ? member->valuestring : "-";
}

static void on_begins(void *owner)
{
	struct thing *thing = owner;

	printf("%s begins\n", thing->name);
	happened(thing, "begins");
}

static void on_seen(void *owner, const cJSON *object)
{
	struct thing *thing = owner;

	printf("%s seen %s@%s\n", thing->name, text_in(object, "name"),
	       text_in(object, "resourceVersion"));
	happened(thing, "seen");
}

static void on_gone(void *owner, const cJSON *object)
{
	struct thing *thing = owner;

	printf("%s gone %s@%s\n", thing->name, text_in(object, "name"),
	       text_in(object, "resourceVersion"));
	happened(thing, "gone");
}

static void on_listed(void *owner)
{
	struct thing *thing = owner;

	printf("%s listed\n", thing->name);
	happened(thing, "listed");
}

static void on_troubled(void *owner, const char *problem)
{
	struct thing *thing = owner;

	if (problem)
		printf("%s troubled %s\n", thing->name, problem);
	else
		printf("%s well\n", thing->name);
	happened(thing, problem ? "troubled" : "well");
}

static void on_answered(void *owner, int status, const char *problem, const cJSON *object)
{
	struct thing *thing = owner;
	char *text = object ? cJSON_PrintUnformatted(object) : NULL;

	printf("%s answered %d %s | %s\n", thing->name, status, problem ? problem : "-",
	       text ? text : "-");
	free(text);
	happened(thing, "answered");
	thing->asked = NULL;
}

static const struct api_watcher watcher = {on_begins, on_seen, on_gone, on_listed, on_troubled};

static void do_open(char *how, char *where)
{
	struct api_place place = {0};
	struct fault why;

	if (strcmp(how, "kubeconfig") == 0)
		place.kubeconfig = where;
	else
		place.account_folder = where;
	if (api_open(&client.loop, &place, &client.api, &why) < 0)
		printf("refused %s\n", why.text);
	else
		printf("opened\n");
}

static void do_pace(const char *what, const char *number)
{
	struct api_pace *pace = &client.api->pace;
	uint64_t value = strtoull(number, NULL, 10);
	struct {
		const char *what;
		uint64_t *field;
	} times[] = {
		{"pause-least", &pace->pause_least_ns}, {"pause-most", &pace->pause_most_ns},
		{"connect", &pace->connect_ns},		{"answer", &pace->answer_ns},
		{"silence", &pace->silence_ns},		{"hasty", &pace->hasty_ns},
	};

	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		if (strcmp(times[i].what, what) == 0)
			*times[i].field = value * 1000000;
	if (strcmp(what, "watch") == 0)
		pace->watch_s = (unsigned)value;
	if (strcmp(what, "page") == 0)
		pace->page = (unsigned)value;
	if (strcmp(what, "most") == 0)
		pace->most_bytes = value;
}

static void do_watch(const char *name, const char *path)
{
	struct thing *thing = thing_of(name);
	int r = api_watch_open(client.api, path, &watcher, thing, &thing->watch);

	printf("%s watch %d\n", name, r);
}

static void do_ask(const char *name, const char *ms, char *rest)
{
	struct api_request request = {.within_ns = strtoull(ms, NULL, 10) * 1000000};
	struct thing *thing = thing_of(name);
	int r;

	request.verb = strsep(&rest, " ");
	request.path = strsep(&rest, " ");
	request.content = strsep(&rest, " ");
	request.body = rest;
	r = api_ask(client.api, &request, on_answered, thing, &thing->asked);
	if (r < 0)
		printf("%s ask %d\n", name, r);
}

static void finish(void)
{
	for (size_t i = 0; i < THINGS; i++) {
		api_watch_close(take(client.things[i].watch));
		api_forget(take(client.things[i].asked));
	}
	api_close(take(client.api));
	http_close(take(client.http));
	loop_unwatch(&client.input, NULL);
}

static void on_figures(void *owner, const struct http_request *request,
		       struct http_answer *ret_answer)
{
	const char *path = request->path;

	(void)owner;
	if (strcmp(path, "/metrics") == 0) {
		ret_answer->status = 200;
		ret_answer->type = "text/plain; version=0.0.4";
		ret_answer->body = strdup("mete_up 1\n");
		ret_answer->size = strlen(ret_answer->body);
	} else if (strcmp(path, "/large") == 0) {
		ret_answer->status = 200;
		ret_answer->size = 8 << 20;
		ret_answer->body = calloc(1, ret_answer->size);
	} else if (strcmp(path, "/healthz") == 0) {
		ret_answer->status = 200;
	} else if (strcmp(path, "/end") == 0) {
		ret_answer->status = 200;
		http_close(take(client.http));
	}
}

static void do_serve(const char *address)
{
	const struct http_service service = {.answer = on_figures};
	struct fault why;

	if (http_open(&client.loop, address, &service, &client.http, &why) < 0)
		printf("refused %s\n", why.text);
	else
		printf("serving %u\n", http_port(client.http));
}

static void obey_for(const char *verb, char *name, char *rest)
{
	struct thing *thing = thing_of(name);

	if (strcmp(verb, "watch") == 0) {
		do_watch(name, rest);
	} else if (strcmp(verb, "ask") == 0) {
		const char *ms = strsep(&rest, " ");

		do_ask(name, ms, rest);
	} else if (strcmp(verb, "close") == 0) {
		api_watch_close(take(thing->watch));
	} else if (strcmp(verb, "forget") == 0) {
		api_forget(take(thing->asked));
	} else if (strcmp(verb, "current") == 0) {
		printf("%s current %d\n", name, api_watch_is_current(thing->watch));
	} else if (strcmp(verb, "when") == 0) {
		free(thing->when);
		free(thing->then);
		thing->when = strdup(strsep(&rest, " "));
		thing->then = strdup(rest);
	} else {
		abort();
	}
}

static void obey(char *line)
{
	char *rest = line, *verb = strsep(&rest, " "), *first = strsep(&rest, " ");

	if (strcmp(verb, "finish") == 0)
		finish();
	else if (strcmp(verb, "serve") == 0)
		do_serve(first);
	else if (strcmp(verb, "unserve") == 0)
		http_close(take(client.http));
	else if (strcmp(verb, "open") == 0)
		do_open(first, rest);
	else if (strcmp(verb, "pace") == 0)
		do_pace(first, rest);
	else if (strcmp(verb, "say") == 0)
		printf("%s\n", first);
	else
		obey_for(verb, first, rest);
}

static void on_input(struct loop_watch *watch, int events)
{
	ssize_t n = read(0, client.line + client.held, sizeof(client.line) - client.held);
	char *end;

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		finish();
		return;
	}
	client.held += (size_t)n;
	while (watch->open && (end = memchr(client.line, '\n', client.held))) {
		size_t used = (size_t)(end - client.line) + 1;
		char line[LINE_MAX_];

		memcpy(line, client.line, used);
		line[used - 1] = 0;
		client.held -= used;
		memmove(client.line, end + 1, client.held);
		obey(line);
	}
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN); /* as meted does: OpenSSL knows no MSG_NOSIGNAL */
	setvbuf(stdout, NULL, _IOLBF, 0);
	fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
	if (loop_init(&client.loop) < 0 ||
	    loop_watch(&client.loop, &client.input, 0, LOOP_READ, on_input) < 0)
		return 1;
	loop_run(&client.loop);
	loop_done(&client.loop);
	for (size_t i = 0; i < THINGS; i++) {
		free(client.things[i].when);
		free(client.things[i].then);
	}
	printf("finished\n");
	return 0;
}
