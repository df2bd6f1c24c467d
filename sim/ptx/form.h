/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of ptx.def, and which one an instruction's full name means.
 *
 * A row's operands are text: results, '=', sources.
 *	h w l    16, 32, 64-bit integer register or constant
 *	e f d    16, 32, 64-bit floating point
 *	p        predicate; P: one that may be negated; w|p a result with an optional predicate
 *	s        the lane mask of a .sync instruction
 *	m        [address]
 *	X?       the operand may be left out
 * or one word for what only lower.c knows: mov, cvt, ld, st, call, ...
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "sim/ptx/code.h"

struct form_row {
	const char *id, *pattern, *operands;
	uint8_t kind;
	uint16_t argument;
};

extern const struct form_row form_rows[];
extern const size_t form_rows_count;

struct form {
	const struct form_row *row;
	uint32_t aux;
	uint8_t types[4]; /* enum code_type of the name's type words, in their order */
	uint8_t n_types;
};

enum { FORM_UNKNOWN = 1 };

/* `name` is the whole name, "add.rn.ftz.f32". */
must_check int form_find(const char *name, size_t length, struct form *ret_form);

unsigned code_type_bits(enum code_type type);
enum code_type form_type(const char *word, size_t length); /* ".u32"; TYPE_NONE if it is none */
