/* SPDX-License-Identifier: Apache-2.0 */
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

void body_uses(struct read *r, struct symbol *symbol)
{
	struct function *f = r->body->function;

	symbol->referenced = true;
	if (symbol->kind == SYMBOL_VARIABLE && symbol->space != SPACE_SHARED)
		return;
	for (uint32_t i = f->n_uses; i-- > 0 && f->n_uses - i < 16;)
		if (f->uses[i] == symbol)
			return;
	read_grow(r, &f->uses, &f->uses_capacity, sizeof(struct symbol *), f->n_uses + 1);
	f->uses[f->n_uses++] = symbol;
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
	while (r->token.kind == LEX_DOT) { /* .ptr .global .align 4 */
		if (read_accept(r, ".align"))
			(void)read_count(r, 1 << 16, ".align");
		else if (read_at(r, ".ptr") || read_at(r, ".global") || read_at(r, ".const") ||
			 read_at(r, ".shared") || read_at(r, ".local"))
			read_next(r);
		else
			read_unexpected(r, "a parameter's name");
	}
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

static void declare_formals(struct read *r, struct formal *list, uint32_t n,
			    const struct ptx_param *params)
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

/* ---- scopes and labels --------------------------------------------------------------------- */

static void open_scope(struct read *r)
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

static void close_scope(struct read *r, uint32_t n_entries)
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

static void label(struct read *r, const struct lex_token *name)
{
	struct body *b = r->body;
	struct label *older = names_find(&b->labels, name->text, name->length), *l;

	for (l = older; l; l = l->next)
		if (l->scope == b->scope)
			read_fail(r, PTX_INVALID, "the label %.*s is set twice", (int)name->length,
				  name->text);
	l = read_alloc(r, sizeof(*l));
	l->next = older;
	l->scope = b->scope;
	l->at = r->module->n_code;
	if (!names_add(&b->labels, name->text, name->length, l))
		read_fail(r, -ENOMEM, "no memory");
}

void body_use_label(struct read *r, const struct lex_token *name, bool in_words, uint32_t index)
{
	struct label_use *use = read_alloc(r, sizeof(*use));

	use->name = name->text;
	use->length = name->length;
	use->line = name->line;
	use->scope = r->body->scope;
	use->in_words = in_words;
	use->index = index;
	use->next = r->body->uses;
	r->body->uses = use;
}

static void resolve_labels(struct read *r)
{
	struct body *b = r->body;

	for (struct label_use *use = b->uses; use; use = use->next) {
		struct label *l = NULL;
		uint32_t scope = use->scope;

		for (;;) {
			l = names_find(&b->labels, use->name, use->length);
			while (l && l->scope != scope)
				l = l->next;
			if (l || scope == 0)
				break;
			scope = b->scope_parents[scope];
		}
		if (!l) {
			r->token.line = use->line;
			read_fail(r, PTX_INVALID, "there is no label %.*s", (int)use->length,
				  use->name);
		}
		if (use->in_words)
			r->module->words[use->index] = l->at;
		else
			r->module->code[use->index].imm = l->at;
	}
}

uint32_t body_emit(struct read *r, const struct insn *insn)
{
	struct ptx_module *m = r->module;

	read_grow(r, &m->code, &m->code_capacity, sizeof(*m->code), m->n_code + 1);
	m->code[m->n_code] = *insn;
	return m->n_code++;
}

uint32_t body_words(struct read *r, uint32_t n)
{
	struct ptx_module *m = r->module;
	uint32_t at = m->n_words;

	read_grow(r, &m->words, &m->words_capacity, sizeof(*m->words), at + n);
	memset(m->words + at, 0, n * sizeof(*m->words));
	m->n_words += n;
	return at;
}

/* ---- statements ---------------------------------------------------------------------------- */

/* .reg .b32 %r<10>, a, b; .reg .v2 .u64 %v; */
static void registers(struct read *r)
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

static uint64_t pragma_number(struct read *r, const char **at, const char *end)
{
	const char *first;
	uint64_t v = 0;
	bool fits = true;

	while (*at < end && **at == ' ')
		++*at;
	for (first = *at; *at < end && **at >= '0' && **at <= '9'; ++*at)
		fits = fits && !__builtin_mul_overflow(v, 10, &v) &&
		       !__builtin_add_overflow(v, (uint64_t)(**at - '0'), &v);
	if (!fits || *at == first || (*at < end && **at != ' '))
		read_fail(r, PTX_INVALID, "a mete-cost pragma needs whole numbers");
	return v;
}

static void cost(struct read *r, const struct lex_token *t)
{
	static const struct {
		const char *word;
		bool bytes, times_param;
	} kinds[] = {
		{"mete-cost-ns ", false, false},
		{"mete-cost-ns-param ", false, true},
		{"mete-cost-bytes ", true, false},
		{"mete-cost-bytes-param ", true, true},
	};
	struct module_kernel *k = r->body->function->kernel;
	const char *at, *end = t->text + t->length;
	struct cost *c;

	if (t->length < 10 || memcmp(t->text, "mete-cost-", 10) != 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t n = strlen(kinds[i].word);

		if (t->length < n || memcmp(t->text, kinds[i].word, n) != 0)
			continue;
		if (!k)
			read_fail(r, PTX_INVALID, "a mete-cost pragma belongs into an .entry");
		c = read_alloc(r, sizeof(*c));
		c->bytes = kinds[i].bytes;
		c->times_param = kinds[i].times_param;
		at = t->text + n;
		if (c->times_param)
			c->param = (uint32_t)pragma_number(r, &at, end);
		c->value = pragma_number(r, &at, end);
		if (c->times_param && c->param >= k->info.n_params)
			read_fail(r, PTX_INVALID, "%s has no parameter %u", k->info.name, c->param);
		c->next = k->costs;
		k->costs = c;
		return;
	}
	read_fail(r, PTX_INVALID, "\"%.*s\" is no cost that ptx.h describes",
		  t->length > 60 ? 60 : (int)t->length, t->text);
}

static void pragma(struct read *r)
{
	do {
		if (r->token.kind != LEX_STRING)
			read_unexpected(r, "a string");
		cost(r, &r->token);
		read_next(r);
	} while (read_accept(r, ","));
	read_expect(r, ";");
}

static void branch_targets(struct read *r, const struct lex_token *name)
{
	struct symbol *s = read_symbol_new(r, name, SYMBOL_TARGETS);

	s->words_at = r->module->n_words;
	do {
		struct lex_token target = read_name(r);

		body_use_label(r, &target, true, body_words(r, 1));
		s->n_targets++;
	} while (read_accept(r, ","));
	read_expect(r, ";");
	read_add(r, name, s);
}

static void call_targets(struct read *r, const struct lex_token *name)
{
	struct symbol *s = read_symbol_new(r, name, SYMBOL_PROTOTYPE);

	do {
		struct lex_token target = read_name(r);
		struct symbol *f = names_find(&r->statics, target.text, target.length);

		if (!f || f->kind != SYMBOL_FUNCTION)
			read_fail(r, PTX_INVALID, "%.*s is no function", (int)target.length,
				  target.text);
		body_uses(r, f);
	} while (read_accept(r, ","));
	read_expect(r, ";");
	read_add(r, name, s);
}

/* name : .callprototype (.param .b32 _) _ (.param .b64 _); */
static void prototype(struct read *r, const struct lex_token *name)
{
	struct symbol *s = read_symbol_new(r, name, SYMBOL_PROTOTYPE);

	s->formals = read_alloc(r, sizeof(*s->formals));
	if (read_at(r, "("))
		read_formals(r, s->formals, true);
	read_name(r);
	if (read_at(r, "("))
		read_formals(r, s->formals, false);
	read_accept(r, ".noreturn");
	read_expect(r, ";");
	read_add(r, name, s);
}

static void directive(struct read *r)
{
	enum code_space space;

	if (read_accept(r, ".reg")) {
		registers(r);
	} else if (read_space(r, &space)) {
		read_variables(r, space, LINK_STATIC);
	} else if (read_accept(r, ".pragma")) {
		pragma(r);
	} else if (read_at(r, ".loc") || read_at(r, ".file")) {
		lex_skip_line(&r->lex);
		read_next(r);
	} else {
		read_fail(r, PTX_INVALID, "%.*s in a function is not simulated",
			  r->token.length > 60 ? 60 : (int)r->token.length, r->token.text);
	}
}

static void named(struct read *r, uint32_t guard, bool guard_not)
{
	struct lex_token name = read_name(r);

	if (guard == OPERAND_NONE && read_accept(r, ":")) {
		if (read_accept(r, ".branchtargets"))
			branch_targets(r, &name);
		else if (read_accept(r, ".calltargets"))
			call_targets(r, &name);
		else if (read_accept(r, ".callprototype"))
			prototype(r, &name);
		else
			label(r, &name);
		return;
	}
	lower_instruction(r, &name, guard, guard_not);
}

static void guarded(struct read *r)
{
	bool guard_not = read_accept(r, "!");
	struct lex_token name = read_name(r);
	struct symbol *s = read_find(r, name.text, name.length);

	if (!s || s->kind != SYMBOL_REGISTER || s->width != 1)
		read_fail(r, PTX_INVALID, "%.*s is no predicate", (int)name.length, name.text);
	named(r, s->operand, guard_not);
}

static void statements(struct read *r)
{
	uint32_t marks_capacity = 0, n_marks = 0, *marks = NULL;

	for (;;) {
		r->expression_depth = 0;
		if (read_accept(r, "{")) {
			read_grow(r, &marks, &marks_capacity, sizeof(*marks), n_marks + 1);
			marks[n_marks++] = r->body->n_entries;
			open_scope(r);
		} else if (read_accept(r, "}")) {
			if (!n_marks)
				return;
			close_scope(r, marks[--n_marks]);
		} else if (read_accept(r, "@")) {
			guarded(r);
		} else if (r->token.kind == LEX_NAME) {
			named(r, OPERAND_NONE, false);
		} else if (r->token.kind == LEX_DOT) {
			directive(r);
		} else if (!read_accept(r, ";")) {
			read_unexpected(r, "an instruction");
		}
	}
}

void read_body(struct read *r, struct function *f)
{
	struct body b = {
		.function = f, .names.arena = &r->module->arena, .labels.arena = &r->module->arena};
	struct insn end = {.kind = KIND_RET, .guard = OPERAND_NONE, .source = (uint16_t)r->source};

	read_expect(r, "{");
	r->body = &b;
	open_scope(r);
	f->start = r->module->n_code;
	f->frame_bytes = 0;
	declare_formals(r, f->formals.results, f->formals.n_results, NULL);
	declare_formals(r, f->formals.params, f->formals.n_params,
			f->kernel ? f->kernel->info.params : NULL);
	statements(r);
	end.line = r->token.line;
	body_emit(r, &end); /* whoever falls off the end */
	resolve_labels(r);
	f->n_insns = r->module->n_code - f->start;
	r->body = NULL;
}
