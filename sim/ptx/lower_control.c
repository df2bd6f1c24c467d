/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/lower.h"

#include <string.h>

void lower_bra(struct lowering *o)
{
	struct lex_token name = read_name(o->r);

	body_use_label(o->r, &name, false, o->r->module->n_code);
}

void lower_brx(struct lowering *o)
{
	struct lex_token name;
	struct argument a;
	struct symbol *s;

	lower_read(o, &a);
	o->insn.a = lower_scalar(o, &a, 32, false);
	read_expect(o->r, ",");
	name = read_name(o->r);
	s = read_find(o->r, name.text, name.length);
	if (!s || s->kind != SYMBOL_TARGETS)
		lower_fail(o, "needs the name of a .branchtargets before it");
	o->insn.extra = s->words_at;
	o->insn.imm = s->n_targets;
}

struct call_list {
	struct call_value values[64];
	uint32_t n;
};

static void call_values(struct lowering *o, struct call_list *list, bool results)
{
	read_expect(o->r, "(");
	while (!read_at(o->r, ")")) {
		struct call_value *v = &list->values[list->n];
		struct argument a;

		if (list->n == ARRAY_SIZE(list->values))
			lower_fail(o, "has too many arguments");
		lower_read(o, &a);
		if (a.kind == ARGUMENT_ADDRESS && lower_in_frame(a.symbol)) {
			v->where = (uint32_t)(a.symbol->offset + a.value);
			v->size =
				(uint32_t)(a.symbol->size > a.value ? a.symbol->size - a.value : 0);
		} else if (a.kind == ARGUMENT_REGISTER) {
			if (a.symbol->width == 1)
				lower_fail(o, "passes a predicate");
			v->where = a.symbol->operand;
			v->size = CALL_IN_REGISTER | lower_stored_width(a.symbol->width);
		} else if (results) {
			lower_fail(o, "needs variables or registers for its results");
		} else if (a.kind == ARGUMENT_FLOAT) {
			if (!a.width)
				lower_fail(o, "passes a literal without a width");
			v->where = lower_constant(o->r, a.width, a.value, NULL);
			v->size = CALL_IN_REGISTER | a.width;
		} else {
			v->where = lower_scalar(o, &a, 64, false);
			v->size = CALL_IN_REGISTER | 64;
		}
		list->n++;
		if (!read_accept(o->r, ","))
			break;
	}
	read_expect(o->r, ")");
}

/* Returns the function, or NULL for a call through a register. */
static struct symbol *call_target(struct lowering *o)
{
	struct read *r = o->r;
	struct lex_token name = read_name(r);
	struct symbol *s = read_find(r, name.text, name.length);

	if (s && s->kind == SYMBOL_REGISTER && s->width == 64) {
		o->insn.a = s->operand;
		o->insn.argument = 1;
		r->body->function->calls_unknown = true;
		return NULL;
	}
	if (!s || s->kind != SYMBOL_FUNCTION)
		read_fail(r, PTX_INVALID, "call: %.*s is no function",
			  name.length > 60 ? 60 : (int)name.length, name.text);
	if (s->function->is_entry)
		lower_fail(o, "calls a kernel");
	body_uses(r, s);
	return s;
}

/* link.c says which function it is. */
static void call_site(struct lowering *o, struct symbol *s)
{
	struct read *r = o->r;
	struct ptx_module *m = r->module;

	read_grow(r, &m->call_sites, &m->calls_capacity, sizeof(uint32_t), m->n_calls + 1);
	read_grow(r, &m->call_symbols, &m->call_symbols_capacity, sizeof(struct symbol *),
		  m->n_calls + 1);
	m->call_sites[m->n_calls] = m->n_code;
	m->call_symbols[m->n_calls++] = s;
}

/* call (results), function, (arguments), prototype; all but the function may be left out. */
void lower_call(struct lowering *o)
{
	struct call_list results = {.n = 0}, arguments = {.n = 0};
	struct read *r = o->r;
	struct symbol *target;
	uint32_t at;

	if (read_at(r, "(")) {
		call_values(o, &results, true);
		read_expect(r, ",");
	}
	target = call_target(o);
	if (read_accept(r, ",")) {
		if (read_at(r, "(")) {
			call_values(o, &arguments, false);
			if (read_accept(r, ","))
				read_name(r);
		} else {
			read_name(r);
		}
	}
	at = body_words(r, 2 + 2 * (results.n + arguments.n));
	o->insn.extra = at;
	r->module->words[at++] = results.n;
	r->module->words[at++] = arguments.n;
	memcpy(r->module->words + at, results.values, results.n * sizeof(struct call_value));
	at += 2 * results.n;
	memcpy(r->module->words + at, arguments.values, arguments.n * sizeof(struct call_value));
	if (target)
		call_site(o, target);
}
