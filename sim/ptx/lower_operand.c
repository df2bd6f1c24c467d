/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/lower.h"

#include <string.h>

unsigned lower_stored_width(unsigned width)
{
	return width == 8 ? 16 : width;
}

static uint32_t pool_add(struct read *r, unsigned width, uint64_t value)
{
	struct ptx_module *m = r->module;
	uint32_t bytes = width == 1 ? 64 : width / 8 * LANES, at = m->constants_bytes;

	if (at + bytes > OPERAND_OFFSET_MAX)
		read_fail(r, PTX_INVALID, "there are too many constants");
	read_grow(r, &m->constants, &m->constants_capacity, 1, at + bytes);
	m->constants_bytes += bytes;
	for (uint32_t l = 0; l < (width == 1 ? 16 : LANES); l++) {
		if (width == 64)
			((uint64_t *)(m->constants + at))[l] = value;
		else if (width == 16)
			((uint16_t *)(m->constants + at))[l] = (uint16_t)value;
		else
			((uint32_t *)(m->constants + at))[l] = (uint32_t)value;
	}
	return at;
}

/* Width 1: a predicate. */
uint32_t lower_constant(struct read *r, unsigned width, uint64_t value, struct symbol *symbol)
{
	struct {
		uint64_t value, width;
		struct symbol *symbol;
	} key = {0};
	struct reference *ref;
	uint32_t *known;

	key.width = width = lower_stored_width(width);
	key.value = symbol || width == 64 ? value : value & ((1ull << width) - 1);
	if (width == 1)
		key.value = value ? UINT32_MAX : 0;
	key.symbol = symbol;
	known = names_find(r->pool, (const char *)&key, sizeof(key));
	if (known)
		return OPERAND(BASE_CONSTANTS, *known);
	known = read_alloc(r, sizeof(*known));
	*known = pool_add(r, width, symbol ? 0 : key.value);
	if (!names_add(r->pool, (const char *)&key, sizeof(key), known))
		read_fail(r, -ENOMEM, "no memory");
	if (symbol) {
		ref = read_alloc(r, sizeof(*ref));
		ref->symbol = symbol;
		ref->addend = (int64_t)value;
		ref->offset = *known;
		ref->bytes = (uint8_t)(width / 8);
		ref->next = r->module->constant_references;
		r->module->constant_references = ref;
	}
	return OPERAND(BASE_CONSTANTS, *known);
}

static uint64_t literal(struct lowering *o, const struct argument *a, unsigned width, bool is_float)
{
	double d;
	float f;
	uint32_t low;

	if (a->kind == ARGUMENT_INTEGER && !is_float)
		return a->value;
	if (a->kind == ARGUMENT_INTEGER) {
		d = (double)(int64_t)a->value;
	} else if (a->width) {
		if (a->width != width)
			lower_fail(o, "has a floating-point literal of another width");
		return a->value;
	} else if (!is_float) {
		lower_fail(o, "has a floating-point literal where an integer belongs");
	} else {
		memcpy(&d, &a->value, sizeof(d));
	}
	if (width == 64) {
		uint64_t bits;

		memcpy(&bits, &d, sizeof(d));
		return bits;
	}
	if (width != 32) {
		if (d == 0)
			return 0;
		lower_fail(o, "has a decimal literal of 16 bits, which is not simulated");
	}
	f = (float)d;
	memcpy(&low, &f, sizeof(low));
	return low;
}

static uint32_t copy_of(struct lowering *o, enum code_mov how, uint32_t from, unsigned width,
			uint64_t imm)
{
	struct insn i = {.run = o->r->mov, .kind = KIND_PLAIN, .guard = OPERAND_NONE};

	i.d = body_register_new(o->r, width);
	i.a = from;
	i.width = (uint16_t)how;
	i.argument = (uint16_t)width;
	i.imm = (int64_t)imm;
	i.line = o->insn.line;
	i.source = o->insn.source;
	body_emit(o->r, &i);
	return i.d;
}

bool lower_in_frame(const struct symbol *s)
{
	return s->kind == SYMBOL_VARIABLE &&
	       (s->space == SPACE_LOCAL || s->space == SPACE_FUNCTION_PARAM);
}

