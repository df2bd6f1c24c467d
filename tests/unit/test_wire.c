/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire.h"

#include "tests/test.h"

#include "wire/page.h"

static uint8_t frame[WIRE_FRAME_MAX];

static struct wire_message credit_ask(void)
{
	return (struct wire_message){
		.code = WIRE_credit_ask,
		.id = 7,
		.credit_ask = {.device = 1,
			       .wait = 1,
			       .bytes = 0x1122334455667788u,
			       .want = 9,
			       .movable = 1},
	};
}

TEST(a_frame_is_little_endian_and_says_its_length)
{
	static const uint8_t expected[] = {
		'm',  'e',  't', 'e', 8, 0, 44, 0, 7, 0,    0,	  0,	0,    0,    0,
		0,    1,    0,	 0,   0, 1, 0,	0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33,
		0x22, 0x11, 9,	 0,   0, 0, 0,	0, 0, 0,    1,	  0,	0,    0};
	struct wire_message message = credit_ask();

	expect_eq(wire_encode(&message, frame), sizeof(expected));
	expect(memcmp(frame, expected, sizeof(expected)) == 0);
}

TEST(a_header_alone_says_how_long_its_frame_is)
{
	struct wire_message message = credit_ask();
	size_t length = wire_encode(&message, frame);

	expect_eq(wire_length(frame), length);
	frame[6] = WIRE_HEADER - 1; /* shorter than itself */
	expect_eq(wire_length(frame), 0);
	frame[6] = 1;
	frame[7] = WIRE_FRAME_MAX >> 8; /* by one longer than any */
	expect_eq(wire_length(frame), 0);
	frame[7] = 0;
	frame[6] = WIRE_HEADER;
	expect_eq(wire_length(frame), WIRE_HEADER);
	frame[0] ^= 1; /* something else */
	expect_eq(wire_length(frame), 0);
}

TEST(an_encoded_message_is_decoded)
{
	struct wire_message message = credit_ask(), back;
	size_t length = wire_encode(&message, frame);

	expect_eq(wire_decode(frame, length, &back), 0);
	expect_eq(back.code, WIRE_credit_ask);
	expect_eq(back.id, 7);
	expect_eq(back.credit_ask.bytes, message.credit_ask.bytes);
	expect_eq(back.credit_ask.want, 9);
}

TEST(a_message_is_decoded_over_an_earlier_one)
{
	struct wire_message message, back;

	memset(&back, 0xff, sizeof(back));
	memset(&message, 0xff, sizeof(message));
	wire_begin(&message, WIRE_credit_ask, 7);
	message.credit_ask.bytes = 5;
	/* Without the last field, as an older peer sends it. */
	expect_eq(wire_encode(&message, frame), 44);
	frame[6] = 40;
	expect_eq(wire_decode(frame, 40, &back), 0);
	expect_eq(back.code, WIRE_credit_ask);
	expect_eq(back.id, 7);
	expect_eq(back.credit_ask.device, 0);
	expect_eq(back.credit_ask.wait, 0);
	expect_eq(back.credit_ask.bytes, 5);
	expect_eq(back.credit_ask.want, 0);
	expect_eq(back.credit_ask.movable, 0);
}

/* Most messages have some dozens of bytes, and the largest one some thousands. */
TEST(a_message_costs_its_own_fields_and_not_the_largest_ones)
{
	struct wire_message message, back;
	const uint8_t *bytes = (const uint8_t *)&back;

	memset(&back, 0xff, sizeof(back));
	wire_begin(&message, WIRE_done, 1);
	expect_eq(wire_decode(frame, wire_encode(&message, frame), &back), 0);
	for (size_t i = sizeof(back.code) + sizeof(back.id) + sizeof(uint64_t) + sizeof(back.done);
	     i < sizeof(back); i++)
		expect_eq(bytes[i], 0xff);
}

