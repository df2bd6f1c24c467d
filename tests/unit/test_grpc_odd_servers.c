/* SPDX-License-Identifier: Apache-2.0 */
/* Odd answers of servers to the client: kube/grpc_answer.c, kube/grpc_client.c. */
#include "tests/unit/grpc_raw.h"

struct named {
	const char *name, *value;
};

static void put_fields(uint32_t stream, unsigned flags, const struct named *fields)
{
	uint8_t block[1024];
	size_t size = 0;

	for (; fields->name; fields++)
		size += field(block + size, fields->name, fields->value);
	put_frame(HEADERS, flags, stream, block, size);
}

#define FIELDS(...)                                                                                \
	(const struct named[])                                                                     \
	{                                                                                          \
		__VA_ARGS__,                                                                       \
		{                                                                                  \
			NULL, NULL                                                                 \
		}                                                                                  \
	}

static void put_header(uint32_t stream)
{
	put_fields(stream, END_HEADERS,
		   FIELDS({":status", "200"}, {"content-type", "application/grpc"}));
}

static void put_status(uint32_t stream, const char *status, const char *message)
{
	if (message)
		put_fields(stream, END_HEADERS | END_STREAM,
			   FIELDS({"grpc-status", status}, {"grpc-message", message}));
	else
		put_fields(stream, END_HEADERS | END_STREAM, FIELDS({"grpc-status", status}));
}

/* The request is out: an answer before that would be to nothing. */
static void ask_and_see(const char *request)
{
	ask("/t/Echo", request, 0);
	settle();
}

static void expect_answer(enum grpc_status status, const char *part)
{
	say();
	expect_eq(t.answered, 1);
	expect_eq(t.status, status);
	if (!strstr(t.message, part))
		expect_str(t.message, part);
}

TEST(an_answer_may_come_byte_by_byte)
{
	given_a_raw_server();
	ask_and_see("x");
	put_header(1);
	put_message(1, "hello", 0);
	put_status(1, "0", "unused");
	for (size_t i = 0; i < raw.out_size; i++) {
		expect_eq(t.answered, 0);
		expect_eq(send(raw.fd, raw.out + i, 1, 0), 1);
		settle();
	}
	expect_eq(t.answered, 1);
	expect_eq(t.status, GRPC_OK);
	expect_str(t.answer, "hello");
	then_raw_ends();
}

TEST(a_message_may_come_in_any_frames)
{
	given_a_raw_server();
	ask_and_see("x");
	put_header(1);
	put_frame(DATA, 0, 1, "\0\0\0", 3);
	put_frame(DATA, 0, 1, NULL, 0);
	put_frame(DATA, 0, 1, "\0\5hel", 5);
	put_frame(DATA, 0, 1, "lo", 2);
	put_status(1, "0", NULL);
	expect_answer(GRPC_OK, "");
	expect_str(t.answer, "hello");
	then_raw_ends();
}

TEST(the_request_is_one_that_grpc_asks_for)
{
	given_a_raw_server();
	ask("/t/Echo", "payload", 0);
	say();
	expect(memcmp(raw.in, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24) == 0);
	expect(came("payload"));
	put_header(1);
	put_status(1, "0", NULL);
	expect_answer(GRPC_INTERNAL, "no answer");
	then_raw_ends();
}