/* Where a special register's stored lanes are, or its value now in a register. */
static uint32_t special_operand(struct lowering *o, const struct argument *a, unsigned width)
{
	if (a->width == 1)
		return lower_constant(o->r, 1, 0, NULL);
	if (a->value >= SPECIAL_STORED)
		return copy_of(o, MOV_SPECIAL, OPERAND_NONE, width,
			       a->value == SPECIAL_GRIDID && width == 64 ? SPECIAL_GRIDID64
									 : a->value);
	if (width == 32)
		return OPERAND(BASE_SPECIAL, a->value * LANES * sizeof(uint32_t));
	if (a->value == SPECIAL_GRIDID && width == 64)
		return copy_of(o, MOV_SPECIAL, OPERAND_NONE, width, SPECIAL_GRIDID64);
	return copy_of(o, MOV_NARROW, OPERAND(BASE_SPECIAL, a->value * LANES * sizeof(uint32_t)),
		       width, 0);
}

static uint32_t address_operand(struct lowering *o, const struct argument *a, unsigned width)
{
	struct symbol *s = a->symbol;

	if (width < 32)
		lower_fail(o, "takes no address");
	if (s->kind == SYMBOL_PARAM)
		return lower_constant(o->r, width, s->offset + a->value, NULL);
	if (lower_in_frame(s))
		return copy_of(o, MOV_FRAME, OPERAND_NONE, width, s->offset + a->value);
	body_uses(o->r, s);
	if (s->kind == SYMBOL_FUNCTION)
		s->function->symbol->referenced = true;
	return lower_constant(o->r, width, a->value, s);
}

void lower_wrong_width(struct lowering *o, const struct argument *a, unsigned width)
{
	read_fail(o->r, PTX_INVALID, "%s: %.60s is %u bits wide, not %u", o->name, a->symbol->name,
		  a->symbol->width, width);
}

/* A source of this width. */
uint32_t lower_scalar(struct lowering *o, const struct argument *a, unsigned width, bool is_float)
{
	switch (a->kind) {
	case ARGUMENT_REGISTER:
		if (lower_stored_width(a->symbol->width) != lower_stored_width(width))
			lower_wrong_width(o, a, width);
		return a->symbol->operand;
	case ARGUMENT_INTEGER:
	case ARGUMENT_FLOAT:
		return lower_constant(o->r, width, literal(o, a, width, is_float), NULL);
	case ARGUMENT_ADDRESS:
		return address_operand(o, a, width);
	case ARGUMENT_SPECIAL:
		return special_operand(o, a, width);
	case ARGUMENT_VECTOR:
		if (a->n == 1)
			return a->elements[0];
		lower_fail(o, "has a vector where a scalar belongs");
	case ARGUMENT_SINK:
	default:
		lower_fail(o, "reads _");
	}
}

uint32_t lower_predicate(struct lowering *o, const struct argument *a)
{
	if (a->kind == ARGUMENT_INTEGER)
		return lower_constant(o->r, 1, a->value != 0, NULL);
	if (a->kind == ARGUMENT_SPECIAL && a->width == 1)
		return special_operand(o, a, 1);
	if (a->kind != ARGUMENT_REGISTER || a->symbol->width != 1)
		lower_fail(o, "needs a predicate");
	return a->symbol->operand;
}

/* A register to write; `_` where the function knows that there may be none, else one aside. */
uint32_t lower_result(struct lowering *o, const struct argument *a, unsigned width,
		      bool may_be_none)
{
	if (a->kind == ARGUMENT_SINK)
		return may_be_none ? OPERAND_NONE
				   : body_register_new(o->r, lower_stored_width(width));
	if (a->kind == ARGUMENT_VECTOR && a->n == 1 && a->element_width)
		return a->elements[0];
	if (a->kind != ARGUMENT_REGISTER || a->negated)
		lower_fail(o, "needs a register for its result");
	if (lower_stored_width(a->symbol->width) != lower_stored_width(width))
		lower_wrong_width(o, a, width);
	return a->symbol->operand;
}
