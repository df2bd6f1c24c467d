/* SPDX-License-Identifier: Apache-2.0 */
/* A server that ends, and another one that goes on with its socket (grpc_server_leave(),
 * grpc_server_inherit()): no call fails, whenever it is made. */
#include "tests/unit/grpc_fixture.h"

#include <fcntl.h>
#include <sys/un.h>

enum { ROUNDS = 12 };

static struct {
	struct grpc_server *server; /* t.server's heir */
	unsigned left;
} heir;

static void on_left(void *owner)
{
	expect(owner == &t);
	heir.left++;
}

/* As in another process: it has a descriptor of its own, and holds the socket. */
static void given_an_heir(void)
{
	int fd = dup(grpc_server_socket(t.server));
	struct fault why = {""};

	heir.left = 0;
	expect_eq(grpc_server_inherit(&t.loop, fd, t.folder, methods, ARRAY_SIZE(methods), &t,
				      &heir.server, &why),
		  0);
	close(fd);
	expect_str(grpc_server_path(heir.server), t.path);
}

static void given_both(void)
{
	given_a_server();
	given_a_client();
	given_an_heir();
}

static bool is_there(void)
{
	struct stat about;

	return lstat(t.path, &about) == 0;
}

static void then_the_heir_ends_last(void)
{
	grpc_server_close(take(t.server), NULL);
	settle();
	expect(is_there());
	t.server = take(heir.server);
	then_all_ends();
}

static void answer(unsigned i)
{
	expect_eq(grpc_send(t.open[i], text_bytes_of("done"), false), 0);
	grpc_end(t.open[i], GRPC_OK, NULL);
}

TEST(a_leaving_server_answers_its_calls_and_the_heir_all_later_ones)
{
	given_both();
	ask("/t/Wait", "", 0);
	until(t.opened == 1);
	expect(grpc_server_leave(t.server, true, on_left));
	settle();
	expect_eq(heir.left, 0);
	ask("/t/Echo", "later", 0);
	settle();
	expect_eq(t.answered, 0);
	answer(0);
	until(heir.left);
	until(t.answered == 1);
	expect_str(t.answer, "done");
	settle();
	expect_eq(t.called, 1);
	grpc_server_go_on(heir.server, &t);
	until(t.answered == 2);
	expect_eq(t.ok, 2);
	expect_str(t.answer, "later");
	then_the_heir_ends_last();
}

/* The connection is open and idle, and the call is sent at each instant of the leave. */
TEST(a_call_that_crosses_the_leave_is_answered)
{
	for (int rounds = 0; rounds < ROUNDS; rounds++) {
		given_both();
		ask("/t/Echo", "first", 0);
		until(t.answered == 1);
		expect(grpc_server_leave(t.server, true, on_left));
		for (int i = 0; i < rounds; i++)
			uv_run(&t.loop.uv, UV_RUN_NOWAIT);
		ask("/t/Echo", "second", 0);
		until(heir.left);
		grpc_server_close(take(t.server), NULL);
		grpc_server_go_on(heir.server, &t);
		until(t.answered == 2);
		expect_eq(t.ok, 2);
		expect_str(t.answer, "second");
		then_the_heir_ends_last();
	}
}

TEST(a_call_that_is_not_answered_in_time_is_made_again)
{
	given_both();
	ask("/t/Wait", "", 0);
	until(t.opened == 1);
	expect(grpc_server_leave(t.server, true, on_left));
	settle();
	grpc_server_close(take(t.server), on_server_closed);
	until(t.closed == 1);
	expect_eq(t.gone, 1);
	expect_eq(t.answered, 0);
	expect_eq(heir.left, 0);
	grpc_server_go_on(heir.server, &t);
	until(t.opened == 2);
	answer(1);
	until(t.answered);
	expect_eq(t.status, GRPC_OK);
	t.closed = 0;
	then_the_heir_ends_last();
}

TEST(without_callers_nobody_is_waited_for)
{
	given_both();
	expect(!grpc_server_leave(t.server, true, on_left));
	settle();
	expect_eq(heir.left, 0);
	then_the_heir_ends_last();
}

TEST(without_an_heir_the_socket_goes_too)
{
	given_a_server();
	given_a_client();
	heir.left = 0;
	ask("/t/Wait", "", 0);
	until(t.opened == 1);
	expect(grpc_server_leave(t.server, false, on_left));
	settle();
	grpc_server_close(take(t.server), NULL);
	until(t.answered);
	expect_eq(t.status, GRPC_UNAVAILABLE);
	expect(!is_there());
	then_all_ends();
}

/* It asks nobody whether it has heard, and closes nothing. */
TEST(a_silent_caller_is_not_waited_for_at_the_close)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	given_both();
	strcpy(address.sun_path, t.path);
	expect_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	settle();
	expect(grpc_server_leave(t.server, true, on_left));
	settle();
	expect_eq(heir.left, 0);
	then_the_heir_ends_last();
	close(fd);
}

static void then_it_is_refused(int fd, const char *within)
{
	struct fault why = {""};

	expect_eq(grpc_server_inherit(&t.loop, fd, within, methods, ARRAY_SIZE(methods), &t,
				      &heir.server, &why),
		  -EBADF);
	expect(*why.text);
}

TEST(only_a_socket_that_listens_at_its_path_is_inherited)
{
	int pair[2], file = open("/dev/null", O_RDONLY | O_CLOEXEC);

	given_a_server();
	expect_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	then_it_is_refused(pair[0], "");
	then_it_is_refused(file, "");
	then_it_is_refused(grpc_server_socket(t.server), "/elsewhere/");
	expect(is_there());
	expect_eq(unlink(t.path), 0);
	then_it_is_refused(grpc_server_socket(t.server), t.folder);
	close(pair[0]);
	close(pair[1]);
	close(file);
	then_all_ends();
}
