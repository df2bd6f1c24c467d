/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/read.h"

#include <string.h>

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

/* ---- labels -------------------------------------------------------------------------------- */

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
		body_registers(r);
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
			body_open_scope(r);
		} else if (read_accept(r, "}")) {
			if (!n_marks)
				return;
			body_close_scope(r, marks[--n_marks]);
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
	body_open_scope(r);
	f->start = r->module->n_code;
	f->frame_bytes = 0;
	body_formals(r, f->formals.results, f->formals.n_results, NULL);
	body_formals(r, f->formals.params, f->formals.n_params,
		     f->kernel ? f->kernel->info.params : NULL);
	statements(r);
	end.line = r->token.line;
	body_emit(r, &end); /* for lanes that fall off the end */
	resolve_labels(r);
	f->n_insns = r->module->n_code - f->start;
	r->body = NULL;
}
