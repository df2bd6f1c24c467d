/* SPDX-License-Identifier: Apache-2.0 */
/* What names mean within a function: registers, ranges of them, local variables, parameters. */
#include "sim/ptx/read.h"

#include <string.h>

enum { FRAME_BYTES_MOST = 1 << 28, LOCAL_BYTES_MOST = 1 << 24, SCOPES_MOST = 1000 };

/* A register's lanes, in the frame. Predicates are words; sixteen of them share a cache line. */
uint32_t body_register_new(struct read *r, unsigned width)
{
	struct body *b = r->body;
	struct function *f = b->function;
	uint32_t bytes = width == 1 ? 64 : width / 8 * LANES, at = f->frame_bytes;

	if (width == 1 && b->predicates_left) {
		b->predicates_left--;
		b->predicate_at += 4;
		return OPERAND(BASE_REGISTERS, b->predicate_at);
	}
	if (bytes > FRAME_BYTES_MOST - at)
		read_fail(r, PTX_INVALID, "%s has too many registers", f->name);
	f->frame_bytes += bytes;
	if (width == 1) {
		b->predicate_at = at;
		b->predicates_left = 15;
	} else {
		f->words32 += width == 64 ? 2 : 1;
	}
	return OPERAND(BASE_REGISTERS, at);
}

static struct symbol *new_register(struct read *r, const struct lex_token *name, unsigned width,
				   enum code_type type)
{
	struct symbol *s = read_symbol_new(r, name, SYMBOL_REGISTER);

	s->width = (uint8_t)width;
	s->type = type;
	s->operand = body_register_new(r, width);
	return s;
}

void body_local(struct read *r, struct symbol *s)
{
	struct function *f = r->body->function;
	uint64_t at;

	if (s->unsized || s->size > LOCAL_BYTES_MOST)
		read_fail(r, PTX_INVALID, "%s is too large for local memory", s->name);
	/* Vectors of 16 bytes are the most that is ever accessed at once. */
	at = (f->local_bytes + s->align - 1) & ~(s->align - 1);
	if (at + s->size > LOCAL_BYTES_MOST)
		read_fail(r, PTX_INVALID, "%s has too much local memory", f->name);
	s->offset = at;
	f->local_bytes = (uint32_t)(at + s->size);
}

static struct symbol *range_member(struct read *r, struct symbol *range, const char *name,
				   size_t length)
{
	struct lex_token whole = {.text = name, .length = (uint32_t)length, .line = r->token.line};
	struct symbol *s;

	if (range->space == SPACE_GENERIC) {
		s = new_register(r, &whole, range->width, range->type);
	} else {
		s = read_symbol_new(r, &whole, SYMBOL_VARIABLE);
		s->space = range->space;
		s->size = range->size;
		s->align = range->align;
		s->type = range->type;
		body_local(r, s);
	}
	s->entry = names_add(&r->body->names, name, length, s);
	if (!s->entry)
		read_fail(r, -ENOMEM, "no memory");
	s->next = range->parts;
	range->parts = s;
	return s;
}

/* The member of a range, made now if this is its first use. The prefix may itself end in digits:
 * %r1<5> has %r10. */
static struct symbol *from_range(struct read *r, const char *name, size_t length)
{
	size_t prefix = length;

	while (prefix && name[prefix - 1] >= '0' && name[prefix - 1] <= '9')
		prefix--;
	for (size_t n = prefix; n < length; n++) {
		struct symbol *range = names_find(&r->body->names, name, n);
		uint64_t number = 0;

		if (!range || range->kind != SYMBOL_RANGE || length - n > 10)
			continue;
		for (size_t i = n; i < length; i++)
			number = number * 10 + (uint64_t)(name[i] - '0');
		if (number < range->count)
			return range_member(r, range, name, length);
	}
	return NULL;
}

/* A register, variable or parameter of the function that is being read. */
struct symbol *body_register(struct read *r, const char *name, size_t length)
{
	struct symbol *s = names_find(&r->body->names, name, length);

	return s ? s : from_range(r, name, length);
}

/* ---- parameters and results ---------------------------------------------------------------- */

static void skip_pointer_hints(struct read *r) /* .ptr .global .align 4 */
{
	static const char *const words[] = {".ptr", ".global", ".const", ".shared", ".local"};

	while (r->token.kind == LEX_DOT) {
		size_t i = 0;

		if (read_accept(r, ".align")) {
			(void)read_count(r, 1 << 16, ".align");
			continue;
		}
		while (i < ARRAY_SIZE(words) && !read_at(r, words[i]))
			i++;
		if (i == ARRAY_SIZE(words))
			read_unexpected(r, "a parameter's name");
		read_next(r);
	}
}

static struct formal one_formal(struct read *r)
{
	struct formal f = {.align = 1};
	uint64_t align = 0;

