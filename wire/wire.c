/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire.h"

#include <stddef.h>
#include <string.h>

/* Bytes are shifted, not copied: the frames are little-endian on every machine. Without a loop, for
 * compilers make one move of that. */
static void store16(uint8_t *to, uint32_t value)
{
	to[0] = (uint8_t)value;
	to[1] = (uint8_t)(value >> 8);
}

static void store32(uint8_t *to, uint32_t value)
{
	to[0] = (uint8_t)value;
	to[1] = (uint8_t)(value >> 8);
	to[2] = (uint8_t)(value >> 16);
	to[3] = (uint8_t)(value >> 24);
}

static uint32_t load16(const uint8_t *from)
{
	return (uint32_t)from[0] | (uint32_t)from[1] << 8;
}

static uint32_t load32(const uint8_t *from)
{
	return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 |
	       (uint32_t)from[3] << 24;
}

/* Where the next field goes. A frame of every field at its largest fits WIRE_FRAME_MAX:
 * see below. */
struct writer {
	uint8_t *at;
};

static unused void write_u32(struct writer *w, const wire_u32 *value)
{
	store32(w->at, *value);
	w->at += 4;
}

static unused void write_u64(struct writer *w, const wire_u64 *value)
{
	store32(w->at, (uint32_t)*value);
	store32(w->at + 4, (uint32_t)(*value >> 32));
	w->at += 8;
}

static unused void write_uuid(struct writer *w, const wire_uuid *value)
{
	memcpy(w->at, value->byte, sizeof(value->byte));
	w->at += sizeof(value->byte);
}

static unused void write_text(struct writer *w, const wire_text *value)
{
	size_t length = strnlen(value->text, WIRE_TEXT_MAX);

	*w->at++ = (uint8_t)length;
	memcpy(w->at, value->text, length);
	w->at += length;
}

struct reader {
	const uint8_t *at, *end;
	int bad;
};

/* The next `size` bytes of the frame, or NULL, and then the frame is bad. */
static const uint8_t *next(struct reader *r, size_t size)
{
	const uint8_t *here = r->at;

	if (r->bad || (size_t)(r->end - r->at) < size) {
		r->bad = 1;
		return NULL;
	}
	r->at += size;
	return here;
}

static unused void read_u32(struct reader *r, wire_u32 *ret_value)
{
	const uint8_t *from = next(r, 4);

	if (from)
		*ret_value = load32(from);
}

static unused void read_u64(struct reader *r, wire_u64 *ret_value)
{
	const uint8_t *from = next(r, 8);

	if (from)
		*ret_value = load32(from) | (uint64_t)load32(from + 4) << 32;
}

static unused void read_uuid(struct reader *r, wire_uuid *ret_value)
{
	const uint8_t *from = next(r, sizeof(ret_value->byte));

	if (from)
		memcpy(ret_value->byte, from, sizeof(ret_value->byte));
}

/* A NUL inside would make two different frames look the same to everything that reads the text. */
static unused void read_text(struct reader *r, wire_text *ret_value)
{
	const uint8_t *length = next(r, 1);
	const uint8_t *from = length ? next(r, *length) : NULL;

	if (!from)
		return;
	if (memchr(from, 0, *length)) {
		r->bad = 1;
		return;
	}
	memcpy(ret_value->text, from, *length);
	ret_value->text[*length] = 0;
}

/* A field that an older peer does not know to send reads as zero. */
static unused int more(const struct reader *r)
{
	return !r->bad && r->at < r->end;
}

/* clang-format off: a macro's argument is a list of fields */
#define FIELD(type, name) write_##type(w, &m->name);
#define LATER(type, name) write_##type(w, &m->name);
#define MESSAGE(message, code, from, fields)                                                       \
	static void write_##message(struct writer *w, const struct wire_##message *m)              \
	{                                                                                          \
		(void)w, (void)m;                                                                  \
		fields                                                                             \
	}
#include "wire/messages.def"
#undef MESSAGE
#undef FIELD
#undef LATER

#define FIELD(type, name) read_##type(r, &m->name);
#define LATER(type, name)                                                                          \
	if (more(r))                                                                               \
		read_##type(r, &m->name);
#define MESSAGE(message, code, from, fields)                                                       \
	static void read_##message(struct reader *r, struct wire_##message *m)                     \
	{                                                                                          \
		(void)r, (void)m;                                                                  \
		fields                                                                             \
	}
