/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/read.h"

#include <string.h>

enum { EXPRESSION_DEPTH = 100 };

static const uint64_t MOST_BYTES = 1ull << 40;

static int64_t expression(struct read *r, int level);

static int64_t unary(struct read *r)
{
	struct lex_token t = r->token;
	int64_t v;

	if (++r->expression_depth > EXPRESSION_DEPTH)
		read_fail(r, PTX_INVALID, "an expression is nested too deeply");
	if (read_accept(r, "-")) {
		v = (int64_t)(0 - (uint64_t)unary(r));
	} else if (read_accept(r, "+")) {
		v = unary(r);
	} else if (read_accept(r, "~")) {
		v = ~unary(r);
	} else if (read_accept(r, "!")) {
		v = !unary(r);
	} else if (read_accept(r, "(")) {
		if (r->token.kind == LEX_DOT) { /* a cast: (.s64) */
			read_type(r);
			read_expect(r, ")");
			v = unary(r);
		} else {
			v = expression(r, 0);
			read_expect(r, ")");
		}
	} else if (t.kind == LEX_INTEGER) {
		read_next(r);
		v = (int64_t)t.value;
	} else if (t.kind == LEX_NAME && lex_is(&t, "WARP_SZ")) {
		read_next(r);
		v = LANES;
	} else {
		read_unexpected(r, "a constant");
	}
	r->expression_depth--;
	return v;
}

#define OPERATOR(name, sign, level, value)                                                         \
	static int64_t operator_##name(int64_t a, int64_t b)                                       \
	{                                                                                          \
		uint64_t x = (uint64_t)a, y = (uint64_t)b;                                         \
                                                                                                   \
		(void)x, (void)y;                                                                  \
		return value;                                                                      \
	}
#include "sim/ptx/operators.def"
#undef OPERATOR

static const struct {
	const char *sign;
	int level;
	int64_t (*value)(int64_t a, int64_t b);
} operators[] = {
	{"?", 0, NULL}, /* of three operands */
#define OPERATOR(name, sign, level, value) {sign, level, operator_##name},
#include "sim/ptx/operators.def"
#undef OPERATOR
};

static int64_t applied(struct read *r, size_t n, int64_t a, int64_t b)
{
	bool divides =
		operators[n].value == operator_quotient || operators[n].value == operator_remainder;

	if (divides && (!b || (a == INT64_MIN && b == -1)))
		read_fail(r, PTX_INVALID, "a constant expression divides by zero");
	return operators[n].value(a, b);
}

static int64_t expression(struct read *r, int level)
{
	int64_t v = unary(r);

	for (;;) {
		size_t n = 0;

		while (n < ARRAY_SIZE(operators) &&
		       !(r->token.kind == LEX_SIGN && lex_is(&r->token, operators[n].sign)))
			n++;
		if (n == ARRAY_SIZE(operators) || operators[n].level < level)
			return v;
		read_next(r);
		if (++r->expression_depth > EXPRESSION_DEPTH)
			read_fail(r, PTX_INVALID, "an expression is nested too deeply");
		if (!operators[n].level) {
			int64_t yes = expression(r, 0), no;

			read_expect(r, ":");
			no = expression(r, 0);
			v = v ? yes : no;
		} else {
			v = applied(r, n, v, expression(r, operators[n].level + 1));
		}
		r->expression_depth--;
	}
}

int64_t read_integer(struct read *r)
{
	return expression(r, 0);
}

uint64_t read_count(struct read *r, uint64_t most, const char *what)
{
	int64_t v = read_integer(r);

	if (v < 0 || (uint64_t)v > most)
		read_fail(r, PTX_INVALID, "%s is %lld, and may be 0 to %llu", what, (long long)v,
			  (unsigned long long)most);
	return (uint64_t)v;
}

/* After the '<' of %r<100>; no expression, or the '>' would belong to it. */
uint32_t read_names_count(struct read *r)
{
	uint64_t n = r->token.value;

	if (r->token.kind != LEX_INTEGER || n > UINT32_MAX)
		read_unexpected(r, "the number of names");
	read_next(r);
	read_expect(r, ">");
	return (uint32_t)n;
}

