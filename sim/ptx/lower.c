/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instruction: its name becomes a row of ptx.def, its operands what the row's function reads.
 */
#include "sim/ptx/read.h"

#include <string.h>

enum { NAME_MOST = 200, ELEMENTS_MOST = 8, ARGUMENTS_MOST = 8 };

enum argument_kind {
	ARGUMENT_REGISTER,
	ARGUMENT_INTEGER,
	ARGUMENT_FLOAT,
	ARGUMENT_ADDRESS, /* of a variable, parameter or function */
	ARGUMENT_SPECIAL,
	ARGUMENT_VECTOR,
	ARGUMENT_SINK, /* _ */
};

struct argument {
	enum argument_kind kind;
	bool negated;
	struct symbol *symbol;
	uint64_t value; /* integer; float's bits; offset to an address; special register */
	uint8_t width;	/* of a float literal; 0 for a decimal one */
	struct lex_token token;
	uint32_t elements[ELEMENTS_MOST]; /* operands */
	uint8_t element_width;		  /* 0: constants only */
	uint8_t n;
};

struct lowering {
	struct read *r;
	struct form form;
	struct insn insn;
	char name[NAME_MOST];
	enum code_type type; /* of the instruction: the last one in its name */
};

static void fail(struct lowering *o, const char *what) noreturn_;
static void fail(struct lowering *o, const char *what)
{
	read_fail(o->r, PTX_INVALID, "%s: %s", o->name, what);
}

/* ---- constants ----------------------------------------------------------------------------- */

