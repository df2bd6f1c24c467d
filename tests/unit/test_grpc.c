/* SPDX-License-Identifier: Apache-2.0 */
/* The server and the client of kube/grpc.h with each other, on real sockets. */
#include "tests/unit/grpc_fixture.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/un.h>

TEST(a_call_is_answered)
{
	given_a_server();
	given_a_client();
	ask("/t/Echo", "hello", 0);
	expect_eq(t.answered, 0);
	until(t.answered);
	expect_eq(t.status, GRPC_OK);
	expect_str(t.answer, "hello");
	ask("/t/Echo", "", 0);
	until(t.answered == 2);
	expect_eq(t.status, GRPC_OK);
	expect_eq(t.answer_size, 0);
	then_all_ends();
}

TEST(a_refusal_brings_its_sentence)
{
	static const char text[] = "100 % of für-1 is taken: 日本 😀";

	given_a_server();
	given_a_client();
	ask("/t/Refuse", text, 0);
	until(t.answered);
	expect_eq(t.status, GRPC_FAILED_PRECONDITION);
	expect_str(t.message, text);
	ask("/t/Nothing", "", 0);
	until(t.answered == 2);
	expect_eq(t.status, GRPC_UNIMPLEMENTED);
	then_all_ends();
}

TEST(a_thousand_calls_at_once_and_more_are_answered)
{
	given_a_server();
	given_a_client();
	for (unsigned i = 0; i < ASKS; i++)
		ask("/t/Echo", "hello", 0);
	until(t.answered == ASKS);
	expect_eq(t.ok, ASKS);
	/* More than the server takes at once wait for their turn. */
	for (unsigned i = 0; i < ASKS; i++)
		ask("/t/Wait", "", 0);
	settle();
	until(t.opened == GRPC_CALLS_MAX);
	settle();
	expect_eq(t.opened, GRPC_CALLS_MAX);
	for (unsigned i = 0; i < GRPC_CALLS_MAX; i++)
		grpc_end(t.open[i], GRPC_ABORTED, NULL);
	until(t.opened == ASKS);
	for (unsigned i = GRPC_CALLS_MAX; i < ASKS; i++)
		grpc_end(t.open[i], GRPC_ABORTED, NULL);
	until(t.answered == 2 * ASKS);
	expect_eq(t.status, GRPC_ABORTED);
	expect_eq(t.gone, 0);
	then_all_ends();
}

TEST(a_request_of_4_mib_is_taken_and_one_byte_more_is_not)
{
	struct grpc_asked *asked;
	owned(free) uint8_t *request = calloc(1, GRPC_REQUEST_MAX + 1);

	given_a_server();
	given_a_client();
	expect_eq(grpc_ask(t.client, "/t/Echo", (struct grpc_bytes){request, GRPC_REQUEST_MAX}, 0,
			   on_answered, &t, &asked),
		  0);
	until(t.answered);
	expect_eq(t.status, GRPC_OK);
	expect_eq(t.answer_size, GRPC_REQUEST_MAX);
	expect_eq(grpc_ask(t.client, "/t/Echo", (struct grpc_bytes){request, GRPC_REQUEST_MAX + 1},
			   0, on_answered, &t, &asked),
		  -EMSGSIZE);
	then_all_ends();
}

TEST(a_deadline_ends_the_call_on_both_sides)
{
	given_a_server();
	given_a_client();
	ask("/t/Wait", "", 1);
	until(t.answered);
	expect_eq(t.status, GRPC_DEADLINE_EXCEEDED);
	until(t.gone == t.called);
	/* It may have passed before the call came to the server. */
	ask("/t/Wait", "", 60000);
	ask("/t/Echo", "hello", 60000);
	until(t.answered == 2);
	expect_str(t.answer, "hello");
	then_all_ends();
}

TEST(a_caller_that_forgets_its_call_is_seen_to_leave)
{
	struct grpc_asked *asked;

	given_a_server();
	given_a_client();
	asked = ask("/t/Wait", "", 0);
	until(t.called);
	grpc_forget(asked);
	until(t.gone);
	expect_eq(t.answered, 0);
	/* Before it is sent, too. */
	grpc_forget(ask("/t/Wait", "", 0));
	ask("/t/Echo", "", 0);
	until(t.answered);
	expect_eq(t.called, 2);
	then_all_ends();
}

TEST(a_missing_server_is_reported_as_unavailable_from_the_loop)
{
	given_nothing();
	given_a_client();
	ask("/t/Echo", "", 0);
	expect_eq(t.answered, 0);
	until(t.answered);
	expect_eq(t.status, GRPC_UNAVAILABLE);
	expect(strstr(t.message, t.path) != NULL);
	then_all_ends();
}

