/* SPDX-License-Identifier: Apache-2.0 */
/* A loop, a folder, and a server with a method of each kind, for the tests of kube/grpc.h. */
#pragma once

#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "kube/grpc_ask.h"
#include "kube/grpc_serve.h"
#include "tests/test.h"

enum { ASKS = 1200, PATIENCE_S = 240 };

static struct {
	struct loop loop;
	struct grpc_server *server;
	struct grpc_client *client;
	char folder[64], path[96];
	/* Seen by the server's methods. */
	struct grpc_call *open[ASKS]; /* calls of /t/Wait that are not over */
	unsigned called, gone, opened, closed;
	/* The client's answers. */
	unsigned answered, ok;
	enum grpc_status status;
	char message[GRPC_MESSAGE_MAX + 1];
	char answer[64];
	size_t answer_size;
} t;

static void on_echo(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	expect(owner == &t);
	t.called++;
	if (grpc_send(call, request, false) < 0)
		grpc_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	else
		grpc_end(call, GRPC_OK, NULL);
}

static void on_refuse(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	owned(free) char *text = strndup((const char *)request.data, request.size);

	(void)owner;
	t.called++;
	grpc_end(call, GRPC_FAILED_PRECONDITION, text);
}

static void on_wait(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)request;
	(void)owner;
	t.called++;
	expect(grpc_call_kept(call) == NULL);
	grpc_call_keep(call, &t.open[t.opened]);
	t.open[t.opened++] = call;
}

static void on_wait_gone(struct grpc_call *call, void *owner)
{
	struct grpc_call **slot = grpc_call_kept(call);

	expect(owner == &t && *slot == call);
	*slot = NULL;
	t.gone++;
	/* Legal, and without effect. */
	best_effort(grpc_send(call, (struct grpc_bytes){(const uint8_t *)"x", 1}, true));
}

static const struct grpc_method methods[] = {
	{"/t/Echo", on_echo, NULL},
	{"/t/Refuse", on_refuse, NULL},
	{"/t/Wait", on_wait, on_wait_gone},
};

static unused struct grpc_bytes text_bytes_of(const char *text)
{
	return (struct grpc_bytes){(const uint8_t *)text, strlen(text)};
}

static void on_answered(void *owner, enum grpc_status status, const char *message,
			struct grpc_bytes answer)
{
	expect(owner == &t);
	t.answered++;
	t.ok += status == GRPC_OK;
	t.status = status;
	snprintf(t.message, sizeof(t.message), "%s", message);
	t.answer_size = answer.size;
	snprintf(t.answer, sizeof(t.answer), "%.*s", (int)answer.size, (const char *)answer.data);
	expect(status == GRPC_OK || answer.size == 0);
}

static unused struct grpc_asked *ask(const char *path, const char *request, uint64_t within_ms)
{
	struct grpc_asked *asked = NULL;

	expect_eq(grpc_ask(t.client, path, text_bytes_of(request), within_ms * 1000000, on_answered,
			   &t, &asked),
		  0);
	return asked;
}

/* All that can happen by itself has happened: both ends are in this thread, so that a message is
 * there as soon as it is sent. */
static unused void settle(void)
{
	for (int i = 0; i < 8; i++)
		uv_run(&t.loop.uv, UV_RUN_NOWAIT);
}

#define until(condition)                                                                           \
	do {                                                                                       \
		while (!(condition))                                                               \
			uv_run(&t.loop.uv, UV_RUN_ONCE);                                           \
	} while (0)

/* Until what never comes. */
static void on_alarm(int signal)
{
	(void)signal;
	dprintf(STDERR_FILENO,
		"nothing more happens: %u called, %u opened, %u gone, %u answered, %u closed\n",
		t.called, t.opened, t.gone, t.answered, t.closed);
	_exit(1);
}

static void given_nothing(void)
{
	memset(&t, 0, sizeof(t));
	signal(SIGALRM, on_alarm);
	alarm(PATIENCE_S);
	strcpy(t.folder, "/tmp/mete-grpc-XXXXXX");
	expect(mkdtemp(t.folder) != NULL);
	snprintf(t.path, sizeof(t.path), "%s/socket", t.folder);
	expect_eq(loop_init(&t.loop), 0);
}

static unused void given_a_successor(void)
{
	struct fault why = {""};

	expect_eq(grpc_server_open(&t.loop, t.path, 0600, methods, ARRAY_SIZE(methods), &t,
				   &t.server, &why),
		  0);
}

static unused void given_a_server(void)
{
	given_nothing();
	given_a_successor();
}

static unused void given_a_client(void)
{
	struct fault why = {""};

	expect_eq(grpc_client_open(&t.loop, t.path, &t.client, &why), 0);
}

static void on_server_closed(void *owner)
{
	expect(owner == &t);
	t.closed++;
}

/* Everything ends, and nothing is left: the loop would not end, the leak checker would see. */
static unused void then_all_ends(void)
{
	grpc_client_close(t.client);
	grpc_server_close(t.server, on_server_closed);
	loop_done(&t.loop);
	expect(t.server == NULL || t.closed == 1);
	expect_eq(rmdir(t.folder), 0);
}
