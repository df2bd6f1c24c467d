/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC's header fields: statuses, their messages, deadlines. Bytes in, values out. A value that
 * does not have gRPC's exact format is rejected (atoi("abc") would be OK).
 */
#pragma once

#include "kube/grpc.h"

enum {
	GRPC_TEXT_ENCODED_MAX = 3 * GRPC_MESSAGE_MAX + 1,
	GRPC_TEXT_TIMEOUT_MAX = 16,
};

/* Encodes a grpc-message: every byte but printable ASCII, and '%', becomes %XX. Takes at most
 * GRPC_MESSAGE_MAX bytes of the message, without cutting a character in two. NULL: none. Returns
 * the length; the text ends with a NUL. */
size_t grpc_text_encode(const char *message, char encoded[GRPC_TEXT_ENCODED_MAX]);

/* The reverse; the result is always safe to display (base/text.h). */
void grpc_text_decode(struct grpc_bytes encoded, char message[GRPC_MESSAGE_MAX + 1]);

/* -EBADMSG: it is not a number. Numbers unknown to gRPC are GRPC_UNKNOWN. */
must_check int grpc_text_status(struct grpc_bytes text);

/* Accepts three digits, 100 to 999. -EBADMSG: anything else. */
must_check int grpc_text_http_status(struct grpc_bytes text);

/* The gRPC status for an HTTP status that came instead of one. */
enum grpc_status grpc_text_from_http(int http_status);

/* The gRPC status for a stream that was reset, by its code. */
enum grpc_status grpc_text_from_reset(uint32_t error_code);

/* Writes grpc-timeout, rounded up from `within_ns`: our own clock must fire first. */
void grpc_text_timeout(uint64_t within_ns, char text[GRPC_TEXT_TIMEOUT_MAX]);
must_check int grpc_text_parse_timeout(struct grpc_bytes text, uint64_t *ret_ns);

/* Whether a content type is gRPC with protobuf messages: "application/grpc", "...+proto". */
int grpc_text_is_grpc(struct grpc_bytes content_type);

int grpc_text_equals(struct grpc_bytes text, const char *other);
