/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/lower.h"

#include <string.h>

void lower_mov_vector(struct lowering *o)
{
	unsigned n = o->insn.aux & AUX_V4 ? 4 : 2, bits = code_type_bits(o->type);
	struct argument d, a;

	lower_read(o, &d);
	read_expect(o->r, ",");
	lower_read(o, &a);
	if (d.kind != ARGUMENT_VECTOR || a.kind != ARGUMENT_VECTOR || d.n != n || a.n != n)
		lower_fail(o, "needs two vectors");
	if ((d.element_width && d.element_width != bits) ||
	    (a.element_width && a.element_width != bits))
		lower_fail(o, "has registers of another width");
	for (unsigned k = 0; k < n; k++)
		if (a.elements[k] == OPERAND_NONE ||
		    (d.elements[k] != OPERAND_NONE && d.elements[k] >> 30 != BASE_REGISTERS))
			lower_fail(o, "needs registers for its results");
	o->insn.width = MOV_VECTOR;
	o->insn.imm = n;
	o->insn.extra = body_words(o->r, 2 * n);
	memcpy(o->r->module->words + o->insn.extra, d.elements, n * sizeof(uint32_t));
	memcpy(o->r->module->words + o->insn.extra + n, a.elements, n * sizeof(uint32_t));
}

static void mov_parts(struct lowering *o, const struct argument *whole,
		      const struct argument *parts, bool pack)
{
	unsigned bits = code_type_bits(o->type);

	if (whole->kind == ARGUMENT_VECTOR || bits % parts->n || bits / parts->n < 8)
		lower_fail(o, "has vectors that do not fit");
	if (parts->element_width && parts->element_width != bits / parts->n)
		lower_fail(o, "has parts of another width");
	for (unsigned k = 0; k < parts->n; k++)
		if (pack ? parts->elements[k] == OPERAND_NONE
			 : parts->elements[k] != OPERAND_NONE &&
				    parts->elements[k] >> 30 != BASE_REGISTERS)
			lower_fail(o, "has parts that are no registers");
	o->insn.width = pack ? MOV_PACK : MOV_UNPACK;
	o->insn.imm = parts->n;
	if (pack)
		o->insn.d = lower_result(o, whole, bits, false);
	else
		o->insn.a = lower_scalar(o, whole, bits, false);
	o->insn.extra = body_words(o->r, parts->n);
	memcpy(o->r->module->words + o->insn.extra, parts->elements, parts->n * sizeof(uint32_t));
}

/* A literal in a vector to be packed is as wide as a part of the whole. */
static void part_type(struct lowering *o)
{
	static const enum code_type halves[] = {TYPE_B16, TYPE_B32};
	unsigned bits = code_type_bits(o->type), n = 1;
	struct lex lex = o->r->lex;
	struct lex_token t;

	if (!read_at(o->r, "{"))
		return;
	do {
		t = lex_next(&lex);
		n += t.kind == LEX_SIGN && lex_is(&t, ",");
	} while (t.kind != LEX_END && t.kind != LEX_BAD && !lex_is(&t, "}"));
	if (bits / n == 16)
		o->type = halves[0];
	else if (bits / n == 32)
		o->type = halves[1];
	else if (bits / n == 8)
		o->type = TYPE_B8;
}

static void mov_special(struct lowering *o, const struct argument *a, unsigned bits)
{
	if (a->value >= SPECIAL_STORED || (a->value == SPECIAL_GRIDID && bits == 64)) {
		o->insn.width = MOV_SPECIAL;
		o->insn.imm = a->value == SPECIAL_GRIDID ? SPECIAL_GRIDID64 : (int64_t)a->value;
		return;
	}
	o->insn.a = OPERAND(BASE_SPECIAL, a->value * LANES * sizeof(uint32_t));
	if (bits != 32)
		o->insn.width = MOV_NARROW;
}

static void mov_scalar(struct lowering *o, const struct argument *d, const struct argument *a)
{
	unsigned bits = code_type_bits(o->type);

	o->insn.width = MOV_PLAIN;
	o->insn.d = lower_result(o, d, bits, true);
	if (o->insn.d != OPERAND_NONE && a->kind == ARGUMENT_SPECIAL && a->width > 1) {
		mov_special(o, a, bits);
	} else if (o->insn.d != OPERAND_NONE && bits >= 32 && a->kind == ARGUMENT_ADDRESS &&
		   lower_in_frame(a->symbol)) {
		o->insn.width = MOV_FRAME;
		o->insn.imm = (int64_t)(a->symbol->offset + a->value);
	} else {
		o->insn.a = lower_scalar(o, a, bits, o->type == TYPE_F32 || o->type == TYPE_F64);
	}
}