enum code_type read_type(struct read *r)
{
	enum code_type type = form_type(r->token.text, r->token.length);

	if (r->token.kind != LEX_DOT || type == TYPE_NONE)
		read_unexpected(r, "a type");
	read_next(r);
	return type;
}

bool read_space(struct read *r, enum code_space *ret_space)
{
	static const struct {
		const char *word;
		enum code_space space;
	} spaces[] = {
		{".global", SPACE_GLOBAL},	  {".const", SPACE_CONST},
		{".shared", SPACE_SHARED},	  {".local", SPACE_LOCAL},
		{".param", SPACE_FUNCTION_PARAM},
	};

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
		if (r->token.kind == LEX_DOT && lex_is(&r->token, spaces[i].word)) {
			*ret_space = spaces[i].space;
			read_next(r);
			return true;
		}
	}
	return false;
}

struct symbol *read_find(struct read *r, const char *name, size_t length)
{
	struct symbol *s = NULL;

	if (r->body)
		s = body_register(r, name, length);
	return s ? s : names_find(&r->statics, name, length);
}

struct symbol *read_symbol_new(struct read *r, const struct lex_token *name, enum symbol_kind kind)
{
	struct symbol *s = read_alloc(r, sizeof(*s));

	s->kind = kind;
	s->name = arena_text(&r->module->arena, name->text, name->length);
	if (!s->name)
		read_fail(r, -ENOMEM, "no memory");
	s->line = name->line;
	s->source = r->source;
	return s;
}

/* In the function's scope that is open, or in the text's. */
void read_add(struct read *r, const struct lex_token *name, struct symbol *symbol)
{
	struct body *b = r->body;
	struct names_entry *e =
		names_add(b ? &b->names : &r->statics, name->text, name->length, symbol);

	if (!e)
		read_fail(r, -ENOMEM, "no memory");
	if (b) {
		read_grow(r, &b->entries, &b->entries_capacity, sizeof(*b->entries),
			  b->n_entries + 1);
		b->entries[b->n_entries++] = e;
	}
}

static void put(struct read *r, struct symbol *s, uint64_t at, uint64_t value, unsigned bytes)
{
	if (at + bytes > s->size && !s->unsized)
		read_fail(r, PTX_INVALID, "%s has more initial values than room", s->name);
	if (at + bytes > 1u << 30)
		read_fail(r, PTX_INVALID, "%s has too many initial values", s->name);
	read_grow(r, &s->initial, &s->initial_capacity, 1, (uint32_t)(at + bytes));
	for (unsigned i = 0; i < bytes; i++)
		s->initial[at + i] = (uint8_t)(value >> 8 * i);
	if (at + bytes > s->initial_bytes)
		s->initial_bytes = (uint32_t)(at + bytes);
}

/* name, name+4, generic(name), 0xFF(name), 0xFF00(generic(name)+4) */
static bool address_value(struct read *r, struct symbol *s, uint64_t at, unsigned bytes,
			  uint64_t mask)
{
	bool generic = false;
	struct reference *ref;
	struct symbol *other;

	if (r->token.kind != LEX_NAME || lex_is(&r->token, "WARP_SZ"))
		return false;
	if (lex_is(&r->token, "generic")) {
		read_next(r);
		read_expect(r, "(");
		generic = true;
	}
	other = names_find(&r->statics, r->token.text, r->token.length);
	if (!other || (other->kind != SYMBOL_VARIABLE && other->kind != SYMBOL_FUNCTION))
		read_fail(r, PTX_INVALID, "%.*s is not declared", (int)r->token.length,
			  r->token.text);
	read_next(r);
	if (generic)
		read_expect(r, ")");
	ref = read_alloc(r, sizeof(*ref));
	ref->symbol = other;
	ref->offset = at;
	ref->bytes = (uint8_t)bytes;
	ref->mask = mask;
	ref->generic = generic;
	if (read_at(r, "+") || read_at(r, "-"))
		ref->addend = read_integer(r);
	other->referenced = true;
	ref->next = s->references;
	s->references = ref;
	put(r, s, at, 0, bytes);
	return true;
}

