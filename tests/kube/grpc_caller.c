/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grpc_caller SOCKET: a client by kube/grpc.h, for other languages' servers. Reads lines
 *
 *	ask NAME PATH WITHIN_MS TEXT     or #N for a request of N bytes
 *	forget NAME
 *
 * and prints "NAME STATUS SIZE SUM ANSWER|MESSAGE" for each call: the first bytes of the answer, or
 * the status' sentence. SUM is that of all bytes.
 */
#include <string.h>

#include "base/list.h"
#include "kube/grpc.h"
#include "tests/check.h"

enum { INPUT = 1 << 16 };

struct one {
	struct list link;
	struct grpc_asked *asked;
	char name[32];
};

static struct {
	struct loop loop;
	struct grpc_client *client;
	struct loop_watch input;
	struct list ones;
	char text[INPUT];
	size_t size;
} c;

static void on_answered(void *owner, enum grpc_status status, const char *message,
			struct grpc_bytes answer)
{
	struct one *one = owner;
	unsigned long sum = 0;

	for (size_t i = 0; i < answer.size; i++)
		sum += answer.data[i];
	printf("%s %d %zu %lu ", one->name, (int)status, answer.size, sum);
	if (status == GRPC_OK)
		printf("%.*s\n", (int)(answer.size < 100 ? answer.size : 100),
		       (const char *)answer.data);
	else
		printf("%s\n", message);
	list_remove(&one->link);
	free(one);
}

static void ask(const char *name, const char *path, const char *within_ms, const char *text)
{
	size_t size = *text == '#' ? strtoul(text + 1, NULL, 10) : strlen(text);
	owned(free) char *request = calloc(1, size + 1);
	struct one *one = calloc(1, sizeof(*one));

	check(request && one);
	if (*text != '#')
		memcpy(request, text, size);
	snprintf(one->name, sizeof(one->name), "%s", name);
	list_append(&c.ones, &one->link);
	check(grpc_ask(c.client, path, (struct grpc_bytes){(uint8_t *)request, size},
		       strtoull(within_ms, NULL, 10) * 1000000, on_answered, one,
		       &one->asked) == 0);
}

static void forget(const char *name)
{
	list_for_each(link, &c.ones)
	{
		struct one *one = list_entry(link, struct one, link);

		if (strcmp(one->name, name) != 0)
			continue;
		grpc_forget(one->asked);
		list_remove(&one->link);
		free(one);
	}
}

static void obey(char *line)
{
	char *rest = line, *word = strsep(&rest, " "), *name = strsep(&rest, " ");

	check(word && name);
	if (strcmp(word, "ask") == 0) {
		char *path = strsep(&rest, " "), *within = strsep(&rest, " ");

		check(path && within);
		ask(name, path, within, rest ? rest : "");
	} else {
		check(strcmp(word, "forget") == 0);
		forget(name);
	}
}

static void on_input(struct loop_watch *watch, int events)
{
	ssize_t n = read(watch->fd, c.text + c.size, sizeof(c.text) - c.size);
	char *begin = c.text, *end;

	(void)events;
	if (n <= 0) {
		loop_unwatch(watch, NULL);
		grpc_client_close(c.client);
		return;
	}
	c.size += (size_t)n;
	while ((end = memchr(begin, '\n', c.size - (size_t)(begin - c.text)))) {
		*end = '\0';
		obey(begin);
		begin = end + 1;
	}
	c.size -= (size_t)(begin - c.text);
	memmove(c.text, begin, c.size);
}

int main(int argc, char **argv)
{
	struct fault why = {""};

	check(argc == 2);
	setvbuf(stdout, NULL, _IOLBF, 0);
	list_init(&c.ones);
	check(loop_init(&c.loop) == 0);
	if (grpc_client_open(&c.loop, argv[1], &c.client, &why) < 0) {
		fprintf(stderr, "grpc_caller: %s\n", why.text);
		return 1;
	}
	check(loop_watch(&c.loop, &c.input, 0, LOOP_READ, on_input) == 0);
	loop_run(&c.loop);
	loop_done(&c.loop);
	while (!list_empty(&c.ones)) {
		struct one *one = list_entry(c.ones.next, struct one, link);

		list_remove(&one->link);
		free(one);
	}
	return 0;
}
