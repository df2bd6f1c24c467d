/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoded instructions, and the warp that they run on: what the loader makes and the functions of
 * ptx.def work with.
 *
 * A register is an array of 32 lanes, as wide as its type (8-bit ones are 16 wide); a predicate is
 * one 32-bit word with a bit per lane. An operand is an offset into one of the warp's bases, so
 * registers, constants and special registers are read alike; constants are arrays of 32 equal
 * values, made once per module.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/ptx/ptx.h"

enum { LANES = 32 };

enum code_base { BASE_REGISTERS, BASE_CONSTANTS, BASE_SPECIAL, BASE_COUNT };

#define OPERAND(base, offset) ((uint32_t)(base) << 30 | (uint32_t)(offset))
#define OPERAND_OFFSET_MAX    (1u << 30)
#define OPERAND_NONE	      UINT32_MAX

enum code_kind {
	KIND_PLAIN,  /* cannot fault, goes on to the next one */
	KIND_MEMORY, /* may fault */
	KIND_SYNC,   /* waits for the lanes of its mask, then as PLAIN */
	KIND_BRANCH,
	KIND_BRX,
	KIND_CALL,
	KIND_RET,
	KIND_EXIT,
	KIND_TRAP,
	KIND_SLEEP,
	KIND_BARRIER,
};

/* What modifiers mean, gathered from the name of an instruction (form.c). */
enum code_aux {
	AUX_ROUND = 3, /* 0 to nearest even, 1 to zero, 2 down, 3 up */
	AUX_FTZ = 1 << 2,
	AUX_SAT = 1 << 3,
	AUX_INTEGRAL = 1 << 4, /* .rni and so on */
	AUX_NAN = 1 << 5,      /* min, max: NaN wins */
	AUX_RELU = 1 << 6,
	AUX_ROUNDED = 1 << 7, /* a rounding was given */
	AUX_SPACE_SHIFT = 8,
	AUX_SPACE = 7 << AUX_SPACE_SHIFT,
	AUX_V2 = 1 << 11,
	AUX_V4 = 1 << 12,
	AUX_POLL = 1 << 13,  /* volatile and the like: it may wait for another thread */
	AUX_FRAME = 1 << 14, /* the address is relative to the frame's local memory */
	AUX_COMBINE_SHIFT = 15,
	AUX_COMBINE = 3 << AUX_COMBINE_SHIFT, /* 1 and, 2 or, 3 xor */
	AUX_NOT_A = 1 << 17,		      /* a predicate operand is negated */
	AUX_NOT_B = 1 << 18,
	AUX_NOT_C = 1 << 19,
	AUX_NARROW = 1 << 20, /* the address is in a 32-bit register */
	AUX_COMPARE_SHIFT = 21,
	AUX_COMPARE = 15 << AUX_COMPARE_SHIFT, /* of set: an enum code_compare */
	AUX_FLOAT_RESULT = 1 << 25,	       /* of set: 1.0 for true */
	AUX_ALIGNED = 1 << 26,
};

enum code_space {
	SPACE_GENERIC,
	SPACE_GLOBAL,
	SPACE_SHARED,
	SPACE_LOCAL,
	SPACE_PARAM, /* of the kernel */
	SPACE_CONST,
	SPACE_FUNCTION_PARAM, /* while reading text only: it is local memory */
};

enum code_compare {
	COMPARE_EQ,
	COMPARE_NE,
	COMPARE_LT,
	COMPARE_LE,
	COMPARE_GT,
	COMPARE_GE,
	COMPARE_EQU,
	COMPARE_NEU,
	COMPARE_LTU,
	COMPARE_LEU,
	COMPARE_GTU,
	COMPARE_GEU,
	COMPARE_NUM,
	COMPARE_NAN,
};

enum code_type {
	TYPE_NONE,
	TYPE_B8,
	TYPE_U8,
	TYPE_S8,
	TYPE_B16,
	TYPE_U16,
	TYPE_S16,
	TYPE_B32,
	TYPE_U32,
	TYPE_S32,
	TYPE_B64,
	TYPE_U64,
	TYPE_S64,
	TYPE_F16,
	TYPE_BF16,
	TYPE_F32,
	TYPE_F64,
	TYPE_F16X2,
	TYPE_BF16X2,
	TYPE_PRED,
	TYPE_COUNT,
};

enum code_atom {
	ATOM_ADD,
	ATOM_MIN,
	ATOM_MAX,
	ATOM_INC,
	ATOM_DEC,
	ATOM_AND,
	ATOM_OR,
	ATOM_XOR,
	ATOM_EXCH,
	ATOM_CAS,
};

enum code_barrier { BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR, BAR_CLUSTER };

enum code_mbarrier {
	MBARRIER_INIT,
	MBARRIER_INVAL,
	MBARRIER_ARRIVE,
	MBARRIER_DROP,
	MBARRIER_TEST,
	MBARRIER_PARITY,
};

