/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between guest, daemon and CLI: bytes in, bytes out. Pure: it never touches a socket.
 *
 * Transport: SOCK_SEQPACKET, one frame per packet, with descriptors attached. A frame is a header
 * of 16 bytes, little-endian, followed by the message's fields in the order of wire/messages.def:
 * u32 and u64 unchanged, uuid as 16 bytes, text as one length byte and that many bytes. Bytes after
 * the last known field are ignored: a later minor version may have appended fields.
 *
 *	u32 magic   u16 code   u16 length (of the whole frame)   u32 id   u32 zero
 *
 * An answer carries the id of its request. Unsolicited messages of the daemon have their own ids,
 * with the top bit set. The daemon answers unknown codes with REFUSED; the guest ignores them. Both
 * sides state a version: a different major version is refused, and the smaller minor version is
 * used.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	WIRE_MAJOR = 1,
	WIRE_MINOR = 4, /* what each added: messages.def */
	WIRE_MAGIC = 0x6574656d,
	WIRE_HEADER = 16,
	WIRE_FRAME_MAX = 4096,
	WIRE_GUEST_FRAME_MAX = 512, /* of what a guest sends */
	WIRE_TEXT_MAX = 255,
};

/* Why a request was refused. */
enum wire_refusal {
	WIRE_REFUSED_BAD = 1,	   /* malformed, or not allowed in this state */
	WIRE_REFUSED_VERSION = 2,  /* another major version */
	WIRE_REFUSED_LIMIT = 3,	   /* the tenant's own limit is reached */
	WIRE_REFUSED_FULL = 4,	   /* the device has no room */
	WIRE_REFUSED_DEADLINE = 5, /* waited for room, in vain */
	WIRE_REFUSED_UNKNOWN = 6,  /* no such tenant, device, key or message */
	WIRE_REFUSED_IDENTITY = 7, /* the peer is not who may use this socket */
	WIRE_REFUSED_VALUE = 8,	   /* a value that is not accepted; the text says what is */
};

/* What a tenant does on a device that is shared out by turns. */
enum wire_turn {
	WIRE_TURN_NONE = 0,   /* there are no turns, or it has no processes */
	WIRE_TURN_SILENT = 1, /* it wants nothing */
	WIRE_TURN_CAPPED = 2, /* it waits for its own cap */
	WIRE_TURN_WAITS = 3,
	WIRE_TURN_RUNS = 4,
	WIRE_TURN_ENDS = 5, /* its gate is closing */
	WIRE_TURN_HANGS = 6,
	WIRE_TURN_SUSPENDED = 7,
};

/* Of a tenant whose memory is, or may be, off its device: 0 of any other. */
enum wire_swapped {
	WIRE_SWAPPED_WAITS = 1, /* it waits for it */
	WIRE_SWAPPED_IDLE = 2,	/* it does not want the device */
};

/* The driver's libraries that a guest takes the place of. */
enum wire_library {
	WIRE_LIBRARY_CUDA,
	WIRE_LIBRARY_NVML,
	WIRE_LIBRARIES,
};

typedef uint32_t wire_u32;
typedef uint64_t wire_u64;
typedef struct {
	uint8_t byte[16];
} wire_uuid;
typedef struct {
	char text[WIRE_TEXT_MAX + 1]; /* NUL-terminated; holds no NUL inside */
} wire_text;

#define FIELD(type, name) wire_##type name;
#define LATER(type, name) wire_##type name;
#define MESSAGE(message, code, from, fields)                                                       \
	struct wire_##message {                                                                    \
		fields                                                                             \
	};
#include "wire/messages.def"
#undef MESSAGE
#undef FIELD
#undef LATER

enum wire_code {
#define MESSAGE(message, code, from, fields) WIRE_##message = code,
#include "wire/messages.def"
#undef MESSAGE
};

struct wire_message {
	uint32_t code; /* enum wire_code */
	uint32_t id;
	union {
#define MESSAGE(message, code, from, fields) struct wire_##message message;
#include "wire/messages.def"
#undef MESSAGE
	};
};

/* What answers a guest's request: the beginning of a wire_message. A program's threads have room
 * for this on the smallest stacks; the longest message is ten times as large. */
struct wire_answer {
	uint32_t code;
	uint32_t id;
	union {
		struct wire_refused refused;
		struct wire_driver_file driver_file;
		struct wire_credit_grant credit_grant;
		struct wire_store store;
		struct wire_segment segment;
		struct wire_channel channel;
		struct wire_done done;
		struct wire_end end;
	};
};

/* Outcomes of wire_decode(). */
enum {
	WIRE_SHORT = 1, /* fewer bytes than the frame says it has */
	WIRE_BAD,	/* not a frame of this protocol, or a field outside its bounds */
	WIRE_UNKNOWN, /* a well-formed frame whose code is not in the table; id and code are set */
};

/* An empty message: its own fields are zero. The rest of the union is left as it is, because the
 * largest message is a hundred times as large as most. */
void wire_begin(struct wire_message *ret_message, enum wire_code code, uint32_t id);

/* The beginning of the message, whatever it is. */
void wire_take_answer(const struct wire_message *message, struct wire_answer *ret_answer);

/* Writes the frame into out[WIRE_FRAME_MAX], of a guest's message out[WIRE_GUEST_FRAME_MAX];
 * returns its length. The code is one of the table's. */
must_check size_t wire_encode(const struct wire_message *message, uint8_t *out);

/* Reads one whole packet. 0, or an outcome; *ret_message is complete only on 0, and then it has the
 * fields of its code, and no others. */
must_check int wire_decode(const uint8_t *in, size_t size, struct wire_message *ret_message);

/* Where frames follow one another in a stream (cli/relay.c): the length of the frame that begins
 * with this header; 0: it is none. */
must_check size_t wire_length(const uint8_t header[WIRE_HEADER]);

/* "credit_ask", or "unknown". */
const char *wire_name(uint32_t code);

/* Who may send a message: WIRE_FROM_guest, _daemon or _cli; 0 for an unknown code. */
enum wire_side { WIRE_FROM_guest = 1, WIRE_FROM_daemon, WIRE_FROM_cli };
uint32_t wire_from(uint32_t code);

/* Sets a text field, cut at WIRE_TEXT_MAX. */
void wire_set_text(wire_text *field, const char *text);
