/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grpc_frame.h"

#include "tests/test.h"

static struct grpc_bytes bytes(const void *data, size_t size)
{
	return (struct grpc_bytes){data, size};
}

TEST(a_message_comes_in_any_pieces)
{
	static const uint8_t hello[] = "\0\0\0\0\5hello";

	for (size_t piece = 1; piece < sizeof(hello); piece++) {
		struct grpc_frame frame = {.headed = 0};

		expect(grpc_frame_is_empty(&frame));
		for (size_t at = 0; at < sizeof(hello) - 1; at += piece) {
			size_t left = sizeof(hello) - 1 - at;

			expect(!grpc_frame_is_whole(&frame));
			expect_eq(grpc_frame_take(&frame,
						  bytes(hello + at, left < piece ? left : piece),
						  5),
				  0);
			expect(!grpc_frame_is_empty(&frame));
		}
		expect(grpc_frame_is_whole(&frame));
		expect_eq(grpc_frame_message(&frame).size, 5);
		expect(memcmp(grpc_frame_message(&frame).data, "hello", 5) == 0);
		grpc_frame_done(&frame);
		expect(grpc_frame_is_empty(&frame));
	}
}

TEST(an_empty_message_is_one)
{
	struct grpc_frame frame = {.headed = 0};

	expect_eq(grpc_frame_take(&frame, bytes("\0\0\0\0", 4), 0), 0);
	expect(!grpc_frame_is_whole(&frame));
	expect_eq(grpc_frame_take(&frame, bytes("", 1), 0), 0);
	expect(grpc_frame_is_whole(&frame));
	expect_eq(grpc_frame_message(&frame).size, 0);
	expect_eq(grpc_frame_take(&frame, bytes("", 1), 0), GRPC_FRAME_SECOND);
	grpc_frame_done(&frame);
}

static int outcome_of(const char *data, size_t size, size_t most)
{
	struct grpc_frame frame = {.headed = 0};
	int r = grpc_frame_take(&frame, bytes(data, size), most);

	grpc_frame_done(&frame);
	return r;
}

TEST(bytes_that_are_no_single_plain_message_are_refused)
{
	expect_eq(outcome_of("\0\0\0\0\1xy", 7, 10), GRPC_FRAME_SECOND);
	expect_eq(outcome_of("\1\0\0\0\1x", 6, 10), GRPC_FRAME_COMPRESSED);
	expect_eq(outcome_of("\2\0\0\0\1x", 6, 10), GRPC_FRAME_BAD);
	expect_eq(outcome_of("\0\0\0\0\13x", 6, 10), GRPC_FRAME_LARGE);
	expect_eq(outcome_of("\0\377\377\377\377", 5, 10), GRPC_FRAME_LARGE);
	expect_eq(outcome_of("\0\0\0\0\12x", 6, 10), 0);
}

TEST(bytes_behind_a_message_are_refused_in_whatever_piece_they_come)
{
	for (size_t first = 0; first < 5; first++) {
		struct grpc_frame frame = {.headed = 0};

		expect_eq(grpc_frame_take(&frame, bytes("\0\0\0\0\5hello", 5 + first), 10), 0);
		expect_eq(grpc_frame_take(&frame, bytes(&"hello"[first], 5 - first), 10), 0);
		expect_eq(grpc_frame_take(&frame, bytes("x", 1), 10), GRPC_FRAME_SECOND);
		grpc_frame_done(&frame);
		expect_eq(grpc_frame_take(&frame, bytes("\0\0\0\0\5hello", 5 + first), 10), 0);
		expect_eq(grpc_frame_take(&frame, bytes("xxxxxx", 6 - first), 10),
			  GRPC_FRAME_SECOND);
		grpc_frame_done(&frame);
	}
}

TEST(an_announced_length_costs_nothing_until_it_comes)
{
	static const uint8_t part[1000];
	struct grpc_frame frame = {.headed = 0};

	expect_eq(grpc_frame_take(&frame, bytes("\0\0\100\0\0", 5), GRPC_REQUEST_MAX), 0);
	expect_eq(frame.room, 0);
	for (int i = 0; i < 100; i++) {
		expect_eq(grpc_frame_take(&frame, bytes(part, sizeof(part)), GRPC_REQUEST_MAX), 0);
		expect(frame.room <= 2 * frame.have + 256);
	}
	grpc_frame_done(&frame);
}

TEST(a_written_message_is_read_again)
{
	uint8_t header[GRPC_FRAME_HEADER];
	struct grpc_frame frame = {.headed = 0};

	grpc_frame_write(header, 0x01020304);
	expect(memcmp(header, "\0\1\2\3\4", 5) == 0);
	expect_eq(grpc_frame_take(&frame, bytes(header, 5), 0x01020304), 0);
	expect(!grpc_frame_is_whole(&frame));
	expect_eq(outcome_of((char *)header, 5, 0x01020303), GRPC_FRAME_LARGE);
	grpc_frame_done(&frame);
}
