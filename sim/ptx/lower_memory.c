/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/lower.h"

#include <string.h>

void lower_set_space(struct lowering *o, enum code_space space)
{
	o->insn.aux = (o->insn.aux & ~(uint32_t)AUX_SPACE) | (uint32_t)space << AUX_SPACE_SHIFT;
}

enum code_space lower_space(const struct lowering *o)
{
	return (enum code_space)((o->insn.aux & AUX_SPACE) >> AUX_SPACE_SHIFT);
}

static void symbol_address(struct lowering *o, struct argument *a)
{
	struct symbol *s = a->symbol;
	enum code_space space = lower_space(o);

	o->insn.imm = (int64_t)a->value;
	if (s->kind == SYMBOL_FUNCTION)
		lower_fail(o, "reads or writes a function");
	if (s->kind == SYMBOL_PARAM || lower_in_frame(s)) {
		bool fits = s->kind == SYMBOL_PARAM || s->space == SPACE_FUNCTION_PARAM
				    ? space == SPACE_PARAM
				    : space == SPACE_LOCAL;

		if (!fits && space != SPACE_GENERIC)
			lower_fail(o, "names a variable of another state space");
		lower_set_space(o, s->kind == SYMBOL_PARAM ? SPACE_PARAM : SPACE_LOCAL);
		if (s->kind == SYMBOL_VARIABLE)
			o->insn.aux |= AUX_FRAME;
		o->insn.imm += (int64_t)s->offset;
		o->insn.a = lower_constant(o->r, 64, 0, NULL);
		return;
	}
	if (space != SPACE_GENERIC && space != s->space)
		lower_fail(o, "names a variable of another state space");
	lower_set_space(o, s->space);
	body_uses(o->r, s);
	o->insn.imm = 0;
	o->insn.a = lower_constant(o->r, 64, a->value, s);
}

/* [register], [register+4], [name], [name+4], [4096] */
void lower_memory(struct lowering *o)
{
	struct read *r = o->r;
	struct argument a;

	read_expect(r, "[");
	lower_read(o, &a);
	switch (a.kind) {
	case ARGUMENT_REGISTER:
		if (a.symbol->width != 64 && a.symbol->width != 32)
			lower_wrong_width(o, &a, 64);
		if (a.symbol->width == 32)
			o->insn.aux |= AUX_NARROW;
		o->insn.a = a.symbol->operand;
		if (read_at(r, "+") || read_at(r, "-"))
			o->insn.imm = read_integer(r);
		/* A parameter of a .func is local memory. */
		if (lower_space(o) == SPACE_PARAM && !r->body->function->is_entry)
			lower_set_space(o, SPACE_LOCAL);
		break;
	case ARGUMENT_ADDRESS:
		symbol_address(o, &a);
		break;
	case ARGUMENT_INTEGER:
		o->insn.a = lower_constant(r, 64, a.value, NULL);
		break;
	case ARGUMENT_FLOAT:
	case ARGUMENT_SPECIAL:
	case ARGUMENT_VECTOR:
	case ARGUMENT_SINK:
	default:
		lower_fail(o, "needs an address");
	}
	read_expect(r, "]");
}

/* Registers may be wider than the datum. Returns what insn.width is to be: 0 if they are not. */
static uint16_t data_width(struct lowering *o, unsigned register_width)
{
	unsigned bits = code_type_bits(o->type), stored = lower_stored_width(register_width);

	if (register_width < bits || register_width == 1)
		lower_fail(o, "has a register that is narrower than the datum");
	return stored == lower_stored_width(bits) ? 0 : (uint16_t)stored;
}

static void vector_data(struct lowering *o, const struct argument *a, unsigned n, bool is_result)
{
	if (a->n != n)
		lower_fail(o, "has a vector of another length");
	if (a->element_width)
		o->insn.width = data_width(o, a->element_width);
	if (n == 1) {
		o->insn.d = a->elements[0];
		return;
	}
	o->insn.extra = body_words(o->r, n);
	memcpy(o->r->module->words + o->insn.extra, a->elements, n * sizeof(uint32_t));
	for (unsigned k = 0; k < n; k++) {
		bool none = a->elements[k] == OPERAND_NONE;

		if (is_result && !none && a->elements[k] >> 30 != BASE_REGISTERS)
			lower_fail(o, "needs registers for its results");
		if (!is_result && none)
			lower_fail(o, "reads _");
	}
}