static uint64_t float_bits(struct read *r, struct lex_token *t, enum code_type type, bool negative)
{
	double d;
	float f;
	uint32_t low;

	if (t->width)
		return negative ? t->value ^ 1ull << (t->width - 1) : t->value;
	memcpy(&d, &t->value, sizeof(d));
	if (negative)
		d = -d;
	if (type == TYPE_F64) {
		memcpy(&t->value, &d, sizeof(d));
		return t->value;
	}
	if (type != TYPE_F32)
		read_fail(r, PTX_INVALID, "a decimal fraction in data of another type");
	f = (float)d;
	memcpy(&low, &f, sizeof(f));
	return low;
}

static void scalar_value(struct read *r, struct symbol *s, uint64_t at, unsigned bytes)
{
	bool negative;
	uint64_t v;

	if (address_value(r, s, at, bytes, 0))
		return;
	negative = r->token.kind == LEX_SIGN && lex_is(&r->token, "-");
	if (negative)
		read_next(r);
	if (r->token.kind == LEX_FLOAT) {
		v = float_bits(r, &r->token, s->type, negative);
		read_next(r);
	} else {
		bool mask = r->token.kind == LEX_INTEGER;

		v = (uint64_t)read_integer(r);
		if (mask && read_accept(r, "(")) {
			if (!address_value(r, s, at, bytes, v))
				read_unexpected(r, "a name");
			read_expect(r, ")");
			return;
		}
		v = negative ? 0 - v : v;
	}
	put(r, s, at, v, bytes);
}

/* Braces may be nested as deeply as the array has dimensions; inner ones begin at a multiple of
 * what they hold. */
static void initial_value(struct read *r, struct symbol *s, uint64_t *at, const uint64_t *spans,
			  unsigned level, unsigned n_spans)
{
	unsigned bytes = code_type_bits(s->type) / 8;
	uint64_t begin = *at;

	if (!read_accept(r, "{")) {
		if (s->type == TYPE_B8 && r->token.kind == LEX_STRING)
			read_fail(r, PTX_INVALID, "a string as data");
		scalar_value(r, s, *at, bytes);
		*at += bytes;
		return;
	}
	if (level > n_spans)
		read_fail(r, PTX_INVALID, "%s has more braces than dimensions", s->name);
	while (!read_at(r, "}")) {
		initial_value(r, s, at, spans, level + 1, n_spans);
		if (!read_accept(r, ","))
			break;
	}
	read_expect(r, "}");
	if (level < n_spans && *at - begin < spans[level])
		*at = begin + spans[level];
}

enum { DIMENSIONS = 8 };

/* [3][4], or [][4] for what has its first size from its initial values. Returns how many. */
static unsigned read_sizes(struct read *r, struct symbol *s, uint64_t sizes[DIMENSIONS])
{
	unsigned n = 0;

	while (read_accept(r, "[")) {
		if (n == DIMENSIONS)
			read_fail(r, PTX_INVALID, "%s has too many dimensions", s->name);
		if (!read_at(r, "]")) {
			sizes[n++] = read_count(r, MOST_BYTES, "a dimension");
		} else if (n) {
			read_fail(r, PTX_INVALID, "only the first dimension may be left out");
		} else {
			s->unsized = true;
			sizes[n++] = 0;
		}
		s->is_array = true;
		read_expect(r, "]");
	}
	return n;
}

/* Multiplies an element's size by all sizes that are known. */
static void size_up(struct read *r, struct symbol *s, const uint64_t *sizes, unsigned n)
{
	for (unsigned i = s->unsized; i < n; i++)
		if (__builtin_mul_overflow(s->size, sizes[i], &s->size) || s->size > MOST_BYTES)
			read_fail(r, PTX_INVALID, "%s is too large", s->name);
}

