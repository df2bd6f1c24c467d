/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/grpc_text.h"

#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/text.h"

size_t grpc_text_encode(const char *message, char encoded[GRPC_TEXT_ENCODED_MAX])
{
	static const char digits[] = "0123456789ABCDEF";
	size_t n = message ? text_fit(message, GRPC_MESSAGE_MAX) : 0, length = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)message[i];

		if (c >= 0x20 && c <= 0x7e && c != '%') {
			encoded[length++] = (char)c;
			continue;
		}
		encoded[length++] = '%';
		encoded[length++] = digits[c >> 4];
		encoded[length++] = digits[c & 15];
	}
	encoded[length] = '\0';
	return length;
}

/* Writes up to one byte more than fits into a message, so that text_fit()
 * recognizes that it was cut. */
void grpc_text_decode(struct grpc_bytes encoded, char message[GRPC_MESSAGE_MAX + 1])
{
	char decoded[GRPC_MESSAGE_MAX + 2];
	size_t length = 0, fits;

	for (size_t i = 0; i < encoded.size && length <= GRPC_MESSAGE_MAX; i++) {
		const uint8_t *at = encoded.data + i;
		uint8_t c = *at;

		if (c == '%' && encoded.size - i > 2 && text_hex(at[1]) >= 0 &&
		    text_hex(at[2]) >= 0) {
			c = (uint8_t)(text_hex(at[1]) << 4 | text_hex(at[2]));
			i += 2;
		}
		/* A NUL would end the sentence. */
		decoded[length++] = c ? (char)c : '?';
	}
	decoded[length] = '\0';
	fits = text_fit(decoded, GRPC_MESSAGE_MAX);
	memcpy(message, decoded, fits);
	message[fits] = '\0';
	text_make_plain(message);
}

/* -EBADMSG: the text is not `least` to `most` digits. */
static int64_t digits_of(struct grpc_bytes text, size_t least, size_t most)
{
	int64_t value = 0;

	if (text.size < least || text.size > most)
		return -EBADMSG;
	for (size_t i = 0; i < text.size; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return -EBADMSG;
		value = value * 10 + (text.data[i] - '0');
	}
	return value;
}

int grpc_text_status(struct grpc_bytes text)
{
	int64_t value = digits_of(text, 1, 9);

	if (value < 0 || (text.size > 1 && text.data[0] == '0'))
		return -EBADMSG;
	return value <= 16 ? (int)value : GRPC_UNKNOWN;
}

int grpc_text_http_status(struct grpc_bytes text)
{
	int64_t value = digits_of(text, 3, 3);

	return value < 100 ? -EBADMSG : (int)value;
}

/* The table of gRPC's document http-grpc-status-mapping. */
enum grpc_status grpc_text_from_http(int http_status)
{
	switch (http_status) {
	case 400:
		return GRPC_INTERNAL;
	case 401:
		return (enum grpc_status)16; /* UNAUTHENTICATED, which we never send ourselves */
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}

/* The table of gRPC's document PROTOCOL-HTTP2. */
enum grpc_status grpc_text_from_reset(uint32_t error_code)
{
	switch (error_code) {
	case NGHTTP2_REFUSED_STREAM:
		return GRPC_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return GRPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return GRPC_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return GRPC_PERMISSION_DENIED;
	default:
		return GRPC_INTERNAL;
	}
}

static const struct timeout_unit {
	uint8_t name;
	uint64_t ns;
} timeout_units[] = {
	{'n', 1},
	{'u', 1000},
	{'m', 1000000},
	{'S', 1000000000},
	{'M', 60ull * 1000000000},
	{'H', 3600ull * 1000000000},
};

enum { TIMEOUT_DIGITS = 8, TIMEOUT_MOST = 99999999 };

void grpc_text_timeout(uint64_t within_ns, char text[GRPC_TEXT_TIMEOUT_MAX])
{
	const struct timeout_unit *unit = timeout_units;
	uint64_t value = within_ns;

	/* Uses the finest unit in which the value has at most 8 digits, gRPC's limit. */
	while (value > TIMEOUT_MOST && unit + 1 < timeout_units + ARRAY_SIZE(timeout_units)) {
		unit++;
		value = within_ns / unit->ns + (within_ns % unit->ns != 0);
	}
	snprintf(text, GRPC_TEXT_TIMEOUT_MAX, "%u%c", (unsigned)value, unit->name);
}

int grpc_text_parse_timeout(struct grpc_bytes text, uint64_t *ret_ns)
{
	int64_t value;

	if (text.size < 2)
		return -EBADMSG;
	value = digits_of((struct grpc_bytes){text.data, text.size - 1}, 1, TIMEOUT_DIGITS);
	if (value < 0)
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_SIZE(timeout_units); i++) {
		if (timeout_units[i].name != text.data[text.size - 1])
			continue;
		/* 99999999 hours are 20 times what fits into 64 bits of nanoseconds. */
		if (__builtin_mul_overflow((uint64_t)value, timeout_units[i].ns, ret_ns))
			*ret_ns = UINT64_MAX;
		return 0;
	}
	return -EBADMSG;
}

int grpc_text_equals(struct grpc_bytes text, const char *other)
{
	return text.size == strlen(other) && memcmp(text.data, other, text.size) == 0;
}

int grpc_text_is_grpc(struct grpc_bytes content_type)
{
	static const char grpc[] = "application/grpc", proto[] = "+proto";
	size_t at = sizeof(grpc) - 1, more = sizeof(proto) - 1;

	if (content_type.size < at || memcmp(content_type.data, grpc, at) != 0)
		return 0;
	if (content_type.size - at >= more && memcmp(content_type.data + at, proto, more) == 0)
		at += more;
	return content_type.size == at || content_type.data[at] == ';';
}
