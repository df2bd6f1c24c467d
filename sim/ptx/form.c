/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/form.h"

#include <string.h>

/* A type as a letter of operands: what a register must be, and how a literal is read. */
#define L_u16  "h"
#define L_s16  "h"
#define L_u32  "w"
#define L_s32  "w"
#define L_u64  "l"
#define L_s64  "l"
#define L_f32  "f"
#define L_f64  "d"
#define L_f16  "e"
#define L_bf16 "e"

#define UN(id, pattern, d, a, x)	     {#id, pattern, L_##d "=" L_##a, 0, 0},
#define BIN(id, pattern, d, a, b, x)	     {#id, pattern, L_##d "=" L_##a L_##b, 0, 0},
#define TER(id, pattern, d, a, b, c, x)	     {#id, pattern, L_##d "=" L_##a L_##b L_##c, 0, 0},
#define QUAD(id, pattern, d, a, b, c, f, x)  {#id, pattern, L_##d "=" L_##a L_##b L_##c L_##f, 0, 0},
#define CARRY_none(t)			     L_##t "=" L_##t L_##t
#define CARRY_lo(t)			     L_##t "=" L_##t L_##t L_##t
#define CARRY_hi(t)			     L_##t "=" L_##t L_##t L_##t
#define CARRY(id, pattern, t, p, s, in, out) {#id, pattern, CARRY_##p(t), 0, 0},
#define SELP(id, pattern, t)		     {#id, pattern, L_##t "=" L_##t L_##t "p", 0, 0},
#define PRED(id, pattern, operands, x)	     {#id, pattern, operands, 0, 0},
#define SETP(id, pattern, t, x)		     {#id, pattern, "p|p=" L_##t L_##t "P?", 0, 0},
#define FSETP(id, pattern, t, x)	     {#id, pattern, "p|p=" L_##t L_##t "P?", 0, 0},
#define SET(id, pattern, t)		     {#id, pattern, "w=" L_##t L_##t "P?", 0, 0},
#define TESTP(id, pattern, t, x)	     {#id, pattern, "p=" L_##t, 0, 0},
#define FUN(id, pattern, t, x)		     {#id, pattern, L_##t "=" L_##t, 0, 0},
#define FBIN(id, pattern, t, x)		     {#id, pattern, L_##t "=" L_##t L_##t, 0, 0},
#define FTER(id, pattern, t, x)		     {#id, pattern, L_##t "=" L_##t L_##t L_##t, 0, 0},
#define H_0				     "e"
#define H_1				     "w"
#define HUN(id, pattern, t, packed, x)	     {#id, pattern, H_##packed "=" H_##packed, 0, 0},
#define HBIN(id, pattern, t, packed, x)	     {#id, pattern, H_##packed "=" H_##packed H_##packed, 0, 0},
#define HTER(id, pattern, t, packed, x)                                                            \
	{#id, pattern, H_##packed "=" H_##packed H_##packed H_##packed, 0, 0},
#define HBITS(id, pattern, t, packed, x) {#id, pattern, H_##packed "=" H_##packed, 0, 0},
/* The arguments of GEN rows: numbers, names of code.h, ATOM(op, type). */
#undef ATOM
#define ATOM(op, t)			     (ATOM_##op << 8 | TYPE_##t)
#define TYPE_b16			     TYPE_B16
#define TYPE_b32			     TYPE_B32
#define TYPE_b64			     TYPE_B64
#define TYPE_u32			     TYPE_U32
#define TYPE_s32			     TYPE_S32
#define TYPE_u64			     TYPE_U64
#define TYPE_s64			     TYPE_S64
#define TYPE_f16			     TYPE_F16
#define TYPE_bf16			     TYPE_BF16
#define TYPE_f16x2			     TYPE_F16X2
#define TYPE_bf16x2			     TYPE_BF16X2
#define TYPE_f32			     TYPE_F32
#define TYPE_f64			     TYPE_F64
#define GEN(id, pattern, operands, k, fn, x) {#id, pattern, operands, KIND_##k, x},

const struct form_row form_rows[] = {
#include "sim/ptx/ptx.def"
};
const size_t form_rows_count = ARRAY_SIZE(form_rows);

static const struct {
	const char *word;
	uint32_t aux;
} words[] = {
	{".rn", AUX_ROUNDED},
	{".rz", AUX_ROUNDED | 1},
	{".rm", AUX_ROUNDED | 2},
	{".rp", AUX_ROUNDED | 3},
	{".rni", AUX_ROUNDED | AUX_INTEGRAL},
	{".rzi", AUX_ROUNDED | AUX_INTEGRAL | 1},
	{".rmi", AUX_ROUNDED | AUX_INTEGRAL | 2},
	{".rpi", AUX_ROUNDED | AUX_INTEGRAL | 3},
	{".ftz", AUX_FTZ},
	{".sat", AUX_SAT},
	{".NaN", AUX_NAN},
	{".relu", AUX_RELU},
	{".v2", AUX_V2},
	{".v4", AUX_V4},
	{".volatile", AUX_POLL},
	{".relaxed", AUX_POLL},
	{".acquire", AUX_POLL},
	{".acq_rel", AUX_POLL},
	{".mmio.relaxed", AUX_POLL},
	{".cv", AUX_POLL},
	{".and", 1 << AUX_COMBINE_SHIFT},
	{".or", 2 << AUX_COMBINE_SHIFT},
	{".xor", 3 << AUX_COMBINE_SHIFT},
	{".global", SPACE_GLOBAL << AUX_SPACE_SHIFT},
	{".shared", SPACE_SHARED << AUX_SPACE_SHIFT},
	{".shared::cta", SPACE_SHARED << AUX_SPACE_SHIFT},
	{".shared::cluster", SPACE_SHARED << AUX_SPACE_SHIFT},
	{".local", SPACE_LOCAL << AUX_SPACE_SHIFT},
	{".param", SPACE_PARAM << AUX_SPACE_SHIFT},
	{".param::entry", SPACE_PARAM << AUX_SPACE_SHIFT},
	{".param::func", SPACE_PARAM << AUX_SPACE_SHIFT},
	{".const", SPACE_CONST << AUX_SPACE_SHIFT},
	{".eq", COMPARE_EQ << AUX_COMPARE_SHIFT},
	{".ne", COMPARE_NE << AUX_COMPARE_SHIFT},
	{".lt", COMPARE_LT << AUX_COMPARE_SHIFT},
	{".lo", COMPARE_LT << AUX_COMPARE_SHIFT},
	{".le", COMPARE_LE << AUX_COMPARE_SHIFT},
	{".ls", COMPARE_LE << AUX_COMPARE_SHIFT},
	{".gt", COMPARE_GT << AUX_COMPARE_SHIFT},
	{".hi", COMPARE_GT << AUX_COMPARE_SHIFT},
	{".ge", COMPARE_GE << AUX_COMPARE_SHIFT},
	{".hs", COMPARE_GE << AUX_COMPARE_SHIFT},
	{".equ", COMPARE_EQU << AUX_COMPARE_SHIFT},
	{".neu", COMPARE_NEU << AUX_COMPARE_SHIFT},
	{".ltu", COMPARE_LTU << AUX_COMPARE_SHIFT},
	{".leu", COMPARE_LEU << AUX_COMPARE_SHIFT},
	{".gtu", COMPARE_GTU << AUX_COMPARE_SHIFT},
	{".geu", COMPARE_GEU << AUX_COMPARE_SHIFT},
	{".num", COMPARE_NUM << AUX_COMPARE_SHIFT},
	{".nan", COMPARE_NAN << AUX_COMPARE_SHIFT},
	{".aligned", AUX_ALIGNED},
};

static const struct {
	const char *word;
	uint8_t type, bits;
} types[] = {
	{".b8", TYPE_B8, 8},	 {".u8", TYPE_U8, 8},	     {".s8", TYPE_S8, 8},
	{".b16", TYPE_B16, 16},	 {".u16", TYPE_U16, 16},     {".s16", TYPE_S16, 16},
	{".b32", TYPE_B32, 32},	 {".u32", TYPE_U32, 32},     {".s32", TYPE_S32, 32},
	{".b64", TYPE_B64, 64},	 {".u64", TYPE_U64, 64},     {".s64", TYPE_S64, 64},
	{".f16", TYPE_F16, 16},	 {".bf16", TYPE_BF16, 16},   {".f32", TYPE_F32, 32},
	{".f64", TYPE_F64, 64},	 {".f16x2", TYPE_F16X2, 32}, {".bf16x2", TYPE_BF16X2, 32},
	{".pred", TYPE_PRED, 1},
};

unsigned code_type_bits(enum code_type type)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (types[i].type == type)
			return types[i].bits;
	return 0;
}