TEST(a_server_that_comes_back_is_found_again)
{
	struct fault why = {""};

	given_a_server();
	given_a_client();
	ask("/t/Echo", "one", 0);
	until(t.answered == 1);
	for (unsigned round = 1; round <= 3; round++) {
		ask("/t/Wait", "", 0);
		until(t.opened == round);
		grpc_server_close(t.server, on_server_closed);
		until(t.closed == round && t.answered == 2 * round);
		expect_eq(t.status, GRPC_UNAVAILABLE);
		expect_eq(t.gone, round);
		expect_eq(grpc_server_open(&t.loop, t.path, 0600, methods, ARRAY_SIZE(methods), &t,
					   &t.server, &why),
			  0);
		ask("/t/Echo", "back", 0);
		until(t.answered == 2 * round + 1);
		expect_str(t.answer, "back");
	}
	t.closed = 0;
	then_all_ends();
}

/* The server dies and comes back before the client's loop has gone round: the call that is asked
 * then goes to the new one. */
TEST(a_dead_connection_is_noticed_before_a_call_is_lost_on_it)
{
	int pair[2];

	given_a_server();
	given_a_client();
	expect_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	expect_eq(grpc_client_take(t.client, pair[0]), 0);
	close(pair[1]);
	ask("/t/Echo", "alive", 0);
	until(t.answered);
	expect_str(t.answer, "alive");
	then_all_ends();
}

TEST(a_server_that_accepts_and_never_answers_is_given_up_at_the_deadline)
{
	int pair[2];

	given_a_server();
	given_a_client();
	expect_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	expect_eq(grpc_client_take(t.client, pair[0]), 0);
	ask("/t/Echo", "", 1);
	until(t.answered);
	expect_eq(t.status, GRPC_DEADLINE_EXCEEDED);
	ask("/t/Echo", "elsewhere", 0);
	until(t.answered == 2);
	expect_str(t.answer, "elsewhere");
	close(pair[1]);
	then_all_ends();
}

TEST(a_call_that_was_sent_to_a_server_that_dies_is_not_sent_twice)
{
	int pair[2];
	uint8_t buffer[4096];

	given_a_server();
	given_a_client();
	expect_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	expect_eq(grpc_client_take(t.client, pair[0]), 0);
	ask("/t/Echo", "once", 0);
	settle();
	expect(recv(pair[1], buffer, sizeof(buffer), MSG_DONTWAIT) > 0);
	close(pair[1]);
	until(t.answered);
	expect_eq(t.status, GRPC_UNAVAILABLE);
	expect_eq(t.called, 0);
	then_all_ends();
}

TEST(the_socket_has_its_mode_and_replaces_only_a_socket)
{
	struct grpc_server *second = NULL;
	struct fault why = {""};
	struct stat about;
	FILE *file;

	given_a_server();
	expect_eq(stat(t.path, &about), 0);
	expect(S_ISSOCK(about.st_mode));
	expect_eq(about.st_mode & 0777, 0600);
	expect(grpc_server_is_reachable(t.server));
	/* A successor takes the place, and the first one leaves it alone when it ends. */
	expect_eq(grpc_server_open(&t.loop, t.path, 0600, methods, ARRAY_SIZE(methods), &t, &second,
				   &why),
		  0);
	expect(!grpc_server_is_reachable(t.server));
	expect(grpc_server_is_reachable(second));
	grpc_server_close(take(t.server), on_server_closed);
	until(t.closed);
	expect(grpc_server_is_reachable(second));
	grpc_server_close(second, NULL);
	expect_eq(stat(t.path, &about), -1);
	file = fopen(t.path, "w");
	expect(file != NULL);
	fclose(file);
	expect_eq(grpc_server_open(&t.loop, t.path, 0600, methods, 1, &t, &second, &why), -EEXIST);
	expect(strstr(why.text, t.path) != NULL);
	unlink(t.path);
	then_all_ends();
}

TEST(a_socket_that_cannot_be_made_is_named)
{
	struct grpc_server *server = NULL;
	struct grpc_client *client = NULL;
	struct fault why = {""};
	char deep[256];

	given_nothing();
	snprintf(deep, sizeof(deep), "%s/no/socket", t.folder);
	expect_eq(grpc_server_open(&t.loop, deep, 0600, methods, 1, &t, &server, &why), -ENOENT);
	memset(deep, 'x', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	expect_eq(grpc_server_open(&t.loop, deep, 0600, methods, 1, &t, &server, &why),
		  -ENAMETOOLONG);
	expect_eq(grpc_client_open(&t.loop, deep, &client, &why), -ENAMETOOLONG);
	expect(server == NULL && client == NULL);
	grpc_server_close(NULL, NULL);
	grpc_client_close(NULL);
	then_all_ends();
}

static int dial_raw(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", t.path);
	expect(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	return fd;
}

static bool hung_up(int fd)
{
	uint8_t buffer[4096];
	ssize_t n;

	while ((n = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT)) > 0) {
	}
	return n == 0 || errno != EAGAIN;
}

TEST(idle_connections_make_room_for_new_ones)
{
	int fds[GRPC_CONNECTIONS_MAX + 10];
	unsigned ended = 0;

	given_a_server();
	given_a_client();
	ask("/t/Wait", "", 0);
	until(t.opened);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = dial_raw();
		settle();
	}
	/* Connections that were idle for the longest time had to go; those with a call under way
	 * did not. */
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++) {
		bool over = hung_up(fds[i]);

		expect_eq(over, i < 11);
		ended += over;
		close(fds[i]);
	}
	expect_eq(ended, 11);
	expect_eq(t.gone, 0);
	ask("/t/Echo", "still", 0);
	until(t.answered);
	expect_str(t.answer, "still");
	then_all_ends();
}

