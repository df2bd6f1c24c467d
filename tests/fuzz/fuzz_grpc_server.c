/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes from a peer: each call that a method got is ended by it or taken from it, once; the
 * server's bytes are HTTP/2; when the peer has left, nothing of it is held; and the server still
 * answers others.
 */
#include "tests/fuzz/grpc_fuzz.h"

enum { OPEN_MOST = 8192 };

static struct {
	struct loop loop;
	struct grpc_server *server;
	struct grpc_client *client;
	struct grpc_call *open[OPEN_MOST];
	size_t opened;
	unsigned called, over, answered, closed;
	int ready;
} f;

static void on_echo(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)owner;
	must(request.size <= GRPC_REQUEST_MAX);
	best_effort(grpc_send(call, request, false));
	grpc_end(call, GRPC_OK, NULL);
}

static void on_refuse(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)owner;
	grpc_end(call, GRPC_ABORTED, request.size ? "100 % für" : NULL);
}

/* Answers a few messages, and waits for more to happen. */
static void on_wait(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)owner;
	f.called++;
	must(f.opened < OPEN_MOST);
	grpc_call_keep(call, &f.open[f.opened]);
	f.open[f.opened++] = call;
	best_effort(grpc_send(call, request, true));
	best_effort(grpc_send(call, request, false));
	best_effort(grpc_send(call, request, true));
}

static void on_wait_gone(struct grpc_call *call, void *owner)
{
	struct grpc_call **slot = grpc_call_kept(call);

	(void)owner;
	must(*slot == call);
	*slot = NULL;
	f.over++;
	if (f.over % 3 == 0)
		grpc_end(call, GRPC_OK, "too late");
}

/* Ends all calls that wait, of whichever connection. */
static void on_release(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)owner;
	for (size_t i = 0; i < f.opened; i++) {
		if (!f.open[i])
			continue;
		best_effort(grpc_send(f.open[i], request, i % 2));
		grpc_end(f.open[i], GRPC_OK, NULL);
		f.open[i] = NULL;
		f.over++;
	}
	grpc_end(call, GRPC_OK, NULL);
}

static void on_closed(void *owner)
{
	(void)owner;
	f.closed++;
}

static void on_close(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)owner;
	if (request.size % 2)
		grpc_end(call, GRPC_OK, NULL);
	grpc_server_close(take(f.server), on_closed);
}

static const struct grpc_method methods[] = {
	{"/t/Echo", on_echo, NULL},	    {"/t/Refuse", on_refuse, NULL},
	{"/t/Wait", on_wait, on_wait_gone}, {"/t/Release", on_release, NULL},
	{"/t/Close", on_close, NULL},
};

static void open_server(void)
{
	struct fault why;
	char path[64];

	snprintf(path, sizeof(path), "/tmp/mete-fuzz-grpc-%d", (int)getpid());
	if (!f.ready) {
		must(loop_init(&f.loop) == 0);
		must(grpc_client_open(&f.loop, path, &f.client, &why) == 0);
	}
	f.ready = 1;
	if (f.server)
		return;
	must(grpc_server_open(&f.loop, path, 0600, methods, ARRAY_SIZE(methods), &f, &f.server,
			      &why) == 0);
	/* Nobody dials: all connections are pairs. */
	unlink(path);
}

static void on_answered(void *owner, enum grpc_status status, const char *message,
			struct grpc_bytes answer)
{
	(void)owner;
	(void)message;
	must(status == GRPC_OK && answer.size == 5 && memcmp(answer.data, "hello", 5) == 0);
	f.answered++;
}

static void must_still_answer(void)
{
	struct grpc_asked *asked;
	unsigned before = f.answered;
	int pair[2];

	if (!f.client->current) {
		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
		must(grpc_server_take(f.server, pair[0]) == 0);
		must(grpc_client_take(f.client, pair[1]) == 0);
	}
	must(grpc_ask(f.client, "/t/Echo", (struct grpc_bytes){(const uint8_t *)"hello", 5}, 0,
		      on_answered, &f, &asked) == 0);
	while (f.answered == before)
		uv_run(&f.loop.uv, UV_RUN_ONCE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned inputs;
	struct grpc_server *server;
	struct fuzz_wire wire;
	unsigned closed = f.closed;

	open_server();
	server = f.server;
	f.opened = 0;
	f.called = f.over = 0;
	must(grpc_server_take(f.server, fuzz_pair(&wire, &f.loop, 0)) == 0);
	fuzz_say(&wire, data, size);
	if (f.server != server) /* it was closed by a method */
		while (f.closed == closed)
			uv_run(&f.loop.uv, UV_RUN_ONCE);
	else
		must(f.server->held == 0);
	must(f.called == f.over);
	open_server();
	if (inputs++ % 64 == 0)
		must_still_answer();
	return 0;
}