enum code_type form_type(const char *word, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strlen(types[i].word) == length && !memcmp(types[i].word, word, length))
			return types[i].type;
	return TYPE_NONE;
}

static uint32_t aux_of(const char *word, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strlen(words[i].word) == length && !memcmp(words[i].word, word, length))
			return words[i].aux;
	return 0;
}

/* One or more words of the name that a pattern has accepted. */
static void gather(struct form *form, const char *word, size_t length)
{
	enum code_type type = form_type(word, length);

	form->aux |= aux_of(word, length);
	if (type != TYPE_NONE && form->n_types < ARRAY_SIZE(form->types))
		form->types[form->n_types++] = (uint8_t)type;
}

static bool begins(const char *name, size_t left, const char *word, size_t length)
{
	return left >= length && !memcmp(name, word, length) &&
	       (left == length || name[length] == '.');
}

static bool matches(const char *pattern, const char *name, size_t left, struct form *form);

/* A choice is made, or left out if it may be and the rest fits only so. */
static bool choice_matches(const char *pattern, const char *name, size_t left, struct form *form)
{
	const char *close = strchr(pattern, ')'), *choice = pattern + 1;
	bool optional = close[1] == '?';
	const char *rest = close + 1 + optional;

	while (choice < close) {
		size_t length = strcspn(choice, "|)");
		struct form tried = *form;

		if (begins(name, left, choice, length)) {
			gather(&tried, name, length);
			if (matches(rest, name + length, left - length, &tried)) {
				*form = tried;
				return true;
			}
		}
		choice += length + 1;
	}
	return optional && matches(rest, name, left, form);
}

static bool matches(const char *pattern, const char *name, size_t left, struct form *form)
{
	while (*pattern && *pattern != '(') {
		/* up to the next word or choice */
		size_t length = strcspn(pattern + 1, ".(") + 1;

		if (!begins(name, left, pattern, length))
			return false;
		gather(form, name, length);
		pattern += length;
		name += length;
		left -= length;
	}
	if (*pattern)
		return choice_matches(pattern, name, left, form);
	return left == 0;
}

int form_find(const char *name, size_t length, struct form *ret_form)
{
	const char *dot = memchr(name, '.', length);
	size_t opcode = dot ? (size_t)(dot - name) : length;

	for (size_t i = 0; i < form_rows_count; i++) {
		const char *pattern = form_rows[i].pattern;
		struct form form = {.row = &form_rows[i]};

		if (strncmp(pattern, name, opcode) != 0 || !strchr(".(", pattern[opcode]))
			continue;
		if (matches(pattern, name, length, &form)) {
			*ret_form = form;
			return 0;
		}
	}
	return FORM_UNKNOWN;
}