enum code_special {
	SPECIAL_TID_X,
	SPECIAL_TID_Y,
	SPECIAL_TID_Z,
	SPECIAL_NTID_X,
	SPECIAL_NTID_Y,
	SPECIAL_NTID_Z,
	SPECIAL_CTAID_X,
	SPECIAL_CTAID_Y,
	SPECIAL_CTAID_Z,
	SPECIAL_NCTAID_X,
	SPECIAL_NCTAID_Y,
	SPECIAL_NCTAID_Z,
	SPECIAL_LANEID,
	SPECIAL_WARPID,
	SPECIAL_NWARPID,
	SPECIAL_SMID,
	SPECIAL_NSMID,
	SPECIAL_LANEMASK_EQ,
	SPECIAL_LANEMASK_LE,
	SPECIAL_LANEMASK_LT,
	SPECIAL_LANEMASK_GE,
	SPECIAL_LANEMASK_GT,
	SPECIAL_DYNAMIC_SMEM,
	SPECIAL_TOTAL_SMEM,
	SPECIAL_ENVREG1,
	SPECIAL_ENVREG2,
	SPECIAL_GRIDID,
	SPECIAL_ZERO,
	SPECIAL_ONE,
	SPECIAL_STORED, /* the ones above are arrays of 32-bit lanes; the ones below are computed */
	SPECIAL_CLOCK = SPECIAL_STORED,
	SPECIAL_CLOCK_HI,
	SPECIAL_CLOCK64,
	SPECIAL_GLOBALTIMER,
	SPECIAL_GLOBALTIMER_LO,
	SPECIAL_GLOBALTIMER_HI,
	SPECIAL_GRIDID64,
};

struct warp;
struct insn;
typedef void code_fn(struct warp *warp, const struct insn *insn);

struct insn {
	code_fn *run;
	uint32_t guard; /* a predicate operand, or OPERAND_NONE */
	uint8_t kind;	/* enum code_kind */
	uint8_t guard_not;
	uint16_t argument; /* the row's, or what lowering made of it */
	uint32_t d, e;	   /* results */
	uint32_t a, b, c, f;
	uint32_t aux;
	uint32_t extra; /* index into the module's words: vectors, branch targets, calls */
	int64_t imm;	/* address offset; branch target */
	uint32_t line;
	uint16_t source;
	uint16_t width; /* of the register(s), in bits, where it differs from the type's */
};

/* What mov became; in insn.width, while insn.argument is the width of its type. */
enum code_mov {
	MOV_PLAIN,
	MOV_PACK,
	MOV_UNPACK,
	MOV_VECTOR,
	MOV_FRAME,
	MOV_SPECIAL,
	MOV_NARROW,
};

/* atom: operation, type */
#define ATOM(operation, type) ((operation) << 8 | (type))

/* mma: what it multiplies and adds, rows of A in eights, parts of k, and whether sums saturate. */
enum mma_type { MMA_F16, MMA_BF16, MMA_TF32, MMA_S8, MMA_U8, MMA_F64 };
enum mma_sum { MMA_SUM_F32, MMA_SUM_F16, MMA_SUM_S32, MMA_SUM_F64 };
#define MMA(a, b, sum, rows, parts)                                                                \
	(MMA_##a | MMA_##b << 3 | MMA_SUM_##sum << 6 | (rows) << 8 | (parts) << 10)
#define MMA_SATURATE (1 << 13)

struct mma_shape {
	enum mma_type a, b;
	enum mma_sum sum;
	unsigned rows;		     /* of A, in eights */
	unsigned per;		     /* numbers in a register of A and B */
	unsigned deep;		     /* k */
	unsigned n_a, n_b, n_c, n_d; /* registers */
	bool saturate;
};

static inline struct mma_shape mma_shape(uint16_t argument)
{
	struct mma_shape s = {
		.a = (enum mma_type)(argument & 7),
		.b = (enum mma_type)(argument >> 3 & 7),
		.sum = (enum mma_sum)(argument >> 6 & 3),
		.rows = argument >> 8 & 3,
		.saturate = (argument & MMA_SATURATE) != 0,
	};

	s.per = s.a == MMA_S8 || s.a == MMA_U8 ? 4 : s.a == MMA_F16 || s.a == MMA_BF16 ? 2 : 1;
	s.n_b = argument >> 10 & 7;
	s.n_a = s.n_b * s.rows;
	s.n_c = s.n_d = s.sum == MMA_SUM_F16 ? s.rows : s.rows * 2;
	s.deep = s.n_b * 4 * s.per;
	return s;
}

struct block;
struct grid_state;

/* What the functions of ptx.def see of a running warp. */
struct warp {
	uint8_t *base[BASE_COUNT];
	uint32_t mask;	      /* the lanes that execute this instruction */
	uint32_t carry;	      /* the condition code, a bit per lane */
	uint32_t active;      /* the lanes that are here, whatever their guard says */
	uint32_t local_base;  /* of the current frame, in each thread's local memory */
	uint8_t *local;	      /* interleaved: 8 bytes of each lane in turn (mem.c) */
	uint32_t local_bytes; /* of each lane */
	uint8_t *shared;
	uint32_t shared_bytes;
	struct ptx_grid *grid;
	struct block *block;
	const uint32_t *words; /* the module's */
	uint64_t slept_ns;
	bool polled; /* in this turn */
	bool stored; /* in this turn */
	bool faulted;
};

static inline void *operand(const struct warp *w, uint32_t o)
{
	return w->base[o >> 30] + (o & (OPERAND_OFFSET_MAX - 1));
}

static inline uint32_t predicate(const struct warp *w, uint32_t o, bool negated)
{
	uint32_t p = *(const uint32_t *)operand(w, o);

	return negated ? ~p : p;
}

static inline void set_predicate(struct warp *w, uint32_t o, uint32_t value)
{
	uint32_t *p = operand(w, o);

	*p = (*p & ~w->mask) | (value & w->mask);
}
