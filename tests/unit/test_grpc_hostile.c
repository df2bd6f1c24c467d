/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile peers of the server: kube/grpc_server.c, kube/grpc_call.c. */
#include "tests/unit/grpc_raw.h"

#include <malloc.h>

TEST(a_plain_call_is_answered)
{
	given_a_raw_client();
	put_request(1, "/t/Echo", "hello");
	say();
	expect(came("hello"));
	expect_eq(count_frames(HEADERS, 1), 2); /* the header and the trailers */
	expect_eq(count_frames(RST_STREAM, 1), 0);
	expect(!raw.over);
	then_raw_ends();
}

TEST(a_call_may_come_byte_by_byte)
{
	given_a_raw_client();
	put_request(1, "/t/Echo", "hello");
	for (size_t i = 0; i < raw.out_size; i++) {
		expect_eq(send(raw.fd, raw.out + i, 1, 0), 1);
		settle();
	}
	raw.out_size = 0;
	say();
	expect(came("hello"));
	then_raw_ends();
}

/* A raw socket path, as grpc-go before 1.57 sends it; nothing at all; twice. */
TEST(any_authority_will_do)
{
	given_a_raw_client();
	put_request_header(1, "/t/Echo", ":authority", "/var/lib/kubelet/x.sock", END_HEADERS);
	put_message(1, "one", END_STREAM);
	put_request_header(3, "/t/Echo", ":authority", "", END_HEADERS);
	put_message(3, "two", END_STREAM);
	say();
	expect(came("one") && came("two"));
	then_raw_ends();
}

TEST(a_request_that_is_no_grpc_is_refused_by_http)
{
	uint8_t block[256];
	size_t size = field(block, ":method", "GET");

	given_a_raw_client();
	put_frame(HEADERS, END_HEADERS | END_STREAM, 1, block, size);
	size = field(block, ":method", "POST");
	size += field(block + size, "content-type", "text/html");
	put_frame(HEADERS, END_HEADERS, 3, block, size);
	put_frame(HEADERS, END_HEADERS | END_STREAM, 5, NULL, 0);
	say();
	expect_eq(count_frames(HEADERS, 1), 1);
	expect_eq(count_frames(HEADERS, 3), 1);
	expect_eq(count_frames(HEADERS, 5), 1);
	/* A peer that was still about to send something need not. */
	expect_eq(count_frames(RST_STREAM, 1), 0);
	expect_eq(count_frames(RST_STREAM, 3), 1);
	expect_eq(last_number(RST_STREAM, 0), NGHTTP2_NO_ERROR);
	expect(!raw.over);
	then_raw_ends();
}