void lower_mov(struct lowering *o)
{
	enum code_type type = o->type;
	struct argument d, a;

	part_type(o);
	lower_read(o, &d);
	read_expect(o->r, ",");
	o->type = type;
	part_type(o);
	lower_read(o, &a);
	o->type = type;
	if (d.kind == ARGUMENT_VECTOR && d.n > 1)
		mov_parts(o, &a, &d, false);
	else if (a.kind == ARGUMENT_VECTOR && a.n > 1)
		mov_parts(o, &d, &a, true);
	else
		mov_scalar(o, &d, &a);
}

void lower_cvta(struct lowering *o)
{
	unsigned bits = code_type_bits(o->type);
	struct argument a;

	lower_read(o, &a);
	o->insn.d = lower_result(o, &a, bits, false);
	read_expect(o->r, ",");
	lower_read(o, &a);
	if (lower_space(o) == SPACE_PARAM && !o->r->body->function->is_entry)
		lower_set_space(o, SPACE_LOCAL);
	if (a.kind == ARGUMENT_ADDRESS && lower_in_frame(a.symbol)) {
		o->insn.aux |= AUX_FRAME;
		o->insn.imm = (int64_t)(a.symbol->offset + a.value);
		o->insn.a = lower_constant(o->r, bits, 0, NULL);
		lower_set_space(o, SPACE_LOCAL);
		return;
	}
	o->insn.a = lower_scalar(o, &a, bits, false);
}

void lower_cvt(struct lowering *o)
{
	const uint32_t matters =
		AUX_ROUND | AUX_FTZ | AUX_SAT | AUX_INTEGRAL | AUX_RELU | AUX_ROUNDED;
	enum code_type to = (enum code_type)o->form.types[0];
	enum code_type from = (enum code_type)o->form.types[1];
	unsigned to_bits = code_type_bits(to), from_bits = code_type_bits(from);
	unsigned d_width = lower_stored_width(to_bits), a_width = lower_stored_width(from_bits);
	struct argument a;
	code_fn *fast;

	lower_read(o, &a);
	if (a.kind == ARGUMENT_REGISTER && a.symbol->width >= to_bits) {
		o->insn.d = a.symbol->operand;
		d_width = lower_stored_width(a.symbol->width);
	} else {
		o->insn.d = lower_result(o, &a, to_bits, false);
	}
	read_expect(o->r, ",");
	lower_read(o, &a);
	if (a.kind == ARGUMENT_REGISTER && a.symbol->width >= from_bits) {
		o->insn.a = a.symbol->operand;
		a_width = lower_stored_width(a.symbol->width);
	} else {
		o->insn.a = lower_scalar(o, &a, from_bits, from == TYPE_F32 || from == TYPE_F64);
	}
	o->insn.argument = (uint16_t)(to << 8 | from);
	o->insn.width = (uint16_t)(d_width | a_width << 8);
	if (d_width == lower_stored_width(to_bits) && a_width == lower_stored_width(from_bits)) {
		fast = o->r->cvt_for(to, from, o->insn.aux & matters);
		if (fast)
			o->insn.run = fast;
	}
}

/* Four vectors of registers: results, two factors, what is added. */
void lower_mma(struct lowering *o)
{
	const struct mma_shape s = mma_shape(o->form.row->argument);
	const unsigned counts[] = {s.n_d, s.n_a, s.n_b, s.n_c};
	const unsigned width = s.a == MMA_F64 ? 64 : 32;
	uint32_t words[32], n = 0;
	struct argument a;

	o->type = s.a == MMA_F64 ? TYPE_B64 : TYPE_B32;
	for (unsigned v = 0; v < ARRAY_SIZE(counts); v++) {
		if (v)
			read_expect(o->r, ",");
		lower_read(o, &a);
		if (a.kind != ARGUMENT_VECTOR || a.n != counts[v] || a.element_width != width)
			lower_fail(o, "needs four vectors: the registers of its shape");
		for (unsigned k = 0; k < a.n; k++) {
			if (a.elements[k] == OPERAND_NONE ||
			    (!v && a.elements[k] >> 30 != BASE_REGISTERS))
				lower_fail(o, "needs registers");
			words[n++] = a.elements[k];
		}
	}
	o->insn.f = lower_constant(o->r, 32, UINT32_MAX, NULL);
	o->insn.extra = body_words(o->r, n);
	memcpy(o->r->module->words + o->insn.extra, words, n * sizeof(*words));
}
