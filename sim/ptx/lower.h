/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instruction on its way from text to code. lower.c: its name and the operands that rows
 * describe by letters; lower_read.c: the text of operands; lower_operand.c: what an operand of a
 * width becomes; lower_memory.c: addresses and data; lower_move.c: mov, cvta, cvt;
 * lower_control.c: branches and calls. For these files only.
 */
#pragma once

#include "sim/ptx/read.h"

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

void lower_fail(struct lowering *o, const char *what) noreturn_;

/* lower_read.c */
void lower_read(struct lowering *o, struct argument *a);

/* lower_operand.c */
unsigned lower_stored_width(unsigned width); /* an 8-bit register has lanes of 16 */
/* An array of equal lanes; width 1 for a predicate; `value` is an offset to a symbol's address. */
uint32_t lower_constant(struct read *r, unsigned width, uint64_t value, struct symbol *symbol);
bool lower_in_frame(const struct symbol *s);
uint32_t lower_scalar(struct lowering *o, const struct argument *a, unsigned width, bool is_float);
uint32_t lower_predicate(struct lowering *o, const struct argument *a);
/* `_` where the function knows that there may be none, else a register aside. */
uint32_t lower_result(struct lowering *o, const struct argument *a, unsigned width,
		      bool may_be_none);
void lower_wrong_width(struct lowering *o, const struct argument *a, unsigned width) noreturn_;

/* lower_memory.c */
enum code_space lower_space(const struct lowering *o);
void lower_set_space(struct lowering *o, enum code_space space);
void lower_memory(struct lowering *o);
void lower_ld(struct lowering *o);
void lower_st(struct lowering *o);
void lower_atom(struct lowering *o, bool has_result);
void lower_copy_async(struct lowering *o);
void lower_mbarrier(struct lowering *o);

/* lower_move.c */
void lower_mov(struct lowering *o);
void lower_mov_vector(struct lowering *o);
void lower_cvta(struct lowering *o);
void lower_cvt(struct lowering *o);
void lower_mma(struct lowering *o);

/* lower_control.c */
void lower_bra(struct lowering *o);
void lower_brx(struct lowering *o);
void lower_call(struct lowering *o);