static unsigned stored_width(unsigned width)
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
static uint32_t constant(struct read *r, unsigned width, uint64_t value, struct symbol *symbol)
{
	struct {
		uint64_t value, width;
		struct symbol *symbol;
	} key = {0};
	struct reference *ref;
	uint32_t *known;

	key.width = width = stored_width(width);
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

/* ---- reading operands ---------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint8_t special, width;
} specials[] = {
	{"%tid.x", SPECIAL_TID_X, 32},
	{"%tid.y", SPECIAL_TID_Y, 32},
	{"%tid.z", SPECIAL_TID_Z, 32},
	{"%tid.w", SPECIAL_ZERO, 32},
	{"%ntid.x", SPECIAL_NTID_X, 32},
	{"%ntid.y", SPECIAL_NTID_Y, 32},
	{"%ntid.z", SPECIAL_NTID_Z, 32},
	{"%ntid.w", SPECIAL_ZERO, 32},
	{"%ctaid.x", SPECIAL_CTAID_X, 32},
	{"%ctaid.y", SPECIAL_CTAID_Y, 32},
	{"%ctaid.z", SPECIAL_CTAID_Z, 32},
	{"%ctaid.w", SPECIAL_ZERO, 32},
	{"%nctaid.x", SPECIAL_NCTAID_X, 32},
	{"%nctaid.y", SPECIAL_NCTAID_Y, 32},
	{"%nctaid.z", SPECIAL_NCTAID_Z, 32},
	{"%nctaid.w", SPECIAL_ZERO, 32},
	{"%laneid", SPECIAL_LANEID, 32},
	{"%warpid", SPECIAL_WARPID, 32},
	{"%nwarpid", SPECIAL_NWARPID, 32},
	{"%smid", SPECIAL_SMID, 32},
	{"%nsmid", SPECIAL_NSMID, 32},
	{"%lanemask_eq", SPECIAL_LANEMASK_EQ, 32},
	{"%lanemask_le", SPECIAL_LANEMASK_LE, 32},
	{"%lanemask_lt", SPECIAL_LANEMASK_LT, 32},
	{"%lanemask_ge", SPECIAL_LANEMASK_GE, 32},
	{"%lanemask_gt", SPECIAL_LANEMASK_GT, 32},
	{"%dynamic_smem_size", SPECIAL_DYNAMIC_SMEM, 32},
	{"%total_smem_size", SPECIAL_TOTAL_SMEM, 32},
	{"%aggr_smem_size", SPECIAL_TOTAL_SMEM, 32},
	{"%reserved_smem_offset_begin", SPECIAL_ZERO, 32},
	{"%reserved_smem_offset_end", SPECIAL_ZERO, 32},
	{"%gridid", SPECIAL_GRIDID, 32},
	{"%clusterid.x", SPECIAL_CTAID_X, 32},
	{"%clusterid.y", SPECIAL_CTAID_Y, 32},
	{"%clusterid.z", SPECIAL_CTAID_Z, 32},
	{"%nclusterid.x", SPECIAL_NCTAID_X, 32},
	{"%nclusterid.y", SPECIAL_NCTAID_Y, 32},
	{"%nclusterid.z", SPECIAL_NCTAID_Z, 32},
	{"%cluster_ctaid.x", SPECIAL_ZERO, 32},
	{"%cluster_ctaid.y", SPECIAL_ZERO, 32},
	{"%cluster_ctaid.z", SPECIAL_ZERO, 32},
	{"%cluster_nctaid.x", SPECIAL_ONE, 32},
	{"%cluster_nctaid.y", SPECIAL_ONE, 32},
	{"%cluster_nctaid.z", SPECIAL_ONE, 32},
	{"%cluster_ctarank", SPECIAL_ZERO, 32},
	{"%cluster_nctarank", SPECIAL_ONE, 32},
	{"%is_explicit_cluster", SPECIAL_ZERO, 1},
	{"%clock", SPECIAL_CLOCK, 32},
	{"%clock_hi", SPECIAL_CLOCK_HI, 32},
	{"%clock64", SPECIAL_CLOCK64, 64},
	{"%globaltimer", SPECIAL_GLOBALTIMER, 64},
	{"%globaltimer_lo", SPECIAL_GLOBALTIMER_LO, 32},
	{"%globaltimer_hi", SPECIAL_GLOBALTIMER_HI, 32},
};

static bool special(struct lowering *o, struct argument *a, const struct lex_token *name)
{
	struct read *r = o->r;
	char whole[48];
	size_t n = name->length;
	bool known = false;

	if (name->text[0] != '%' || n > 32)
		return false;
	memcpy(whole, name->text, n);
	if (n > 7 && !memcmp(whole, "%envreg", 7)) {
		bool low = n == 8 && whole[7] == '1', high = n == 8 && whole[7] == '2';

		a->kind = ARGUMENT_SPECIAL;
		a->value = low ? SPECIAL_ENVREG1 : high ? SPECIAL_ENVREG2 : SPECIAL_ZERO;
		a->width = 32;
		return true;
	}
	if (r->token.kind == LEX_DOT && r->token.length == 2) {
		whole[n++] = '.';
		whole[n++] = r->token.text[1];
	}
	for (size_t i = 0; i < ARRAY_SIZE(specials) && !known; i++) {
		if (strlen(specials[i].name) != n || memcmp(specials[i].name, whole, n))
			continue;
		a->kind = ARGUMENT_SPECIAL;
		a->value = specials[i].special;
		a->width = specials[i].width;
		known = true;
	}
	if (known && n > name->length)
		read_next(r);
	return known;
}

static void operand_read(struct lowering *o, struct argument *a);

static uint32_t scalar_operand(struct lowering *o, const struct argument *a, unsigned width,
			       bool is_float);

/* { %a, %b, _, 1 }: registers of one width; constants take it from the instruction. */
static void vector_read(struct lowering *o, struct argument *a)
{
	struct argument parts[ELEMENTS_MOST];
	unsigned width = 0, n = 0;

	read_expect(o->r, "{");
	do {
		if (n == ELEMENTS_MOST)
			fail(o, "has too long a vector");
		operand_read(o, &parts[n]);
		if (parts[n].kind == ARGUMENT_REGISTER && !parts[n].symbol->parts) {
			if (width && parts[n].symbol->width != width)
				fail(o, "has a vector of registers of several widths");
			width = parts[n].symbol->width;
		} else if (parts[n].kind == ARGUMENT_VECTOR) {
			fail(o, "has a vector in a vector");
		}
		n++;
	} while (read_accept(o->r, ","));
	read_expect(o->r, "}");
	memset(a, 0, sizeof(*a));
	a->kind = ARGUMENT_VECTOR;
	a->n = (uint8_t)n;
	a->element_width = (uint8_t)width;
	for (unsigned i = 0; i < n; i++) {
		unsigned w = width;

		if (!w && code_type_bits(o->type) >= 8)
			w = code_type_bits(o->type);
		a->elements[i] =
			parts[i].kind == ARGUMENT_SINK
				? OPERAND_NONE
				: scalar_operand(o, &parts[i], w,
						 o->type == TYPE_F32 || o->type == TYPE_F64);
	}
}

static void vector_register(struct lowering *o, struct argument *a)
{
	struct symbol *s = a->symbol;
	struct read *r = o->r;

	if (r->token.kind == LEX_DOT && r->token.length == 2) {
		const char *at = strchr("xyzw", r->token.text[1]);
		const char *color = strchr("rgba", r->token.text[1]);
		long index = at && *at ? at - "xyzw" : color && *color ? color - "rgba" : 99;

		if (at && *at)
			index = r->token.text[1] == 'w' ? 3 : r->token.text[1] - 'x';
		else if (color && *color)
			index = r->token.text[1] == 'r'	  ? 0
				: r->token.text[1] == 'g' ? 1
				: r->token.text[1] == 'b' ? 2
							  : 3;
		if (index >= s->elements)
			fail(o, "names an element that the vector has not");
		read_next(r);
		a->symbol = &s->parts[index];
		return;
	}
	a->kind = ARGUMENT_VECTOR;
	a->n = s->elements;
	a->element_width = s->width;
	for (unsigned i = 0; i < s->elements; i++)
		a->elements[i] = s->parts[i].operand;
}

static void address_read(struct lowering *o, struct argument *a)
{
	struct read *r = o->r;

	a->kind = ARGUMENT_ADDRESS;
	a->value = 0;
	if (read_accept(r, "[")) { /* name[3]: its element */
		uint64_t element = code_type_bits(a->symbol->type) / 8;

		a->value = read_count(r, 1u << 30, "an index") * element;
		read_expect(r, "]");
	} else if (read_at(r, "+") || read_at(r, "-")) {
		a->value = (uint64_t)read_integer(r);
	}
}

static void named_read(struct lowering *o, struct argument *a)
{
	struct read *r = o->r;
	struct lex_token name = read_name(r);

	a->symbol = read_find(r, name.text, name.length);
	if (!a->symbol) {
		if (special(o, a, &name))
			return;
		read_fail(r, PTX_INVALID, "%s: %.*s is not declared", o->name,
			  name.length > 60 ? 60 : (int)name.length, name.text);
	}
	switch (a->symbol->kind) {
	case SYMBOL_REGISTER:
		a->kind = ARGUMENT_REGISTER;
		if (a->symbol->parts)
			vector_register(o, a);
		return;
	case SYMBOL_VARIABLE:
	case SYMBOL_PARAM:
	case SYMBOL_FUNCTION:
		address_read(o, a);
		return;
	case SYMBOL_RANGE:
	case SYMBOL_PROTOTYPE:
	case SYMBOL_TARGETS:
	default:
		read_fail(r, PTX_INVALID, "%s: %.*s is no operand", o->name,
			  name.length > 60 ? 60 : (int)name.length, name.text);
	}
}

static void operand_read(struct lowering *o, struct argument *a)
{
	struct read *r = o->r;
	bool minus;

	memset(a, 0, sizeof(*a));
	if (read_at(r, "{")) {
		vector_read(o, a);
		return;
	}
	if (read_at(r, "!")) {
		struct lex lex = r->lex;

		if (lex_next(&lex).kind == LEX_NAME) {
			read_next(r);
			named_read(o, a);
			a->negated = true;
			return;
		}
	}
	a->token = r->token;
	if (r->token.kind == LEX_NAME && lex_is(&r->token, "_")) {
		read_next(r);
		a->kind = ARGUMENT_SINK;
		return;
	}
	if (r->token.kind == LEX_NAME && !lex_is(&r->token, "WARP_SZ")) {
		named_read(o, a);
		return;
	}
	minus = read_at(r, "-");
	if (minus) {
		struct lex lex = r->lex;

		if (lex_next(&lex).kind == LEX_FLOAT)
			read_next(r);
		else
			minus = false;
	}
	if (r->token.kind == LEX_FLOAT) {
		a->kind = ARGUMENT_FLOAT;
		a->width = r->token.width;
		a->value = r->token.value;
		if (minus)
			a->value ^= 1ull << (a->width ? a->width - 1 : 63);
		read_next(r);
		return;
	}
	a->kind = ARGUMENT_INTEGER;
	a->value = (uint64_t)read_integer(r);
}

/* ---- operands ------------------------------------------------------------------------------ */

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
			fail(o, "has a floating-point literal of another width");
		return a->value;
	} else if (!is_float) {
		fail(o, "has a floating-point literal where an integer belongs");
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
		fail(o, "has a decimal literal of 16 bits, which is not simulated");
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

static bool in_frame(const struct symbol *s)
{
	return s->kind == SYMBOL_VARIABLE &&
	       (s->space == SPACE_LOCAL || s->space == SPACE_FUNCTION_PARAM);
}

/* Where a special register's stored lanes are, or its value now in a register. */
static uint32_t special_operand(struct lowering *o, const struct argument *a, unsigned width)
{
	if (a->width == 1)
		return constant(o->r, 1, 0, NULL);
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
		fail(o, "takes no address");
	if (s->kind == SYMBOL_PARAM)
		return constant(o->r, width, s->offset + a->value, NULL);
	if (in_frame(s))
		return copy_of(o, MOV_FRAME, OPERAND_NONE, width, s->offset + a->value);
	body_uses(o->r, s);
	if (s->kind == SYMBOL_FUNCTION)
		s->function->symbol->referenced = true;
	return constant(o->r, width, a->value, s);
}

static void wrong_width(struct lowering *o, const struct argument *a, unsigned width)
{
	read_fail(o->r, PTX_INVALID, "%s: %.60s is %u bits wide, not %u", o->name, a->symbol->name,
		  a->symbol->width, width);
}

/* A source of this width. */
static uint32_t scalar_operand(struct lowering *o, const struct argument *a, unsigned width,
			       bool is_float)
{
	switch (a->kind) {
	case ARGUMENT_REGISTER:
		if (stored_width(a->symbol->width) != stored_width(width))
			wrong_width(o, a, width);
		return a->symbol->operand;
	case ARGUMENT_INTEGER:
	case ARGUMENT_FLOAT:
		return constant(o->r, width, literal(o, a, width, is_float), NULL);
	case ARGUMENT_ADDRESS:
		return address_operand(o, a, width);
	case ARGUMENT_SPECIAL:
		return special_operand(o, a, width);
	case ARGUMENT_VECTOR:
		if (a->n == 1)
			return a->elements[0];
		fail(o, "has a vector where a scalar belongs");
	case ARGUMENT_SINK:
	default:
		fail(o, "reads _");
	}
}

static uint32_t predicate_operand(struct lowering *o, const struct argument *a)
{
	if (a->kind == ARGUMENT_INTEGER)
		return constant(o->r, 1, a->value != 0, NULL);
	if (a->kind == ARGUMENT_SPECIAL && a->width == 1)
		return special_operand(o, a, 1);
	if (a->kind != ARGUMENT_REGISTER || a->symbol->width != 1)
		fail(o, "needs a predicate");
	return a->symbol->operand;
}

/* A register to write; `_` where the function knows that there may be none, else one aside. */
static uint32_t result_operand(struct lowering *o, const struct argument *a, unsigned width,
			       bool may_be_none)
{
	if (a->kind == ARGUMENT_SINK)
		return may_be_none ? OPERAND_NONE : body_register_new(o->r, stored_width(width));
	if (a->kind == ARGUMENT_VECTOR && a->n == 1 && a->element_width)
		return a->elements[0];
	if (a->kind != ARGUMENT_REGISTER || a->negated)
		fail(o, "needs a register for its result");
	if (stored_width(a->symbol->width) != stored_width(width))
		wrong_width(o, a, width);
	return a->symbol->operand;
}

static unsigned letter_width(char letter)
{
	switch (letter) {
	case 'h':
	case 'e':
		return 16;
	case 'l':
	case 'd':
		return 64;
	case 'p':
	case 'P':
		return 1;
	default:
		return 32;
	}
}

/* ---- memory operands ----------------------------------------------------------------------- */

static void set_space(struct lowering *o, enum code_space space)
{
	o->insn.aux = (o->insn.aux & ~(uint32_t)AUX_SPACE) | (uint32_t)space << AUX_SPACE_SHIFT;
}

static enum code_space space_of(const struct lowering *o)
{
	return (enum code_space)((o->insn.aux & AUX_SPACE) >> AUX_SPACE_SHIFT);
}

static void symbol_address(struct lowering *o, struct argument *a)
{
	struct symbol *s = a->symbol;
	enum code_space space = space_of(o);

	o->insn.imm = (int64_t)a->value;
	if (s->kind == SYMBOL_FUNCTION)
		fail(o, "reads or writes a function");
	if (s->kind == SYMBOL_PARAM || in_frame(s)) {
		bool fits = s->kind == SYMBOL_PARAM || s->space == SPACE_FUNCTION_PARAM
				    ? space == SPACE_PARAM
				    : space == SPACE_LOCAL;

		if (!fits && space != SPACE_GENERIC)
			fail(o, "names a variable of another state space");
		set_space(o, s->kind == SYMBOL_PARAM ? SPACE_PARAM : SPACE_LOCAL);
		if (s->kind == SYMBOL_VARIABLE)
			o->insn.aux |= AUX_FRAME;
		o->insn.imm += (int64_t)s->offset;
		o->insn.a = constant(o->r, 64, 0, NULL);
		return;
	}
	if (space != SPACE_GENERIC && space != s->space)
		fail(o, "names a variable of another state space");
	set_space(o, s->space);
	body_uses(o->r, s);
	o->insn.imm = 0;
	o->insn.a = constant(o->r, 64, a->value, s);
}

/* [register], [register+4], [name], [name+4], [4096] */
static void memory_operand(struct lowering *o)
{
	struct read *r = o->r;
	struct argument a;

	read_expect(r, "[");
	operand_read(o, &a);
	switch (a.kind) {
	case ARGUMENT_REGISTER:
		if (a.symbol->width != 64 && a.symbol->width != 32)
			wrong_width(o, &a, 64);
		if (a.symbol->width == 32)
			o->insn.aux |= AUX_NARROW;
		o->insn.a = a.symbol->operand;
		if (read_at(r, "+") || read_at(r, "-"))
			o->insn.imm = read_integer(r);
		/* A parameter of a .func is local memory. */
		if (space_of(o) == SPACE_PARAM && !r->body->function->is_entry)
			set_space(o, SPACE_LOCAL);
		break;
	case ARGUMENT_ADDRESS:
		symbol_address(o, &a);
		break;
	case ARGUMENT_INTEGER:
		o->insn.a = constant(r, 64, a.value, NULL);
		break;
	case ARGUMENT_FLOAT:
	case ARGUMENT_SPECIAL:
	case ARGUMENT_VECTOR:
	case ARGUMENT_SINK:
	default:
		fail(o, "needs an address");
	}
	read_expect(r, "]");
}

/* Registers may be wider than the datum. Returns what insn.width is to be: 0 if they are not. */
static uint16_t data_width(struct lowering *o, unsigned register_width)
{
	unsigned bits = code_type_bits(o->type), stored = stored_width(register_width);

	if (register_width < bits || register_width == 1)
		fail(o, "has a register that is narrower than the datum");
	return stored == stored_width(bits) ? 0 : (uint16_t)stored;
}

static void data_operand(struct lowering *o, bool is_result)
{
	unsigned bits = code_type_bits(o->type);
	unsigned n = o->insn.aux & AUX_V4 ? 4 : o->insn.aux & AUX_V2 ? 2 : 1;
	struct argument a;

	operand_read(o, &a);
	if (a.kind == ARGUMENT_VECTOR) {
		if (a.n != n)
			fail(o, "has a vector of another length");
		if (a.element_width)
			o->insn.width = data_width(o, a.element_width);
		if (n == 1) {
			o->insn.d = a.elements[0];
			return;
		}
		o->insn.extra = body_words(o->r, n);
		memcpy(o->r->module->words + o->insn.extra, a.elements, n * sizeof(uint32_t));
		for (unsigned k = 0; k < n; k++) {
			if (is_result && a.elements[k] != OPERAND_NONE &&
			    a.elements[k] >> 30 != BASE_REGISTERS)
				fail(o, "needs registers for its results");
			if (!is_result && a.elements[k] == OPERAND_NONE)
				fail(o, "reads _");
		}
		return;
	}
	if (n > 1)
		fail(o, "needs a vector");
	if (a.kind == ARGUMENT_REGISTER) {
		o->insn.width = data_width(o, a.symbol->width);
		o->insn.d = a.symbol->operand;
	} else if (is_result) {
		o->insn.d = result_operand(o, &a, bits, true);
	} else {
		o->insn.d = scalar_operand(o, &a, bits, o->type == TYPE_F32 || o->type == TYPE_F64);
	}
}

static void lower_ld(struct lowering *o)
{
	data_operand(o, true);
	read_expect(o->r, ",");
	memory_operand(o);
}

static void lower_st(struct lowering *o)
{
	memory_operand(o);
	read_expect(o->r, ",");
	data_operand(o, false);
}

static void lower_atom(struct lowering *o, bool has_result)
{
	unsigned bits = code_type_bits(o->type);
	bool is_float = o->type == TYPE_F32 || o->type == TYPE_F64;
	bool cas = o->form.row->argument >> 8 == ATOM_CAS;
	struct argument a;

	if (has_result) {
		operand_read(o, &a);
		o->insn.d = result_operand(o, &a, bits, true);
		read_expect(o->r, ",");
	}
	memory_operand(o);
	read_expect(o->r, ",");
	operand_read(o, &a);
	o->insn.b = scalar_operand(o, &a, bits, is_float);
	if (cas) {
		read_expect(o->r, ",");
		operand_read(o, &a);
		o->insn.c = scalar_operand(o, &a, bits, is_float);
	}
}

/* ---- mov, cvta, cvt ------------------------------------------------------------------------ */

static void mov_vector(struct lowering *o)
{
	unsigned n = o->insn.aux & AUX_V4 ? 4 : 2, bits = code_type_bits(o->type);
	struct argument d, a;

	operand_read(o, &d);
	read_expect(o->r, ",");
	operand_read(o, &a);
	if (d.kind != ARGUMENT_VECTOR || a.kind != ARGUMENT_VECTOR || d.n != n || a.n != n)
		fail(o, "needs two vectors");
	if ((d.element_width && d.element_width != bits) ||
	    (a.element_width && a.element_width != bits))
		fail(o, "has registers of another width");
	for (unsigned k = 0; k < n; k++)
		if (a.elements[k] == OPERAND_NONE ||
		    (d.elements[k] != OPERAND_NONE && d.elements[k] >> 30 != BASE_REGISTERS))
			fail(o, "needs registers for its results");
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
		fail(o, "has vectors that do not fit");
	if (parts->element_width && parts->element_width != bits / parts->n)
		fail(o, "has parts of another width");
	for (unsigned k = 0; k < parts->n; k++)
		if (pack ? parts->elements[k] == OPERAND_NONE
			 : parts->elements[k] != OPERAND_NONE &&
				    parts->elements[k] >> 30 != BASE_REGISTERS)
			fail(o, "has parts that are no registers");
	o->insn.width = pack ? MOV_PACK : MOV_UNPACK;
	o->insn.imm = parts->n;
	if (pack)
		o->insn.d = result_operand(o, whole, bits, false);
	else
		o->insn.a = scalar_operand(o, whole, bits, false);
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

static void lower_mov(struct lowering *o)
{
	enum code_type type = o->type;
	unsigned bits = code_type_bits(type);
	struct argument d, a;

	part_type(o);
	operand_read(o, &d);
	read_expect(o->r, ",");
	o->type = type;
	part_type(o);
	operand_read(o, &a);
	o->type = type;
	if (d.kind == ARGUMENT_VECTOR && d.n > 1) {
		mov_parts(o, &a, &d, false);
		return;
	}
	if (a.kind == ARGUMENT_VECTOR && a.n > 1) {
		mov_parts(o, &d, &a, true);
		return;
	}
	o->insn.width = MOV_PLAIN;
	o->insn.d = result_operand(o, &d, bits, true);
	if (a.kind == ARGUMENT_SPECIAL && a.width > 1 && o->insn.d != OPERAND_NONE) {
		if (a.value >= SPECIAL_STORED || (a.value == SPECIAL_GRIDID && bits == 64)) {
			o->insn.width = MOV_SPECIAL;
			o->insn.imm =
				a.value == SPECIAL_GRIDID ? SPECIAL_GRIDID64 : (int64_t)a.value;
			return;
		}
		o->insn.a = OPERAND(BASE_SPECIAL, a.value * LANES * sizeof(uint32_t));
		if (bits != 32)
			o->insn.width = MOV_NARROW;
		return;
	}
	if (a.kind == ARGUMENT_ADDRESS && in_frame(a.symbol) && bits >= 32 &&
	    o->insn.d != OPERAND_NONE) {
		o->insn.width = MOV_FRAME;
		o->insn.imm = (int64_t)(a.symbol->offset + a.value);
		return;
	}
	o->insn.a = scalar_operand(o, &a, bits, o->type == TYPE_F32 || o->type == TYPE_F64);
}

static void lower_cvta(struct lowering *o)
{
	unsigned bits = code_type_bits(o->type);
	struct argument a;

	operand_read(o, &a);
	o->insn.d = result_operand(o, &a, bits, false);
	read_expect(o->r, ",");
	operand_read(o, &a);
	if (space_of(o) == SPACE_PARAM && !o->r->body->function->is_entry)
		set_space(o, SPACE_LOCAL);
	if (a.kind == ARGUMENT_ADDRESS && in_frame(a.symbol)) {
		o->insn.aux |= AUX_FRAME;
		o->insn.imm = (int64_t)(a.symbol->offset + a.value);
		o->insn.a = constant(o->r, bits, 0, NULL);
		set_space(o, SPACE_LOCAL);
		return;
	}
	o->insn.a = scalar_operand(o, &a, bits, false);
}

static void lower_cvt(struct lowering *o)
{
	const uint32_t matters =
		AUX_ROUND | AUX_FTZ | AUX_SAT | AUX_INTEGRAL | AUX_RELU | AUX_ROUNDED;
	enum code_type to = (enum code_type)o->form.types[0];
	enum code_type from = (enum code_type)o->form.types[1];
	unsigned to_bits = code_type_bits(to), from_bits = code_type_bits(from);
	unsigned d_width = stored_width(to_bits), a_width = stored_width(from_bits);
	struct argument a;
	code_fn *fast;

	operand_read(o, &a);
	if (a.kind == ARGUMENT_REGISTER && a.symbol->width >= to_bits) {
		o->insn.d = a.symbol->operand;
		d_width = stored_width(a.symbol->width);
	} else {
		o->insn.d = result_operand(o, &a, to_bits, false);
	}
	read_expect(o->r, ",");
	operand_read(o, &a);
	if (a.kind == ARGUMENT_REGISTER && a.symbol->width >= from_bits) {
		o->insn.a = a.symbol->operand;
		a_width = stored_width(a.symbol->width);
	} else {
		o->insn.a = scalar_operand(o, &a, from_bits, from == TYPE_F32 || from == TYPE_F64);
	}
	o->insn.argument = (uint16_t)(to << 8 | from);
	o->insn.width = (uint16_t)(d_width | a_width << 8);
	if (d_width == stored_width(to_bits) && a_width == stored_width(from_bits)) {
		fast = o->r->cvt_for(to, from, o->insn.aux & matters);
		if (fast)
			o->insn.run = fast;
	}
}

/* ---- control ------------------------------------------------------------------------------- */

static void lower_bra(struct lowering *o)
{
	struct lex_token name = read_name(o->r);

	body_use_label(o->r, &name, false, o->r->module->n_code);
}

static void lower_brx(struct lowering *o)
{
	struct lex_token name;
	struct argument a;
	struct symbol *s;

	operand_read(o, &a);
	o->insn.a = scalar_operand(o, &a, 32, false);
	read_expect(o->r, ",");
	name = read_name(o->r);
	s = read_find(o->r, name.text, name.length);
	if (!s || s->kind != SYMBOL_TARGETS)
		fail(o, "needs the name of a .branchtargets before it");
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
			fail(o, "has too many arguments");
		operand_read(o, &a);
		if (a.kind == ARGUMENT_ADDRESS && in_frame(a.symbol)) {
			v->where = (uint32_t)(a.symbol->offset + a.value);
			v->size =
				(uint32_t)(a.symbol->size > a.value ? a.symbol->size - a.value : 0);
		} else if (a.kind == ARGUMENT_REGISTER) {
			if (a.symbol->width == 1)
				fail(o, "passes a predicate");
			v->where = a.symbol->operand;
			v->size = CALL_IN_REGISTER | stored_width(a.symbol->width);
		} else if (results) {
			fail(o, "needs variables or registers for its results");
		} else if (a.kind == ARGUMENT_FLOAT) {
			if (!a.width)
				fail(o, "passes a literal without a width");
			v->where = constant(o->r, a.width, a.value, NULL);
			v->size = CALL_IN_REGISTER | a.width;
		} else {
			v->where = scalar_operand(o, &a, 64, false);
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
		fail(o, "calls a kernel");
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
static void lower_call(struct lowering *o)
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

/* ---- operands as the row's text has them --------------------------------------------------- */

static void put_source(struct insn *i, unsigned index, uint32_t operand, bool negated)
{
	static const uint32_t nots[] = {AUX_NOT_A, AUX_NOT_B, AUX_NOT_C, 0};
	uint32_t *slots[] = {&i->a, &i->b, &i->c, &i->f};

	*slots[index] = operand;
	if (negated)
		i->aux |= nots[index];
}

static void lower_results(struct lowering *o, const char **letters)
{
	const char *l = *letters;
	bool pair = l[1] == '|';
	struct argument a;

	operand_read(o, &a);
	o->insn.d = result_operand(o, &a, letter_width(l[0]), pair);
	l++;
	if (pair) {
		if (read_accept(o->r, "|")) {
			operand_read(o, &a);
			o->insn.e = result_operand(o, &a, letter_width(l[1]), true);
		}
		l += 2;
	}
	if (l[0] != '=')
		fail(o, "has a row with operands that lower.c does not know");
	l++;
	*letters = l;
}

static void one_source(struct lowering *o, char letter, const struct argument *a, unsigned index)
{
	switch (letter) {
	case 'p':
	case 'P':
		if (a->negated && letter == 'p')
			fail(o, "takes no negated predicate");
		put_source(&o->insn, index, predicate_operand(o, a), a->negated);
		break;
	case 's':
		o->insn.f = scalar_operand(o, a, 32, false);
		break;
	default:
		if (a->negated)
			fail(o, "negates what is no predicate");
		put_source(&o->insn, index,
			   scalar_operand(o, a, letter_width(letter), strchr("fd", letter) != NULL),
			   false);
		break;
	}
}

static void lower_sources(struct lowering *o, const char *letters)
{
	struct argument arguments[ARGUMENTS_MOST];
	unsigned n = 0, required = 0, used = 0, index = 0;
	bool memory = *letters == 'm';

	if (memory) {
		memory_operand(o);
		letters++;
		index++;
		if (*letters)
			read_expect(o->r, ",");
	}
	while (!read_at(o->r, ";") && n < ARGUMENTS_MOST) {
		operand_read(o, &arguments[n++]);
		if (!read_accept(o->r, ","))
			break;
	}
	for (const char *l = letters; *l; l++)
		required += *l != '?' && l[1] != '?';
	for (const char *l = letters; *l; l++, index++) {
		bool optional = l[1] == '?';

		if (optional && n - used <= required) {
			l++;
			continue;
		}
		if (used == n)
			fail(o, "has too few operands");
		one_source(o, *l, &arguments[used++], index);
		required -= !optional;
		l += optional;
	}
	if (used < n)
		fail(o, "has too many operands");
}

static void lower_operands(struct lowering *o)
{
	static const struct {
		const char *word;
		void (*lower)(struct lowering *o);
	} words[] = {
		{"mov", lower_mov},   {"mov.v", mov_vector}, {"cvta", lower_cvta},
		{"cvt", lower_cvt},   {"ld", lower_ld},	     {"st", lower_st},
		{"label", lower_bra}, {"brx", lower_brx},    {"call", lower_call},
	};
	const char *letters = o->form.row->operands;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!strcmp(letters, words[i].word)) {
			words[i].lower(o);
			return;
		}
	}
	if (!strcmp(letters, "atom") || !strcmp(letters, "red")) {
		lower_atom(o, letters[0] == 'a');
		return;
	}
	if (strchr(letters, '=')) {
		lower_results(o, &letters);
		if (*letters)
			read_expect(o->r, ",");
	}
	lower_sources(o, letters);
}

/* The whole name, from the opcode and the words that follow it. */
static void name_read(struct lowering *o, const struct lex_token *opcode)
{
	struct read *r = o->r;
	struct known_form *known;
	size_t n = opcode->length;

	if (n >= NAME_MOST)
		read_fail(r, PTX_INVALID, "%.60s... is no instruction", opcode->text);
	memcpy(o->name, opcode->text, n);
	while (r->token.kind == LEX_DOT) {
		if (n + r->token.length >= NAME_MOST)
			read_fail(r, PTX_INVALID, "%.60s... is no instruction", opcode->text);
		memcpy(o->name + n, r->token.text, r->token.length);
		n += r->token.length;
		read_next(r);
	}
	o->name[n] = '\0';
	known = names_find(&r->forms, o->name, n);
	if (!known) {
		known = arena_alloc(&r->scratch, sizeof(*known));
		if (!known)
			read_fail(r, -ENOMEM, "no memory");
		known->outcome = form_find(o->name, n, &known->form);
		if (!names_add(&r->forms, o->name, n, known))
			read_fail(r, -ENOMEM, "no memory");
	}
	if (known->outcome)
		read_fail(r, PTX_INVALID, "%s is not simulated", o->name);
	o->form = known->form;
}

/* set: the first type is the result's; GCC writes it before the comparison. */
static void set_result(struct lowering *o)
{
	if (strncmp(o->name, "set.", 4) != 0)
		return;
	if (o->form.n_types != 2)
		fail(o, "needs two types");
	if (o->form.types[0] == TYPE_F32)
		o->insn.aux |= AUX_FLOAT_RESULT;
}

void lower_instruction(struct read *r, const struct lex_token *opcode, uint32_t guard,
		       bool guard_not)
{
	struct lowering o = {.r = r};

	name_read(&o, opcode);
	o.insn = (struct insn){
		.run = r->functions[o.form.row - form_rows],
		.guard = guard,
		.guard_not = guard_not,
		.kind = o.form.row->kind,
		.argument = o.form.row->argument,
		.d = OPERAND_NONE,
		.e = OPERAND_NONE,
		.a = OPERAND_NONE,
		.b = OPERAND_NONE,
		.c = OPERAND_NONE,
		.f = OPERAND_NONE,
		.aux = o.form.aux,
		.line = opcode->line,
		.source = (uint16_t)r->source,
	};
	if (o.form.n_types)
		o.type = (enum code_type)o.form.types[o.form.n_types - 1];
	lower_operands(&o);
	set_result(&o);
	read_expect(r, ";");
	body_emit(r, &o.insn);
}