	if (read_accept(r, ".reg"))
		f.in_register = true;
	else
		read_expect(r, ".param");
	if (read_accept(r, ".align"))
		align = read_count(r, 1 << 12, ".align");
	f.type = read_type(r);
	f.width = (uint8_t)code_type_bits(f.type);
	f.size = f.width < 8 ? 1 : f.width / 8;
	skip_pointer_hints(r);
	f.align = align && !(align & (align - 1)) ? (uint32_t)align : f.size;
	if (r->token.kind == LEX_NAME) {
		f.name = r->token.text;
		f.name_length = r->token.length;
		f.line = r->token.line;
		read_next(r);
	}
	if (read_accept(r, "[")) {
		uint64_t many = 0;

		f.is_array = true;
		if (!read_at(r, "]"))
			many = read_count(r, 1 << 16, "a parameter's size");
		read_expect(r, "]");
		f.size = (uint32_t)(f.size * many);
	}
	return f;
}

struct formals *read_formals(struct read *r, struct formals *formals, bool results)
{
	struct formal *list = NULL;
	uint32_t n = 0, capacity = 0;

	read_expect(r, "(");
	while (!read_at(r, ")")) {
		struct formal f = one_formal(r);

		read_grow(r, &list, &capacity, sizeof(*list), n + 1);
		list[n++] = f;
		if (!read_accept(r, ","))
			break;
	}
	read_expect(r, ")");
	if (results) {
		formals->results = list;
		formals->n_results = n;
	} else {
		formals->params = list;
		formals->n_params = n;
	}
	return formals;
}

void body_formals(struct read *r, struct formal *list, uint32_t n, const struct ptx_param *params)
{
	for (uint32_t i = 0; i < n; i++) {
		struct formal *f = &list[i];
		struct lex_token name = {
			.text = f->name, .length = f->name_length, .line = f->line};
		struct symbol *s;

		if (f->in_register) {
			s = new_register(r, &name, f->width, f->type);
			f->operand = s->operand;
		} else {
			s = read_symbol_new(r, &name, params ? SYMBOL_PARAM : SYMBOL_VARIABLE);
			s->type = f->type;
			s->size = f->size;
			s->align = f->align;
			s->space = params ? SPACE_PARAM : SPACE_FUNCTION_PARAM;
			if (params)
				s->offset = params[i].offset;
			else
				body_local(r, s);
			f->offset = (uint32_t)s->offset;
		}
		if (f->name_length)
			read_add(r, &name, s);
	}
}

/* ---- scopes -------------------------------------------------------------------------------- */

void body_open_scope(struct read *r)
{
	struct body *b = r->body;

	if (++b->depth > SCOPES_MOST)
		read_fail(r, PTX_INVALID, "braces are nested too deeply");
	read_grow(r, &b->scope_parents, &b->scopes_capacity, sizeof(uint32_t), b->n_scopes + 1);
	b->scope_parents[b->n_scopes] = b->scope;
	b->scope = b->n_scopes++;
}

static void hide_members(struct body *b, struct symbol *range, bool hide, struct read *r)
{
	for (struct symbol *s = range->parts; s; s = s->next) {
		if (hide) {
			names_remove(&b->names, s->entry);
			continue;
		}
		s->entry = names_add(&b->names, s->name, strlen(s->name), s);
		if (!s->entry)
			read_fail(r, -ENOMEM, "no memory");
	}
}

void body_close_scope(struct read *r, uint32_t n_entries)
{
	struct body *b = r->body;

	while (b->n_entries > n_entries) {
		struct names_entry *e = b->entries[--b->n_entries];
		struct symbol *s = e->value;

		names_remove(&b->names, e);
		if (s->kind != SYMBOL_RANGE)
			continue;
		hide_members(b, s, true, r);
		if (s->hides)
			hide_members(b, s->hides, false, r);
	}
	b->depth--;
	b->scope = b->scope_parents[b->scope];
}

/* .reg .b32 %r<10>, a, b; .reg .v2 .u64 %v; */
void body_registers(struct read *r)
{
	unsigned elements = read_accept(r, ".v2") ? 2 : read_accept(r, ".v4") ? 4 : 0;
	enum code_type type = read_type(r);
	unsigned width = code_type_bits(type);

	do {
		struct lex_token name = read_name(r);
		struct symbol *s, *older;

		if (read_accept(r, "<")) {
			if (elements)
				read_fail(r, PTX_INVALID, "a range of vectors is not simulated");
			s = read_symbol_new(r, &name, SYMBOL_RANGE);
			s->width = (uint8_t)width;
			s->type = type;
			s->count = read_names_count(r);
			older = names_find(&r->body->names, name.text, name.length);
			if (older && older->kind == SYMBOL_RANGE) {
				s->hides = older;
				hide_members(r->body, older, true, r);
			}
		} else if (elements) {
			s = read_symbol_new(r, &name, SYMBOL_REGISTER);
			s->elements = (uint8_t)elements;
			s->width = (uint8_t)width;
			s->parts = read_alloc(r, elements * sizeof(*s->parts));
			for (unsigned i = 0; i < elements; i++)
				s->parts[i] = *new_register(r, &name, width, type);
		} else {
			s = new_register(r, &name, width, type);
		}
		read_add(r, &name, s);
	} while (read_accept(r, ","));
	read_expect(r, ";");
}