#include "wire/messages.def"
#undef MESSAGE
#undef FIELD
#undef LATER

/* Each message at its largest fits a frame, so that encoding needs no bounds. */
#define FIELD(type, name) sizeof(wire_##type) +
#define LATER(type, name) sizeof(wire_##type) +
#define MESSAGE(message, code, from, fields)                                                       \
	_Static_assert(WIRE_HEADER + fields 0 <= (WIRE_FROM_##from == WIRE_FROM_guest              \
							  ? WIRE_GUEST_FRAME_MAX                   \
							  : WIRE_FRAME_MAX),                       \
		       #message " fits a frame");
#include "wire/messages.def"
#undef MESSAGE
#undef FIELD
#undef LATER
/* clang-format on */

void wire_begin(struct wire_message *ret_message, enum wire_code code, uint32_t id)
{
	ret_message->code = code;
	ret_message->id = id;
	switch (code) {
#define MESSAGE(name, number, from, fields)                                                        \
	case WIRE_##name:                                                                          \
		memset(&ret_message->name, 0, sizeof(ret_message->name));                          \
		break;
#include "wire/messages.def"
#undef MESSAGE
	}
}

_Static_assert(offsetof(struct wire_answer, done) == offsetof(struct wire_message, done) &&
		       sizeof(struct wire_answer) < sizeof(struct wire_message),
	       "an answer is the beginning of a message");

void wire_take_answer(const struct wire_message *message, struct wire_answer *ret_answer)
{
	memcpy(ret_answer, message, sizeof(*ret_answer));
}

size_t wire_encode(const struct wire_message *message, uint8_t *out)
{
	struct writer w = {out + WIRE_HEADER};
	size_t length;

	switch ((enum wire_code)message->code) {
#define MESSAGE(name, number, from, fields)                                                        \
	case WIRE_##name:                                                                          \
		write_##name(&w, &message->name);                                                  \
		break;
#include "wire/messages.def"
#undef MESSAGE
	}
	length = (size_t)(w.at - out);
	store32(out, WIRE_MAGIC);
	store16(out + 4, message->code);
	store16(out + 6, (uint32_t)length);
	store32(out + 8, message->id);
	store32(out + 12, 0);
	return length;
}

int wire_decode(const uint8_t *in, size_t size, struct wire_message *ret_message)
{
	struct reader r = {NULL, NULL, 0};
	size_t length;

	if (size < WIRE_HEADER)
		return WIRE_SHORT;
	length = load16(in + 6);
	if (load32(in) != WIRE_MAGIC || load32(in + 12) != 0 || length < WIRE_HEADER ||
	    length > WIRE_FRAME_MAX || length < size)
		return WIRE_BAD;
	if (length > size)
		return WIRE_SHORT;
	ret_message->code = load16(in + 4);
	ret_message->id = load32(in + 8);
	r.at = in + WIRE_HEADER;
	r.end = in + length;

	switch ((enum wire_code)ret_message->code) {
#define MESSAGE(name, number, from, fields)                                                        \
	case WIRE_##name:                                                                          \
		memset(&ret_message->name, 0, sizeof(ret_message->name));                          \
		read_##name(&r, &ret_message->name);                                               \
		return r.bad ? WIRE_BAD : 0;
#include "wire/messages.def"
#undef MESSAGE
	}
	return WIRE_UNKNOWN;
}

size_t wire_length(const uint8_t header[WIRE_HEADER])
{
	size_t length = load16(header + 6);

	return load32(header) == WIRE_MAGIC && length >= WIRE_HEADER && length <= WIRE_FRAME_MAX
		       ? length
		       : 0;
}

const char *wire_name(uint32_t code)
{
	switch ((enum wire_code)code) {
#define MESSAGE(name, number, from, fields)                                                        \
	case WIRE_##name:                                                                          \
		return #name;
#include "wire/messages.def"
#undef MESSAGE
	}
	return "unknown";
}

uint32_t wire_from(uint32_t code)
{
	switch ((enum wire_code)code) {
#define MESSAGE(name, number, from, fields)                                                        \
	case WIRE_##name:                                                                          \
		return WIRE_FROM_##from;
#include "wire/messages.def"
#undef MESSAGE
	}
	return 0;
}

void wire_set_text(wire_text *field, const char *text)
{
	size_t length = strnlen(text, WIRE_TEXT_MAX);

	memset(field->text, 0, sizeof(field->text));
	memcpy(field->text, text, length);
}