TEST(a_connection_of_http_1_is_closed)
{
	given_a_server();
	expect_eq(grpc_server_take(t.server, make_pair()), 0);
	put("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 35);
	say();
	expect(raw.over);
	then_raw_ends();
}

/* Each of these is answered at once, and the next call on the connection is fine. */
TEST(a_request_that_is_not_one_plain_message_is_refused)
{
	uint32_t stream = 1;

	given_a_raw_client();
	put_request_header(stream, "/t/Echo", NULL, NULL, END_HEADERS | END_STREAM); /* none */
	stream += 2;
	put_request_header(stream, "/t/Echo", NULL, NULL, END_HEADERS);
	put_message(stream, "one", 0);
	put_message(stream, "two", END_STREAM);
	stream += 2;
	put_request_header(stream, "/t/Echo", NULL, NULL, END_HEADERS);
	put_frame(DATA, END_STREAM, stream, "\0\0\0\0\5abc", 8); /* cut short */
	stream += 2;
	put_request_header(stream, "/t/Echo", NULL, NULL, END_HEADERS);
	put_frame(DATA, 0, stream, "\1\0\0\0\5abc", 8); /* compressed */
	stream += 2;
	put_request_header(stream, "/t/Echo", NULL, NULL, END_HEADERS);
	put_frame(DATA, 0, stream, "\0\100\0\0\0abc", 8); /* 1 GiB is announced */
	stream += 2;
	put_request_header(stream, "/t/Echo", "grpc-timeout", "soon", END_HEADERS);
	stream += 2;
	put_request_header(stream, "/t/Echo", "grpc-timeout", "0S", END_HEADERS);
	stream += 2;
	put_request_header(stream, "/t/Nowhere", NULL, NULL, END_HEADERS);
	say();
	expect_eq(t.called, 0);
	for (uint32_t i = 1; i <= stream; i += 2)
		expect_eq(count_frames(HEADERS, i), 1);
	put_request(stream + 2, "/t/Echo", "and still");
	say();
	expect(came("and still"));
	expect_eq(t.server->held, 0);
	then_raw_ends();
}

TEST(requests_that_never_end_hold_no_more_than_is_allowed)
{
	static uint8_t part[16384];
	enum { CALLS = 16 };

	given_a_raw_client();
	/* Each announces 4 MiB, and stops one frame before their end. */
	for (uint32_t call = 0; call < CALLS; call++) {
		put_request_header(1 + 2 * call, "/t/Echo", NULL, NULL, END_HEADERS);
		put_frame(DATA, 0, 1 + 2 * call, "\0\0\100\0\0", 5);
		for (int i = 0; i < 255; i++) {
			put_frame(DATA, 0, 1 + 2 * call, part, sizeof(part));
			say();
			raw.in_size = 0;
			expect(t.server->held <= GRPC_HELD_PEER_MAX);
		}
	}
	expect(!raw.over);
	put_request(1 + 2 * CALLS, "/t/Echo", "small ones go on");
	say();
	expect(came("small ones go on"));
	then_raw_ends();
}

TEST(a_header_that_is_too_large_is_refused_and_one_without_end_ends_all)
{
	static uint8_t block[8000];
	char name[64], value[100];
	size_t size = 0;

	given_a_raw_client();
	put_request_header(1, "/t/Echo", NULL, NULL, 0);
	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (unsigned i = 0; size < sizeof(block) - 200; i++) {
		snprintf(name, sizeof(name), "x-%u", i);
		size += field(block + size, name, value);
	}
	put_frame(CONTINUATION, 0, 1, block, size);
	put_frame(CONTINUATION, END_HEADERS, 1, block, size);
	put_request(3, "/t/Echo", "the next one");
	say();
	expect_eq(t.called, 1);
	expect_eq(count_frames(HEADERS, 1), 1);
	expect(came("the next one"));
	put_request_header(5, "/t/Echo", NULL, NULL, 0);
	for (int i = 0; i < 120 && !raw.over; i++) {
		put_frame(CONTINUATION, 0, 5, block, size);
		say();
	}
	expect(raw.over);
	then_raw_ends();
}

TEST(a_field_that_is_repeated_a_million_times_ends_all)
{
	static uint8_t block[16000];
	uint8_t once[128] = {0x40, 1, 'x', 100};

	given_a_raw_client();
	/* Into the table once, then one byte each: 60 KiB for 16. */
	memset(once + 4, 'v', 100);
	memset(block, 0x80 | 62, sizeof(block));
	put_frame(HEADERS, 0, 1, once, 104);
	put_frame(CONTINUATION, 0, 1, block, sizeof(block));
	say();
	expect(raw.over);
	then_raw_ends();
}

TEST(empty_continuations_without_end_end_all)
{
	given_a_raw_client();
	put_request_header(1, "/t/Echo", NULL, NULL, 0);
	for (int i = 0; i < 20000; i++)
		put_frame(CONTINUATION, 0, 1, NULL, 0);
	say();
	expect(raw.over);
	then_raw_ends();
}

static size_t in_use(void)
{
	return mallinfo2().uordblks;
}

TEST(a_flood_of_resets_ends_its_connection_and_nothing_is_left_of_it)
{
	static const uint8_t cancel[] = {0, 0, 0, NGHTTP2_CANCEL};
	size_t before;
	uint32_t stream = 1;

	given_a_raw_client();
	say();
	before = in_use();
	while (stream < 100000 && !raw.over) {
		for (int i = 0; i < 100; i++, stream += 2) {
			put_request_header(stream, "/t/Wait", NULL, NULL, END_HEADERS);
			put_message(stream, "x", END_STREAM);
			put_frame(RST_STREAM, 0, stream, cancel, sizeof(cancel));
		}
		say();
	}
	expect(raw.over);
	expect(last_number(GOAWAY, 4) > 0);
	expect_eq(t.called, t.gone);
	/* A few thousand calls at most were even read. */
	expect(t.called >= 900 && t.called <= 3000);
	settle();
	expect(list_empty(&t.server->peers));
	expect(in_use() <= before + 4096);
	then_raw_ends();
}

TEST(a_thousand_calls_may_be_cancelled_at_once)
{
	static const uint8_t cancel[] = {0, 0, 0, NGHTTP2_CANCEL};

	given_a_raw_client();
	for (uint32_t i = 0; i < 1000; i++)
		put_request(1 + 2 * i, "/t/Wait", "x");
	say();
	expect_eq(t.opened, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		put_frame(RST_STREAM, 0, 1 + 2 * i, cancel, sizeof(cancel));
	put_request(2001, "/t/Echo", "and now");
	say();
	expect_eq(t.gone, 1000);
	expect(came("and now"));
	then_raw_ends();
}

static void cancel_many(uint32_t from, uint32_t count)
{
	static const uint8_t cancel[] = {0, 0, 0, NGHTTP2_CANCEL};

	for (uint32_t i = 0; i < count; i++)
		put_request(from + 2 * i, "/t/Wait", "x");
	say();
	for (uint32_t i = 0; i < count; i++)
		put_frame(RST_STREAM, 0, from + 2 * i, cancel, sizeof(cancel));
	say();
}

/* Most of its resets are used up: nghttp2 itself bears no more than a thousand in a row. */
TEST(each_call_that_completes_allows_one_more_to_be_cancelled)
{
	given_a_raw_client();
	say();
	list_entry(t.server->peers.next, struct grpc_peer, of_server)->resets = 5;
	cancel_many(1, 5);
	for (uint32_t i = 0; i < 20; i++)
		put_request(101 + 2 * i, "/t/Echo", "done");
	say();
	expect(came("done"));
	cancel_many(201, 20);
	expect(!raw.over);
	cancel_many(301, 1);
	expect(raw.over);
	then_raw_ends();
}

/* CVE-2025-8671: the peer does what makes us reset its call, again and again. */
TEST(a_peer_that_makes_us_reset_ends_its_connection)
{
	static const uint8_t overflow[] = {0x7f, 0xff, 0xff, 0xff};
	uint32_t stream = 1;

	given_a_raw_client();
	while (stream < 20000 && !raw.over) {
		for (int i = 0; i < 100; i++, stream += 2) {
			put_request(stream, "/t/Wait", "x");
			put_frame(WINDOW_UPDATE, 0, stream, overflow, sizeof(overflow));
		}
		say();
	}
	expect(raw.over);
	expect_eq(t.called, t.gone);
	then_raw_ends();
}

TEST(pings_whose_answers_nobody_reads_end_their_connection)
{
	size_t sent = 0, before;

	given_a_raw_client();
	say();
	before = in_use();
	for (int i = 0; i < 10000; i++)
		put_frame(PING, 0, 0, "mete????", 8);
	for (int round = 0; round < 1000; round++) {
		ssize_t n = send(raw.fd, raw.out + sent, raw.out_size - sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			break; /* closed */
		sent = n > 0 ? (sent + (size_t)n) % raw.out_size : sent;
		settle();
		expect(in_use() < before + (2 << 20));
	}
	settle();
	expect(list_empty(&t.server->peers));
	then_raw_ends();
}

TEST(priorities_and_settings_without_end_cost_nothing)
{
	size_t before;

	given_a_raw_client();
	say();
	before = in_use();
	for (uint32_t i = 0; i < 50000 && !raw.over; i++) {
		uint8_t after[] = {0, 0, 0, 0, 16};

		after[2] = (uint8_t)(i >> 7);
		after[3] = (uint8_t)(i << 1 | 1);
		put_frame(PRIORITY, 0, 2 * i + 3, after, sizeof(after));
		if (i % 100 == 0)
			put_frame(SETTINGS, 0, 0, "\0\4\0\1\0\0", 6);
		if (i % 1000 == 999)
			say();
		raw.in_size = 0;
	}
	expect(in_use() < before + (256 << 10));
	then_raw_ends();
}

static void send_state(struct grpc_call *call, unsigned state)
{
	static uint8_t message[65536];

	memset(message, 0, sizeof(message));
	snprintf((char *)message, sizeof(message), "state %u;", state);
	expect_eq(grpc_send(call, (struct grpc_bytes){message, sizeof(message)}, true), 0);
	settle();
}

TEST(a_reader_that_stopped_costs_two_messages_and_then_sees_the_last)
{
	static const uint8_t wide[] = {0,    4,	   0x7f,
				       0xff, 0xff, 0xff}; /* its windows are no obstacle */
	size_t before, after;

	given_a_raw_client();
	put_frame(SETTINGS, 0, 0, wide, sizeof(wide));
	put_frame(WINDOW_UPDATE, 0, 0, "\x7f\xff\0\0", 4);
	put_request(1, "/t/Wait", "x");
	say();
	before = in_use();
	for (unsigned i = 0; i < 3000; i++)
		send_state(t.open[0], i);
	after = in_use();
	expect(after < before + (3 << 16) + 8192);
	raw.in_size = 0;
	say();
	expect(came("state 2999;"));
	expect(!came("state 1500;"));
	grpc_end(t.open[0], GRPC_OK, NULL);
	say();
	expect_eq(count_frames(HEADERS, 1), 2);
	then_raw_ends();
}

TEST(a_method_that_goes_on_sending_to_nobody_is_stopped)
{
	static uint8_t message[1 << 20];
	unsigned sent = 0;

	given_a_raw_client();
	put_request(1, "/t/Wait", "x");
	say();
	while (sent < 100 &&
	       grpc_send(t.open[0], (struct grpc_bytes){message, sizeof(message)}, false) == 0)
		sent++;
	expect(sent > 60 && sent <= 64);
	grpc_end(t.open[0], GRPC_RESOURCE_EXHAUSTED, NULL);
	then_raw_ends();
}

TEST(a_deadline_that_has_passed_is_told_to_the_method_and_to_the_caller)
{
	given_a_raw_client();
	put_request_header(1, "/t/Wait", "grpc-timeout", "1m", END_HEADERS);
	put_message(1, "x", END_STREAM);
	/* And one whose request never comes. */
	put_request_header(3, "/t/Wait", "grpc-timeout", "1m", END_HEADERS);
	say();
	until((look(), count_frames(HEADERS, 1) == 1 && count_frames(HEADERS, 3) == 1));
	expect_eq(t.gone, t.called);
	expect(t.called <= 1);
	then_raw_ends();
}

TEST(a_peer_may_leave_at_any_byte)
{
	size_t whole;

	for (size_t cut = 1;; cut++) {
		given_a_raw_client();
		put_request(1, "/t/Wait", "hello");
		put_request(3, "/t/Echo", "hello");
		whole = raw.out_size;
		raw.out_size = cut < whole ? cut : whole;
		say();
		close(raw.fd);
		settle();
		expect_eq(t.gone, t.opened);
		expect(list_empty(&t.server->peers));
		then_all_ends();
		if (cut >= whole)
			break;
	}
}

TEST(a_server_that_closes_says_goodbye)
{
	given_a_raw_client();
	put_request(1, "/t/Wait", "x");
	say();
	grpc_server_close(take(t.server), on_server_closed);
	until(t.closed);
	look();
	expect_eq(count_frames(HEADERS, 1), 1);
	expect_eq(last_number(GOAWAY, 4), NGHTTP2_NO_ERROR);
	expect(raw.over);
	expect_eq(t.gone, 1);
	then_raw_ends();
}

TEST(a_server_closes_though_its_peer_never_reads)
{
	static uint8_t message[8 << 20];
	static const uint8_t wide[] = {0, 4, 0x7f, 0xff, 0xff, 0xff};

	given_a_raw_client();
	put_frame(SETTINGS, 0, 0, wide, sizeof(wide));
	put_frame(WINDOW_UPDATE, 0, 0, "\x7f\xff\0\0", 4);
	put_request(1, "/t/Wait", "x");
	say();
	expect_eq(grpc_send(t.open[0], (struct grpc_bytes){message, sizeof(message)}, false), 0);
	settle();
	grpc_server_close(take(t.server), on_server_closed);
	until(t.closed);
	expect_eq(t.gone, 1);
	then_raw_ends();
}