TEST(without_descriptors_a_client_waits_and_nothing_spins)
{
	struct rlimit before, now;
	int fd, probe;

	given_a_server();
	fd = dial_raw();
	expect_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	probe = dup(fd);
	now = before;
	now.rlim_cur = (rlim_t)probe;
	close(probe);
	expect_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
	settle();
	expect(!t.server->listening.events);
	expect_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	until(!list_empty(&t.server->peers));
	close(fd);
	then_all_ends();
}

/* Ends that close in the middle of everything. */
static void on_answered_close(void *owner, enum grpc_status status, const char *message,
			      struct grpc_bytes answer)
{
	on_answered(owner, status, message, answer);
	grpc_client_close(take(t.client));
}

TEST(a_client_may_be_closed_by_its_own_answer)
{
	struct grpc_asked *asked;

	given_a_server();
	given_a_client();
	for (int i = 0; i < 10; i++)
		expect_eq(grpc_ask(t.client, "/t/Echo", text_bytes_of("x"), i ? 0 : 60000000000,
				   on_answered_close, &t, &asked),
			  0);
	until(!t.client);
	settle();
	expect_eq(t.answered, 1);
	then_all_ends();
}

static void on_close_server(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	(void)owner;
	t.called++;
	if (request.size)
		grpc_end(call, GRPC_OK, "closing");
	else
		grpc_call_keep(call, &t);
	grpc_server_close(take(t.server), on_server_closed);
}

static void on_close_server_gone(struct grpc_call *call, void *owner)
{
	(void)owner;
	expect(grpc_call_kept(call) == &t);
	expect_eq(t.closed, 0);
	t.gone++;
	grpc_end(call, GRPC_OK, NULL);
}

TEST(a_server_may_be_closed_by_its_own_method)
{
	static const struct grpc_method closing[] = {
		{"/t/Close", on_close_server, on_close_server_gone}};
	struct fault why = {""};

	for (unsigned ended = 0; ended < 2; ended++) {
		given_nothing();
		given_a_client();
		expect_eq(grpc_server_open(&t.loop, t.path, 0600, closing, 1, &t, &t.server, &why),
			  0);
		for (int i = 0; i < 10; i++)
			ask("/t/Close", ended ? "x" : "", 0);
		until(t.closed && t.answered == 10);
		/* One was called: the others were told that the server is closing, or did not find
		 * it any more. */
		expect_eq(t.called, 1);
		expect_eq(t.gone, 1 - ended);
		expect_eq(t.status, GRPC_UNAVAILABLE);
		then_all_ends();
	}
}

TEST(a_method_that_does_not_ask_for_it_is_not_told_that_its_caller_left)
{
	given_a_server();
	given_a_client();
	ask("/t/Wait", "", 0);
	until(t.opened);
	grpc_server_close(take(t.server), NULL);
	until(t.answered);
	expect_eq(t.status, GRPC_UNAVAILABLE);
	then_all_ends();
	expect_eq(t.gone, 0);
}

static void on_answered_ask(void *owner, enum grpc_status status, const char *message,
			    struct grpc_bytes answer)
{
	struct grpc_asked *asked;

	on_answered(owner, status, message, answer);
	if (t.answered < 100)
		expect_eq(grpc_ask(t.client, "/t/Echo", text_bytes_of("again"), 0, on_answered_ask,
				   &t, &asked),
			  0);
}

TEST(an_answer_may_ask_again)
{
	struct grpc_asked *asked;

	given_a_server();
	given_a_client();
	expect_eq(grpc_ask(t.client, "/t/Echo", text_bytes_of("x"), 0, on_answered_ask, &t, &asked),
		  0);
	until(t.answered == 100);
	expect_eq(t.ok, 100);
	then_all_ends();
	/* Where nobody is, too: not in a loop without end inside one call. */
	given_nothing();
	given_a_client();
	expect_eq(grpc_ask(t.client, "/t/Echo", text_bytes_of("x"), 0, on_answered_ask, &t, &asked),
		  0);
	until(t.answered == 100);
	then_all_ends();
}