TEST(an_end_that_is_not_a_good_one_is_a_failure)
{
	static const struct {
		const char *status;
		enum grpc_status wanted;
	} rows[] = {
		{"abc", GRPC_UNKNOWN},	       {"", GRPC_UNKNOWN},    {"-0", GRPC_UNKNOWN},
		{"00", GRPC_UNKNOWN},	       {"0 0", GRPC_UNKNOWN}, {"1000", GRPC_UNKNOWN},
		{"7", GRPC_PERMISSION_DENIED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		given_a_raw_server();
		ask_and_see("x");
		put_header(1);
		put_message(1, "hello", 0);
		put_status(1, rows[i].status, NULL);
		expect_answer(rows[i].wanted, "");
		then_raw_ends();
	}
	given_a_raw_server();
	ask_and_see("x");
	put_header(1);
	put_message(1, "hello", END_STREAM); /* no trailers */
	expect_answer(GRPC_INTERNAL, "without a status");
	then_raw_ends();
	given_a_raw_server();
	ask_and_see("x");
	put_header(1);
	put_message(1, "hello", 0);
	put_fields(1, END_HEADERS | END_STREAM, FIELDS({"grpc-status", "0"}, {"grpc-status", "5"}));
	expect_answer(GRPC_UNKNOWN, "not a number");
	then_raw_ends();
}

TEST(a_sentence_that_is_unfit_to_be_shown_is_made_fit)
{
	given_a_raw_server();
	ask_and_see("x");
	put_fields(1, END_HEADERS | END_STREAM,
		   FIELDS({":status", "200"}, {"content-type", "application/grpc"},
			  {"grpc-status", "9"},
			  {"grpc-message", "100 %25 f%C3%BCr %1B[2J%FF%00."}));
	expect_answer(GRPC_FAILED_PRECONDITION, "100 % für ?[2J??.");
	then_raw_ends();
}

TEST(a_status_of_http_is_judged_and_its_page_is_not_read)
{
	static const struct {
		const char *http;
		int wanted;
	} rows[] = {
		{"400", GRPC_INTERNAL},		 {"401", 16},
		{"403", GRPC_PERMISSION_DENIED}, {"404", GRPC_UNIMPLEMENTED},
		{"429", GRPC_UNAVAILABLE},	 {"503", GRPC_UNAVAILABLE},
		{"500", GRPC_UNKNOWN},		 {"302", GRPC_UNKNOWN},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		given_a_raw_server();
		ask_and_see("x");
		put_fields(1, END_HEADERS,
			   FIELDS({":status", rows[i].http}, {"content-type", "application/grpc"}));
		put_message(1, "hello", 0);
		put_status(1, "0", NULL);
		expect_answer((enum grpc_status)rows[i].wanted, rows[i].http);
		then_raw_ends();
	}
	given_a_raw_server();
	ask_and_see("x");
	put_fields(1, END_HEADERS, FIELDS({":status", "200"}, {"content-type", "text/html"}));
	put_frame(DATA, 0, 1, "<html>", 6);
	put_status(1, "0", NULL);
	expect_answer(GRPC_UNKNOWN, "does not speak gRPC");
	then_raw_ends();
}

TEST(an_interim_answer_is_skipped)
{
	given_a_raw_server();
	ask_and_see("x");
	put_fields(1, END_HEADERS, FIELDS({":status", "100"}));
	put_header(1);
	put_message(1, "hello", 0);
	put_status(1, "0", NULL);
	expect_answer(GRPC_OK, "");
	then_raw_ends();
}

static void expect_bad_message(const char *bytes, size_t size, enum grpc_status status,
			       const char *part)
{
	given_a_raw_server();
	ask_and_see("x");
	put_header(1);
	put_frame(DATA, 0, 1, bytes, size);
	put_status(1, "0", NULL);
	expect_answer(status, part);
	then_raw_ends();
}

TEST(an_answer_that_is_not_one_plain_message_is_refused)
{
	expect_bad_message("\0\0\0\0\2x", 6, GRPC_INTERNAL, "cut short");
	expect_bad_message("\0\0", 2, GRPC_INTERNAL, "cut short");
	expect_bad_message("\0\0\0\0\1xy", 7, GRPC_INTERNAL, "more than one");
	expect_bad_message("\1\0\0\0\1x", 6, GRPC_INTERNAL, "compressed");
	expect_bad_message("\7\0\0\0\1x", 6, GRPC_INTERNAL, "not a gRPC message");
	expect_bad_message("\0\2\0\0\1x", 6, GRPC_RESOURCE_EXHAUSTED, "too large");
	expect_bad_message("\0\377\377\377\377", 5, GRPC_RESOURCE_EXHAUSTED, "too large");
}

TEST(a_reset_says_why)
{
	static const struct {
		uint8_t code;
		enum grpc_status wanted;
	} rows[] = {
		{NGHTTP2_CANCEL, GRPC_CANCELLED},
		{NGHTTP2_INTERNAL_ERROR, GRPC_INTERNAL},
		{NGHTTP2_NO_ERROR, GRPC_INTERNAL},
		{NGHTTP2_ENHANCE_YOUR_CALM, GRPC_RESOURCE_EXHAUSTED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		given_a_raw_server();
		ask_and_see("x");
		say();
		put_frame(RST_STREAM, 0, 1, (uint8_t[]){0, 0, 0, rows[i].code}, 4);
		expect_answer(rows[i].wanted, "reset");
		then_raw_ends();
	}
}

/* The path leads to a good server, which gets the call if it is asked once more. */
static void given_a_good_one_behind(void)
{
	struct fault why = {""};

	given_a_raw_server();
	expect_eq(grpc_server_open(&t.loop, t.path, 0600, methods, ARRAY_SIZE(methods), &t,
				   &t.server, &why),
		  0);
}

TEST(a_call_that_was_refused_unseen_is_made_once_more)
{
	given_a_good_one_behind();
	ask("/t/Echo", "refused", 0);
	say();
	put_frame(RST_STREAM, 0, 1, (uint8_t[]){0, 0, 0, NGHTTP2_REFUSED_STREAM}, 4);
	put_frame(GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
	say();
	until(t.answered);
	expect_eq(t.status, GRPC_OK);
	expect_str(t.answer, "refused");
	then_raw_ends();
}

TEST(calls_beyond_a_goaway_are_made_once_more_and_the_others_waited_for)
{
	given_a_good_one_behind();
	ask("/t/Echo", "first", 0);
	ask("/t/Echo", "second", 0);
	say();
	put_frame(GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8); /* the last that counts is 1 */
	say();
	until(t.answered == 1);
	expect_str(t.answer, "second");
	ask("/t/Echo", "third", 0);
	until(t.answered == 2);
	expect_str(t.answer, "third");
	expect(!raw.over);
	put_header(1);
	put_message(1, "late", 0);
	put_status(1, "0", NULL);
	say();
	expect_eq(t.answered, 3);
	expect_str(t.answer, "late");
	expect(raw.over); /* it is no longer needed */
	then_raw_ends();
}

TEST(a_server_that_always_refuses_is_not_asked_for_ever)
{
	given_a_raw_server();
	ask_and_see("x");
	put_frame(RST_STREAM, 0, 1, (uint8_t[]){0, 0, 0, NGHTTP2_REFUSED_STREAM}, 4);
	say();
	/* By the same connection, which was not given up. */
	until((look(), count_frames(HEADERS, 3)));
	expect_eq(t.answered, 0);
	put_frame(RST_STREAM, 0, 3, (uint8_t[]){0, 0, 0, NGHTTP2_REFUSED_STREAM}, 4);
	expect_answer(GRPC_UNAVAILABLE, "reset");
	then_raw_ends();
}

TEST(garbage_ends_the_connection_and_the_calls)
{
	static const char *const garbage[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
					      "\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
					      "SSH-2.0-OpenSSH_9.2p1 Debian\r\n"};

	for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
		given_a_raw_server();
		raw.out_size = 0;
		ask_and_see("x");
		put(garbage[i], 14);
		put(garbage[i], 14);
		say();
		close(raw.fd);
		until(t.answered);
		expect_eq(t.status, GRPC_UNAVAILABLE);
		then_all_ends();
	}
}

TEST(headers_that_http_forbids_are_a_broken_answer)
{
	given_a_raw_server();
	ask_and_see("x");
	put_fields(1, END_HEADERS,
		   FIELDS({"Content-Type", "application/grpc"}, {":status", "200"}));
	say();
	expect_eq(t.answered, 1);
	expect_eq(t.status, GRPC_INTERNAL);
	then_raw_ends();
}

TEST(a_server_may_end_at_any_byte)
{
	for (size_t cut = 0;; cut++) {
		size_t whole;

		given_a_raw_server();
		ask_and_see("x");
		settle();
		put_header(1);
		put_message(1, "hello", 0);
		put_status(1, "0", NULL);
		whole = raw.out_size;
		raw.out_size = cut < whole ? cut : whole;
		say();
		close(raw.fd);
		until(t.answered);
		settle();
		expect_eq(t.answered, 1);
		expect_eq(t.status, cut < whole ? GRPC_UNAVAILABLE : GRPC_OK);
		then_all_ends();
		if (cut >= whole)
			break;
	}
}

TEST(an_answer_before_the_request_is_out_ends_the_request)
{
	owned(free) uint8_t *request = calloc(1, GRPC_REQUEST_MAX);
	struct grpc_asked *asked;

	given_a_raw_server();
	expect_eq(grpc_ask(t.client, "/t/Echo", (struct grpc_bytes){request, GRPC_REQUEST_MAX}, 0,
			   on_answered, &t, &asked),
		  0);
	say(); /* 64 KiB of it, as long as we open no window */
	put_fields(1, END_HEADERS | END_STREAM,
		   FIELDS({":status", "200"}, {"content-type", "application/grpc"},
			  {"grpc-status", "8"}));
	expect_answer(GRPC_RESOURCE_EXHAUSTED, "");
	expect_eq(count_frames(RST_STREAM, 1), 1);
	then_raw_ends();
}