TEST(texts_keep_their_length_and_are_cut_at_255)
{
	struct wire_message message = {.code = WIRE_refused}, back;
	char longer[400];

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	wire_set_text(&message.refused.reason, longer);
	expect_eq(wire_decode(frame, wire_encode(&message, frame), &back), 0);
	expect_eq(strlen(back.refused.reason.text), WIRE_TEXT_MAX);
	wire_set_text(&message.refused.reason, "");
	expect_eq(wire_decode(frame, wire_encode(&message, frame), &back), 0);
	expect_str(back.refused.reason.text, "");
}

TEST(a_cut_frame_is_never_believed)
{
	/* One that has no fields that may be missing. */
	struct wire_message message = {.code = WIRE_refused, .id = 3}, back;
	size_t length;

	wire_set_text(&message.refused.reason, "there is no tenant 'x'");
	length = wire_encode(&message, frame);
	for (size_t cut = 0; cut < length; cut++)
		expect_eq(wire_decode(frame, cut, &back), WIRE_SHORT);
	/* The header lies to match: then the fields do not fit. */
	for (size_t cut = WIRE_HEADER; cut < length; cut++) {
		frame[6] = (uint8_t)cut;
		expect_eq(wire_decode(frame, cut, &back), WIRE_BAD);
	}
}

TEST(another_protocol_a_set_zero_word_and_a_second_frame_behind_are_bad)
{
	struct wire_message message = credit_ask(), back;
	size_t length = wire_encode(&message, frame);

	frame[0] ^= 1;
	expect_eq(wire_decode(frame, length, &back), WIRE_BAD);
	frame[0] ^= 1;
	frame[12] = 1;
	expect_eq(wire_decode(frame, length, &back), WIRE_BAD);
	frame[12] = 0;
	expect_eq(wire_decode(frame, length + 1, &back), WIRE_BAD);
	expect_eq(wire_decode(frame, length, &back), 0);
}

TEST(a_text_with_a_nul_inside_is_bad)
{
	struct wire_message message = {.code = WIRE_refused}, back;
	size_t length;

	wire_set_text(&message.refused.reason, "abc");
	length = wire_encode(&message, frame);
	frame[length - 2] = 0;
	expect_eq(wire_decode(frame, length, &back), WIRE_BAD);
}

TEST(an_unknown_code_keeps_its_id_so_that_it_can_be_refused)
{
	struct wire_message message = credit_ask(), back;
	size_t length = wire_encode(&message, frame);

	frame[4] = 0xff, frame[5] = 0xfe;
	expect_eq(wire_decode(frame, length, &back), WIRE_UNKNOWN);
	expect_eq(back.code, 0xfeff);
	expect_eq(back.id, 7);
}

TEST(fields_appended_by_a_later_version_are_ignored)
{
	struct wire_message message = credit_ask(), back;
	size_t length = wire_encode(&message, frame);

	frame[length] = 5;
	frame[6] = (uint8_t)(length + 1);
	expect_eq(wire_decode(frame, length + 1, &back), 0);
	expect_eq(back.credit_ask.want, 9);
}

TEST(codes_are_unique_named_and_have_a_side)
{
	uint8_t seen[1 << 10] = {0};

#define MESSAGE(message, number, side, fields)                                                     \
	expect(!seen[number]);                                                                     \
	seen[number] = 1;                                                                          \
	expect_str(wire_name(number), #message);                                                   \
	expect_eq(wire_from(number), WIRE_FROM_##side);
#include "wire/messages.def"
#undef MESSAGE
	expect_str(wire_name(9999), "unknown");
	expect_eq(wire_from(9999), 0);
}

/* The pages are an interface between versions: these numbers never change. */
TEST(the_pages_layout_is_as_ever)
{
	expect_eq(offsetof(struct wire_tenant_page, not_open), 0);
	expect_eq(offsetof(struct wire_tenant_page, devices), 12);
	expect_eq(offsetof(struct wire_tenant_page, epoch), 24);
	expect_eq(offsetof(struct wire_tenant_page, daemon_generation), 40);
	expect_eq(offsetof(struct wire_tenant_page, device), 64);
	expect_eq(sizeof(struct wire_tenant_device), 80);
	expect_eq(offsetof(struct wire_tenant_device, gate), 48);
	expect_eq(offsetof(struct wire_own_page, device), 64);
	expect_eq(sizeof(struct wire_own_device), 32);
}
