/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/lower.h"

#include <limits.h>
#include <string.h>

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

static void special_is(struct argument *a, uint64_t special, unsigned width)
{
	a->kind = ARGUMENT_SPECIAL;
	a->value = special;
	a->width = (uint8_t)width;
}

/* %envreg0 to %envreg31, two of which say something. */
static void envreg(struct argument *a, const struct lex_token *name)
{
	char which = name->length == 8 ? name->text[7] : '0';

	special_is(a,
		   which == '1'	  ? SPECIAL_ENVREG1
		   : which == '2' ? SPECIAL_ENVREG2
				  : SPECIAL_ZERO,
		   32);
}

static bool special(struct lowering *o, struct argument *a, const struct lex_token *name)
{
	struct read *r = o->r;
	char whole[48];
	size_t n = name->length;

	if (name->text[0] != '%' || n > 32)
		return false;
	if (n > 7 && !memcmp(name->text, "%envreg", 7)) {
		envreg(a, name);
		return true;
	}
	memcpy(whole, name->text, n);
	if (r->token.kind == LEX_DOT && r->token.length == 2) {
		whole[n++] = '.';
		whole[n++] = r->token.text[1];
	}
	for (size_t i = 0; i < ARRAY_SIZE(specials); i++) {
		if (strlen(specials[i].name) != n || memcmp(specials[i].name, whole, n) != 0)
			continue;
		special_is(a, specials[i].special, specials[i].width);
		if (n > name->length)
			read_next(r);
		return true;
	}
	return false;
}

/* { %a, %b, _, 1 }: registers of one width; constants take it from the instruction. */
static void vector_read(struct lowering *o, struct argument *a)
{
	struct argument parts[ELEMENTS_MOST];
	unsigned width = 0, n = 0;

	read_expect(o->r, "{");
	do {
		if (n == ELEMENTS_MOST)
			lower_fail(o, "has too long a vector");
		lower_read(o, &parts[n]);
		if (parts[n].kind == ARGUMENT_REGISTER && !parts[n].symbol->parts) {
			if (width && parts[n].symbol->width != width)
				lower_fail(o, "has a vector of registers of several widths");
			width = parts[n].symbol->width;
		} else if (parts[n].kind == ARGUMENT_VECTOR) {
			lower_fail(o, "has a vector in a vector");
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
		a->elements[i] = parts[i].kind == ARGUMENT_SINK
					 ? OPERAND_NONE
					 : lower_scalar(o, &parts[i], w,
							o->type == TYPE_F32 || o->type == TYPE_F64);
	}
}

/* Of .x or .r: 0. */
static unsigned element_index(char name)
{
	static const char names[] = "xyzwrgba";
	const char *at = name ? strchr(names, name) : NULL;

	return at ? (unsigned)(at - names) % 4 : UINT_MAX;
}

static void vector_register(struct lowering *o, struct argument *a)
{
	struct symbol *s = a->symbol;
	struct read *r = o->r;

	if (r->token.kind == LEX_DOT && r->token.length == 2) {
		unsigned index = element_index(r->token.text[1]);

		if (index >= s->elements)
			lower_fail(o, "names an element that the vector has not");
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

void lower_read(struct lowering *o, struct argument *a)
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
