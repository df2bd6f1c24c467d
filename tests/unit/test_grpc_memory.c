/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of the server, the client and nghttp2 fails once, in its turn. */
#include "tests/unit/grpc_fixture.h"

/* The loop's own have to work: libuv gives up without them. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *old);

static struct {
	long left; /* until one fails; <0: none does */
	unsigned failed;
} memory = {.left = -1};

static bool fails(void)
{
	if (memory.left < 0 || memory.left-- > 0)
		return false;
	memory.failed++;
	errno = ENOMEM;
	return true;
}

exported void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

exported void *calloc(size_t count, size_t size)
{
	return fails() ? NULL : __libc_calloc(count, size);
}

exported void *realloc(void *old, size_t size)
{
	return fails() ? NULL : __libc_realloc(old, size);
}

static unsigned asked;
static bool left_answered;

static void on_left_answered(void *owner, enum grpc_status status, const char *message,
			     struct grpc_bytes answer)
{
	left_answered = true;
	on_answered(owner, status, message, answer);
}

static struct grpc_asked *try_ask(const char *path, const char *request,
				  void (*answered)(void *, enum grpc_status, const char *,
						   struct grpc_bytes))
{
	struct grpc_asked *call = NULL;
	int r = grpc_ask(t.client, path, text_bytes_of(request), 600000000000, answered, &t, &call);

	expect(r == 0 || r == -ENOMEM);
	asked += r == 0;
	return call;
}

/* Everything that a call may meet. */
static void use(void)
{
	struct grpc_asked *left;

	try_ask("/t/Echo", "hello", on_answered);
	try_ask("/t/Refuse", "100 %", on_answered);
	try_ask("/t/Nowhere", "", on_answered);
	left_answered = false;
	left = try_ask("/t/Wait", "", on_left_answered);
	settle();
	/* It may have been answered already, with a failure. */
	if (left && !left_answered && t.opened == 1 && t.open[0]) {
		grpc_forget(left);
		asked--;
	}
	settle();
	for (unsigned i = 0; i < t.opened; i++)
		if (t.open[i])
			best_effort(grpc_send(t.open[i], text_bytes_of("state"), true));
	settle();
}

TEST(without_memory_calls_fail_and_the_next_ones_do_not)
{
	unsigned runs = 0;

	uv_replace_allocator(__libc_malloc, __libc_realloc, __libc_calloc, __libc_free);
	do {
		given_a_server();
		given_a_client();
		asked = 0;
		memory.failed = 0;
		memory.left = runs;
		use();
		memory.left = -1;
		/* A caller that a server without memory does not answer has a deadline; here, a new
		 * life. */
		grpc_server_close(take(t.server), on_server_closed);
		until(t.closed && t.answered == asked);
		expect(memory.failed <= 1);
		expect_eq(t.gone + 0, t.opened);
		t.server = NULL;
		given_a_successor();
		try_ask("/t/Echo", "again", on_answered);
		until(t.answered == asked);
		expect_eq(t.status, GRPC_OK);
		expect_str(t.answer, "again");
		t.closed = 0;
		then_all_ends();
		runs++;
	} while (memory.failed);
	expect(runs > 50);
}