static void data_operand(struct lowering *o, bool is_result)
{
	unsigned bits = code_type_bits(o->type);
	unsigned n = o->insn.aux & AUX_V4 ? 4 : o->insn.aux & AUX_V2 ? 2 : 1;
	struct argument a;

	lower_read(o, &a);
	if (a.kind == ARGUMENT_VECTOR) {
		vector_data(o, &a, n, is_result);
	} else if (n > 1) {
		lower_fail(o, "needs a vector");
	} else if (a.kind == ARGUMENT_REGISTER) {
		o->insn.width = data_width(o, a.symbol->width);
		o->insn.d = a.symbol->operand;
	} else if (is_result) {
		o->insn.d = lower_result(o, &a, bits, true);
	} else {
		o->insn.d = lower_scalar(o, &a, bits, o->type == TYPE_F32 || o->type == TYPE_F64);
	}
}

void lower_ld(struct lowering *o)
{
	data_operand(o, true);
	read_expect(o->r, ",");
	lower_memory(o);
}

void lower_st(struct lowering *o)
{
	lower_memory(o);
	read_expect(o->r, ",");
	data_operand(o, false);
}

void lower_atom(struct lowering *o, bool has_result)
{
	unsigned bits = code_type_bits(o->type);
	bool is_float = o->type == TYPE_F32 || o->type == TYPE_F64;
	bool cas = o->form.row->argument >> 8 == ATOM_CAS;
	struct argument a;

	if (has_result) {
		lower_read(o, &a);
		o->insn.d = lower_result(o, &a, bits, true);
		read_expect(o->r, ",");
	}
	lower_memory(o);
	read_expect(o->r, ",");
	lower_read(o, &a);
	o->insn.b = lower_scalar(o, &a, bits, is_float);
	if (cas) {
		read_expect(o->r, ",");
		lower_read(o, &a);
		o->insn.c = lower_scalar(o, &a, bits, is_float);
	}
}

/* [to], [from], bytes{, how many of them count} */
void lower_copy_async(struct lowering *o)
{
	struct insn to;
	struct argument a;
	uint32_t words[5];

	lower_set_space(o, SPACE_SHARED);
	lower_memory(o);
	to = o->insn;
	read_expect(o->r, ",");
	o->insn.aux &= ~(uint32_t)AUX_NARROW;
	lower_set_space(o, SPACE_GLOBAL);
	lower_memory(o);
	read_expect(o->r, ",");
	words[0] = o->insn.a;
	words[1] = (uint32_t)(uint64_t)o->insn.imm;
	words[2] = (uint32_t)((uint64_t)o->insn.imm >> 32);
	words[3] = o->insn.aux;
	lower_read(o, &a);
	if (a.kind != ARGUMENT_INTEGER || (a.value != 4 && a.value != 8 && a.value != 16))
		lower_fail(o, "copies 4, 8 or 16 bytes");
	to.width = (uint16_t)a.value;
	if (read_accept(o->r, ","))
		lower_read(o, &a);
	o->type = TYPE_U32;
	words[4] = lower_scalar(o, &a, 32, false);
	to.extra = body_words(o->r, ARRAY_SIZE(words));
	memcpy(o->r->module->words + to.extra, words, sizeof(words));
	o->insn = to;
}

/* [barrier]{, count}; state, [barrier]{, count}; predicate, [barrier], state or parity{, hint} */
void lower_mbarrier(struct lowering *o)
{
	enum code_mbarrier what = (enum code_mbarrier)o->form.row->argument;
	bool asks = what == MBARRIER_TEST || what == MBARRIER_PARITY;
	bool arrives = what == MBARRIER_ARRIVE || what == MBARRIER_DROP;
	struct argument a;

	if (asks || arrives) {
		lower_read(o, &a);
		o->insn.d = lower_result(o, &a, asks ? 1 : 64, arrives);
		read_expect(o->r, ",");
	}
	lower_memory(o);
	o->insn.b = lower_constant(o->r, 32, 1, NULL);
	if (what == MBARRIER_INIT || asks)
		read_expect(o->r, ",");
	else if (what == MBARRIER_INVAL || !read_accept(o->r, ","))
		return;
	o->type = what == MBARRIER_TEST ? TYPE_U64 : TYPE_U32;
	lower_read(o, &a);
	o->insn.b = lower_scalar(o, &a, what == MBARRIER_TEST ? 64 : 32, false);
	if (!asks)
		return;
	o->insn.aux |= AUX_POLL;
	if (read_accept(o->r, ","))
		lower_read(o, &a); /* how long it may sleep: not at all */
}