static void dimensions(struct read *r, struct symbol *s)
{
	uint64_t sizes[DIMENSIONS], spans[DIMENSIONS + 2], at = 0, element = s->size;
	unsigned n = read_sizes(r, s, sizes);

	size_up(r, s, sizes, n);
	spans[n] = element;
	for (unsigned i = n; i-- > 1;)
		spans[i] = spans[i + 1] * sizes[i];
	spans[0] = s->unsized ? 0 : s->size;
	if (s->unsized)
		s->size = 0;
	if (!read_accept(r, "="))
		return;
	if (s->space != SPACE_GLOBAL && s->space != SPACE_CONST)
		read_fail(r, PTX_INVALID, "%s cannot have an initial value", s->name);
	initial_value(r, s, &at, spans, 0, n + (s->elements != 0));
	if (s->unsized) {
		s->size = (s->initial_bytes + element - 1) / element * element;
		s->unsized = false;
	}
}

/* An earlier declaration of the same name in this text: the definition takes its place. */
static struct symbol *redeclared(struct read *r, const struct lex_token *name)
{
	struct symbol *old = r->body ? NULL : names_find(&r->statics, name->text, name->length);

	if (!old)
		return NULL;
	if (old->kind != SYMBOL_VARIABLE || old->linkage != LINK_EXTERN)
		read_fail(r, PTX_INVALID, "%s is declared twice", old->name);
	return old;
}

static void one_variable(struct read *r, const struct symbol *like)
{
	struct lex_token name = read_name(r);
	struct symbol *old = redeclared(r, &name);
	struct symbol *s = old ? old : read_symbol_new(r, &name, SYMBOL_VARIABLE);
	struct symbol *next = s->next;
	const char *text = s->name;
	bool referenced = s->referenced;

	*s = *like;
	s->name = text;
	s->next = next;
	s->line = name.line;
	s->source = r->source;
	s->referenced = referenced;
	if (read_accept(r, "<")) { /* %P<2>: %P0 and %P1 */
		s->kind = SYMBOL_RANGE;
		s->count = read_names_count(r);
		read_add(r, &name, s);
		return;
	}
	if (old) {
		dimensions(r, s);
		return;
	}
	read_add(r, &name, s); /* its own address may be its value */
	dimensions(r, s);
	if (r->body && (s->space == SPACE_LOCAL || s->space == SPACE_FUNCTION_PARAM)) {
		body_local(r, s);
		return;
	}
	s->next = r->module->variables;
	r->module->variables = s;
}

void read_variables(struct read *r, enum code_space space, enum symbol_linkage linkage)
{
	struct symbol like = {.kind = SYMBOL_VARIABLE, .linkage = linkage, .space = space};
	uint64_t align = 0, natural;

	for (;;) {
		if (read_accept(r, ".align")) {
			align = read_count(r, 1 << 16, ".align");
			if (!align || align & (align - 1))
				read_fail(r, PTX_INVALID, ".align %llu is not a power of two",
					  (unsigned long long)align);
		} else if (read_accept(r, ".attribute")) {
			read_expect(r, "(");
			while (!read_at(r, ")") && r->token.kind != LEX_END) {
				like.managed |= read_at(r, ".managed");
				read_next(r);
			}
			read_expect(r, ")");
		} else if (read_accept(r, ".v2")) {
			like.elements = 2;
		} else if (read_accept(r, ".v4")) {
			like.elements = 4;
		} else {
			break;
		}
	}
	like.type = read_type(r);
	if (like.type == TYPE_PRED)
		read_fail(r, PTX_INVALID, "a predicate in memory");
	natural = code_type_bits(like.type) / 8 * (like.elements ? like.elements : 1);
	like.size = natural;
	like.align = align > natural ? align : align ? align : natural;
	do
		one_variable(r, &like);
	while (read_accept(r, ","));
	read_expect(r, ";");
}
