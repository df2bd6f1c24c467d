/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grpc_text.h"

#include "tests/test.h"

static struct grpc_bytes bytes(const char *text)
{
	return (struct grpc_bytes){(const uint8_t *)text, strlen(text)};
}

static const char *encoded(const char *message)
{
	static char text[GRPC_TEXT_ENCODED_MAX];

	expect_eq(grpc_text_encode(message, text), strlen(text));
	return text;
}

static const char *decoded(const char *text)
{
	static char message[GRPC_MESSAGE_MAX + 1];

	grpc_text_decode(bytes(text), message);
	return message;
}

TEST(a_sentence_is_written_in_printable_ascii)
{
	expect_str(encoded("no room: 6.2Gi free"), "no room: 6.2Gi free");
	expect_str(encoded("100 %"), "100 %25");
	expect_str(encoded("a\nb\x7f"), "a%0Ab%7F");
	expect_str(encoded("für"), "f%C3%BCr");
	expect_str(encoded(NULL), "");
	expect_str(encoded(""), "");
}

TEST(and_read_again)
{
	expect_str(decoded("100 %25 f%c3%bCr"), "100 % für");
	expect_str(decoded("%"), "%");
	expect_str(decoded("%2"), "%2");
	expect_str(decoded("%zz%4"), "%zz%4");
	expect_str(decoded("%%34"), "%4");
	/* Neither the end of a C string, nor a line feed, nor bytes that are no UTF-8 reach people.
	 */
	expect_str(decoded("a%00b%0Ac%FFd"), "a?b?c?d");
	expect_str(decoded(""), "");
}

TEST(any_sentence_survives_unless_it_is_not_fit_to_be_shown)
{
	for (unsigned round = 0; round < test_rounds(2000); round++) {
		static const char *const parts[] = {"%", "%4", "a", "ü", "日", "😀", " ", "%41"};
		char text[GRPC_MESSAGE_MAX + 1] = "";

		for (uint64_t n = test_random_below(40); n > 0; n--)
			strcat(text, parts[test_random_below(ARRAY_SIZE(parts))]);
		expect_str(decoded(encoded(text)), text);
	}
}

TEST(a_long_sentence_is_cut_between_characters)
{
	char text[3 * GRPC_MESSAGE_MAX + 1];

	for (size_t i = 0; i < GRPC_MESSAGE_MAX; i++)
		memcpy(text + 3 * i, "日", 3);
	text[3 * GRPC_MESSAGE_MAX] = '\0';
	expect_eq(strlen(encoded(text)), GRPC_MESSAGE_MAX / 3 * 9);
	expect_eq(strlen(decoded(text)), GRPC_MESSAGE_MAX / 3 * 3);
	memset(text, '%', sizeof(text) - 1);
	expect_eq(strlen(encoded(text)), 3 * GRPC_MESSAGE_MAX);
}

TEST(a_status_is_a_number_and_nothing_else)
{
	expect_eq(grpc_text_status(bytes("0")), GRPC_OK);
	expect_eq(grpc_text_status(bytes("14")), GRPC_UNAVAILABLE);
	expect_eq(grpc_text_status(bytes("16")), 16);
	expect_eq(grpc_text_status(bytes("17")), GRPC_UNKNOWN);
	expect_eq(grpc_text_status(bytes("999999999")), GRPC_UNKNOWN);
	expect_eq(grpc_text_status(bytes("9999999999")), -EBADMSG);
	for (size_t i = 0; i < 9; i++) {
		static const char *const wrong[] = {"",	  "abc", "-1", "+1", " 0",
						    "0 ", "00",	 "1x", "0x0"};

		expect_eq(grpc_text_status(bytes(wrong[i])), -EBADMSG);
	}
	expect_eq(grpc_text_http_status(bytes("200")), 200);
	expect_eq(grpc_text_http_status(bytes("099")), -EBADMSG);
	expect_eq(grpc_text_http_status(bytes("2000")), -EBADMSG);
	expect_eq(grpc_text_http_status(bytes("20x")), -EBADMSG);
	expect_eq(grpc_text_http_status(bytes("")), -EBADMSG);
}

TEST(a_stream_that_was_reset_ends_as_the_protocol_says)
{
	expect_eq(grpc_text_from_reset(7), GRPC_UNAVAILABLE);	      /* REFUSED_STREAM */
	expect_eq(grpc_text_from_reset(8), GRPC_CANCELLED);	      /* CANCEL */
	expect_eq(grpc_text_from_reset(11), GRPC_RESOURCE_EXHAUSTED); /* ENHANCE_YOUR_CALM */
	expect_eq(grpc_text_from_reset(12), GRPC_PERMISSION_DENIED);  /* INADEQUATE_SECURITY */
	expect_eq(grpc_text_from_reset(2), GRPC_INTERNAL);	      /* INTERNAL_ERROR */
}

static uint64_t timeout_of(const char *text)
{
	uint64_t ns = 4711;

	return grpc_text_parse_timeout(bytes(text), &ns) == 0 ? ns : 4711;
}

TEST(a_deadline_is_read_as_grpc_writes_it)
{
	expect_eq(timeout_of("0n"), 0);
	expect_eq(timeout_of("1n"), 1);
	expect_eq(timeout_of("20u"), 20000);
	expect_eq(timeout_of("300m"), 300000000);
	expect_eq(timeout_of("4S"), 4000000000);
	expect_eq(timeout_of("5M"), 300000000000);
	expect_eq(timeout_of("1H"), 3600000000000);
	expect(timeout_of("99999999H") == UINT64_MAX);
	for (size_t i = 0; i < 8; i++) {
		static const char *const wrong[] = {"",	  "S",	 "1",	 "123456789S",
						    "1s", "-1S", "1.5S", "1SS"};

		expect_eq(timeout_of(wrong[i]), 4711);
	}
}

TEST(a_deadline_that_is_sent_is_never_sooner_than_ours)
{
	for (unsigned round = 0; round < test_rounds(20000); round++) {
		unsigned shift = (unsigned)test_random_below(64);
		uint64_t ns = test_random() >> shift, read;
		char text[GRPC_TEXT_TIMEOUT_MAX];

		grpc_text_timeout(ns, text);
		expect(strlen(text) <= 9);
		expect_eq(grpc_text_parse_timeout(bytes(text), &read), 0);
		expect(read >= ns);
		/* And not by more than a unit, of which it has five digits at least. */
		expect(ns < 100000000 ? read == ns : read - ns <= ns / 99999 || read == UINT64_MAX);
	}
}

TEST(a_content_type_is_grpcs_or_not)
{
	expect(grpc_text_is_grpc(bytes("application/grpc")));
	expect(grpc_text_is_grpc(bytes("application/grpc+proto")));
	expect(grpc_text_is_grpc(bytes("application/grpc;charset=utf-8")));
	expect(grpc_text_is_grpc(bytes("application/grpc+proto;x")));
	expect(!grpc_text_is_grpc(bytes("application/grpc-web")));
	expect(!grpc_text_is_grpc(bytes("application/grpc+json")));
	expect(!grpc_text_is_grpc(bytes("application/grp")));
	expect(!grpc_text_is_grpc(bytes("text/plain")));
	expect(!grpc_text_is_grpc(bytes("")));
}
