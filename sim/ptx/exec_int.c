/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers, bits, selection and comparison: the functions of UN to SETP rows.
 */
#include "sim/ptx/exec.h"
#include "sim/ptx/exec_table.h"

#define SIGN_f32 0x80000000u
#define SIGN_f64 0x8000000000000000ull

static inline int32_t sat_s32(int64_t v)
{
	return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

static inline int32_t relu_s32(int32_t v)
{
	return v > 0 ? v : 0;
}

static inline uint16_t mul_hi_u16(uint16_t a, uint16_t b)
{
	return (uint16_t)(((uint32_t)a * b) >> 16);
}

static inline int16_t mul_hi_s16(int16_t a, int16_t b)
{
	return (int16_t)(((int32_t)a * b) >> 16);
}

static inline uint32_t mul_hi_u32(uint32_t a, uint32_t b)
{
	return (uint32_t)(((uint64_t)a * b) >> 32);
}

static inline int32_t mul_hi_s32(int32_t a, int32_t b)
{
	return (int32_t)(((int64_t)a * b) >> 32);
}

static inline uint64_t mul_hi_u64(uint64_t a, uint64_t b)
{
	return (uint64_t)(((unsigned __int128)a * b) >> 64);
}

static inline int64_t mul_hi_s64(int64_t a, int64_t b)
{
	return (int64_t)(((__int128)a * b) >> 64);
}

static inline uint64_t product_24_u32(uint32_t a, uint32_t b)
{
	return (uint64_t)(a & 0xffffff) * (b & 0xffffff);
}

static inline uint64_t product_24_s32(int32_t a, int32_t b)
{
	int64_t x = (int32_t)((uint32_t)a << 8) >> 8, y = (int32_t)((uint32_t)b << 8) >> 8;

	return (uint64_t)(x * y);
}

#define low_24_u32(a, b)  ((uint32_t)product_24_u32(a, b))
#define low_24_s32(a, b)  ((uint32_t)product_24_s32(a, b))
#define high_24_u32(a, b) ((uint32_t)(product_24_u32(a, b) >> 16))
#define high_24_s32(a, b) ((uint32_t)(product_24_s32(a, b) >> 16))

/* A device does not trap: a quotient by zero is all ones, a remainder the dividend. */
#define DIVISION(t, is_signed)                                                                     \
	static inline T_##t div_##t(T_##t a, T_##t b)                                              \
	{                                                                                          \
		if (b == 0)                                                                        \
			return (T_##t) - 1;                                                        \
		if (is_signed && b == (T_##t) - 1)                                                 \
			return (T_##t)(0 - (uint64_t)a);                                           \
		return (T_##t)(a / b);                                                             \
	}                                                                                          \
	static inline T_##t rem_##t(T_##t a, T_##t b)                                              \
	{                                                                                          \
		if (b == 0)                                                                        \
			return a;                                                                  \
		if (is_signed && b == (T_##t) - 1)                                                 \
			return 0;                                                                  \
		return (T_##t)(a % b);                                                             \
	}

DIVISION(u16, 0)
DIVISION(s16, 1)
DIVISION(u32, 0)
DIVISION(s32, 1)
DIVISION(u64, 0)
DIVISION(s64, 1)

#define HALVES(name, t, o)                                                                         \
	static inline uint32_t name(uint32_t a, uint32_t b)                                        \
	{                                                                                          \
		T_##t al = (T_##t)a, bl = (T_##t)b;                                                \
		T_##t ah = (T_##t)(a >> 16), bh = (T_##t)(b >> 16);                                \
		uint16_t low = (uint16_t)(al o bl ? al : bl);                                      \
		uint16_t high = (uint16_t)(ah o bh ? ah : bh);                                     \
                                                                                                   \
		return (uint32_t)high << 16 | low;                                                 \
	}

HALVES(min_u16x2, u16, <)
HALVES(max_u16x2, u16, >)
HALVES(min_s16x2, s16, <)
HALVES(max_s16x2, s16, >)

static inline uint32_t brev_b32(uint32_t v)
{
	v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;
	v = (v >> 2 & 0x33333333) | (v & 0x33333333) << 2;
	v = (v >> 4 & 0x0f0f0f0f) | (v & 0x0f0f0f0f) << 4;
	return __builtin_bswap32(v);
}

static inline uint64_t brev_b64(uint64_t v)
{
	return (uint64_t)brev_b32((uint32_t)v) << 32 | brev_b32((uint32_t)(v >> 32));
}

/* width > 0: how far to shift left instead of which bit. */
static inline uint32_t bfind(uint64_t v, uint32_t width)
{
	uint32_t at;

	if (!v)
		return UINT32_MAX;
	at = 63 - (uint32_t)__builtin_clzll(v);
	return width ? width - 1 - at : at;
}

static inline uint64_t field(uint64_t v, uint32_t at, uint32_t length, uint32_t width, bool sign)
{
	uint32_t last;
	uint64_t top, bits;

	at &= 0xff;
	length &= 0xff;
	if (!length)
		return 0;
	last = at + length - 1 < width - 1 ? at + length - 1 : width - 1;
	top = sign ? v >> last & 1 : 0;
	bits = at >= width ? 0 : v >> at;
	if (at < width && length < 64 && length <= width - at)
		bits &= (1ull << length) - 1;
	else if (at < width && width == 32)
		bits &= 0xffffffffull >> at;
	/* Sign bits above what was there to extract. */
	if (top) {
		uint32_t have = at >= width ? 0 : last - at + 1;

		if (have < 64)
			bits |= ~0ull << have;
	}
	return bits;
}

#define bfe_u32(a, b, c) ((uint32_t)field(a, b, c, 32, false))
#define bfe_s32(a, b, c) ((int32_t)field((uint32_t)(a), b, c, 32, true))
#define bfe_u64(a, b, c) field(a, b, c, 64, false)
#define bfe_s64(a, b, c) ((int64_t)field((uint64_t)(a), b, c, 64, true))

static inline uint64_t bfi_b64(uint64_t from, uint64_t into, uint32_t at, uint32_t length)
{
	uint64_t mask;

	at &= 0xff;
	length &= 0xff;
	if (at > 63 || !length)
		return into;
	mask = (length > 63 ? ~0ull : (1ull << length) - 1) << at;
	return (into & ~mask) | (from << at & mask);
}

static inline uint32_t bfi_b32(uint32_t from, uint32_t into, uint32_t at, uint32_t length)
{
	return (at & 0xff) > 31 ? into : (uint32_t)bfi_b64(from, into, at, length);
}

static inline uint32_t bmsk_clamp(uint32_t at, uint32_t length)
{
	if (at > 31 || !length)
		return 0;
	return (length > 31 ? ~0u : (1u << length) - 1) << at;
}

static inline uint32_t bmsk_wrap(uint32_t at, uint32_t length)
{
	return bmsk_clamp(at & 31, length & 31);
}

static inline int32_t szext_clamp_s32(int32_t v, uint32_t bits)
{
	if (!bits)
		return 0;
	return bits > 31 ? v : (int32_t)((uint32_t)v << (32 - bits)) >> (32 - bits);
}

static inline uint32_t szext_clamp_u32(uint32_t v, uint32_t bits)
{
	return bits > 31 ? v : v & ((1u << bits) - 1);
}

#define szext_wrap_s32(v, bits) szext_clamp_s32(v, (bits)&31)
#define szext_wrap_u32(v, bits) szext_clamp_u32(v, (bits)&31)

/* The position of the n-th set bit from `base` on, upwards, or downwards for a negative n. */
static inline uint32_t fns(uint32_t mask, uint32_t base, int32_t n)
{
	int32_t step = n < 0 ? -1 : 1;
	int64_t left = n < 0 ? -(int64_t)n : n, at;

	if (base > 31)
		return UINT32_MAX;
	if (n == 0)
		return mask >> base & 1 ? base : UINT32_MAX;
	for (at = base; at >= 0 && at < 32; at += step)
		if (mask >> at & 1 && --left == 0)
			return (uint32_t)at;
	return UINT32_MAX;
}

static inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t select)
{
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t d = 0;

	for (uint32_t i = 0; i < 4; i++) {
		uint32_t s = select >> (4 * i) & 15;
		uint32_t byte = (uint32_t)(both >> (8 * (s & 7))) & 0xff;

		if (s & 8)
			byte = byte & 0x80 ? 0xff : 0;
		d |= byte << (8 * i);
	}
	return d;
}

/* The modes are selections of their own: four digits for each value of the low two bits. */
#define prmt_f4e(a, b, c)  prmt(a, b, 0x3210u + 0x1111u * ((c)&3))
#define prmt_b4e(a, b, c)  prmt(a, b, (uint32_t[]){0x5670, 0x6701, 0x7012, 0x0123}[(c)&3])
#define prmt_rc8(a, b, c)  prmt(a, b, 0x1111u * ((c)&3))
#define prmt_ecl(a, b, c)  prmt(a, b, (uint32_t[]){0x3210, 0x3211, 0x3222, 0x3333}[(c)&3])
#define prmt_ecr(a, b, c)  prmt(a, b, (uint32_t[]){0x0000, 0x1110, 0x2210, 0x3210}[(c)&3])
#define prmt_rc16(a, b, c) prmt(a, b, (c)&1 ? 0x3232u : 0x1010u)

static inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
	uint32_t d = 0;

	d |= table & 0x01 ? ~a & ~b & ~c : 0;
	d |= table & 0x02 ? ~a & ~b & c : 0;
	d |= table & 0x04 ? ~a & b & ~c : 0;
	d |= table & 0x08 ? ~a & b & c : 0;
	d |= table & 0x10 ? a & ~b & ~c : 0;
	d |= table & 0x20 ? a & ~b & c : 0;
	d |= table & 0x40 ? a & b & ~c : 0;
	d |= table & 0x80 ? a & b & c : 0;
	return d;
}

/* The high word of [b:a] shifted left, its low word shifted right. */
static inline uint32_t shf_l(uint32_t a, uint32_t b, uint32_t n)
{
	uint64_t both = (uint64_t)b << 32 | a;

	return (uint32_t)(both << n >> 32);
}

static inline uint32_t shf_r(uint32_t a, uint32_t b, uint32_t n)
{
	uint64_t both = (uint64_t)b << 32 | a;

	return (uint32_t)(both >> n);
}

static inline uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c, int a_signed, int b_signed)
{
	for (int i = 0; i < 4; i++) {
		int32_t x = a_signed ? (int8_t)(a >> 8 * i) : (uint8_t)(a >> 8 * i);
		int32_t y = b_signed ? (int8_t)(b >> 8 * i) : (uint8_t)(b >> 8 * i);

		c += (uint32_t)(x * y);
	}
	return c;
}

static inline uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c, int a_signed, int b_signed, int at)
{
	for (int i = 0; i < 2; i++) {
		int32_t x = a_signed ? (int16_t)(a >> 16 * i) : (uint16_t)(a >> 16 * i);
		int32_t y = b_signed ? (int8_t)(b >> 8 * (i + at)) : (uint8_t)(b >> 8 * (i + at));

		c += (uint32_t)(x * y);
	}
	return c;
}

#define UN(id, pattern, dt, at, x)                                                                 \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		T_##dt *d = operand(w, i->d);                                                      \
		const T_##at *pa = operand(w, i->a);                                               \
                                                                                                   \
		EACH_LANE(w, T_##at A = pa[l]; d[l] = (T_##dt)(x));                                \
	}
#define BIN(id, pattern, dt, at, bt, x)                                                            \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		T_##dt *d = operand(w, i->d);                                                      \
		const T_##at *pa = operand(w, i->a);                                               \
		const T_##bt *pb = operand(w, i->b);                                               \
                                                                                                   \
		EACH_LANE(w, T_##at A = pa[l]; T_##bt B = pb[l]; d[l] = (T_##dt)(x));              \
	}
#define TER(id, pattern, dt, at, bt, ct, x)                                                        \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		T_##dt *d = operand(w, i->d);                                                      \
		const T_##at *pa = operand(w, i->a);                                               \
		const T_##bt *pb = operand(w, i->b);                                               \
		const T_##ct *pc = operand(w, i->c);                                               \
                                                                                                   \
		EACH_LANE(w, T_##at A = pa[l]; T_##bt B = pb[l]; T_##ct C = pc[l];                 \
			  d[l] = (T_##dt)(x));                                                     \
	}
#define QUAD(id, pattern, dt, at, bt, ct, et, x)                                                   \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		T_##dt *d = operand(w, i->d);                                                      \
		const T_##at *pa = operand(w, i->a);                                               \
		const T_##bt *pb = operand(w, i->b);                                               \
		const T_##ct *pc = operand(w, i->c);                                               \
		const T_##et *pe = operand(w, i->f);                                               \
                                                                                                   \
		EACH_LANE(w, T_##at A = pa[l]; T_##bt B = pb[l]; T_##ct C = pc[l];                 \
			  T_##et E = pe[l]; d[l] = (T_##dt)(x));                                   \
	}

/* Sums of two or three words and a carry, or a borrow. */
#define WIDE_u32	     uint64_t
#define WIDE_u64	     unsigned __int128
#define BITS_u32	     32
#define BITS_u64	     64
#define WIDE_s32	     WIDE_u32
#define WIDE_s64	     WIDE_u64
#define BITS_s32	     32
#define BITS_s64	     64
#define WORD_u32	     uint32_t
#define WORD_u64	     uint64_t
#define WORD_s32	     uint32_t
#define WORD_s64	     uint64_t
#define CARRY_FIRST_none(t)  ((WORD_##t)pa[l])
#define CARRY_SECOND_none(t) ((WORD_##t)pb[l])
#define CARRY_FIRST_lo(t)    ((WORD_##t)((WORD_##t)pa[l] * (WORD_##t)pb[l]))
#define CARRY_SECOND_lo(t)   ((WORD_##t)pc[l])
#define CARRY_FIRST_hi(t)    ((WORD_##t)mul_hi_##t(pa[l], pb[l]))
#define CARRY_SECOND_hi(t)   ((WORD_##t)pc[l])
#define CARRY(id, pattern, t, product, subtract, in, out)                                          \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		WORD_##t *d = operand(w, i->d);                                                    \
		const T_##t *pa = operand(w, i->a), *pb = operand(w, i->b);                        \
		const T_##t *pc unused = i->c == OPERAND_NONE ? pb : operand(w, i->c);             \
		uint32_t carry = w->carry;                                                         \
                                                                                                   \
		for (uint32_t left = w->mask; left; left &= left - 1) {                            \
			int l = __builtin_ctz(left);                                               \
			WIDE_##t first = CARRY_FIRST_##product(t);                                 \
			WIDE_##t second = CARRY_SECOND_##product(t);                               \
			WIDE_##t sum, c = (in) ? carry >> l & 1 : 0;                               \
                                                                                                   \
			sum = (subtract) ? first - second - c : first + second + c;                \
			d[l] = (WORD_##t)sum;                                                      \
			if (out)                                                                   \
				carry = (carry & ~(1u << l)) | (uint32_t)(sum >> BITS_##t & 1)     \
								       << l;                       \
		}                                                                                  \
		w->carry = carry;                                                                  \
	}
#define SELP(id, pattern, t)                                                                       \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		T_##t *d = operand(w, i->d);                                                       \
		const T_##t *pa = operand(w, i->a), *pb = operand(w, i->b);                        \
		uint32_t p = predicate(w, i->c, false);                                            \
                                                                                                   \
		EACH_LANE(w, d[l] = p >> l & 1 ? pa[l] : pb[l]);                                   \
	}
#define PRED(id, pattern, operands, x)                                                             \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		uint32_t A = predicate(w, i->a, i->aux & AUX_NOT_A);                               \
		uint32_t B = i->b == OPERAND_NONE ? 0 : predicate(w, i->b, i->aux & AUX_NOT_B);    \
                                                                                                   \
		set_predicate(w, i->d, x);                                                         \
	}

#define SETP(id, pattern, t, x)                                                                    \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		const T_##t *pa = operand(w, i->a), *pb = operand(w, i->b);                        \
		uint32_t result = 0;                                                               \
                                                                                                   \
		for (int l = 0; l < LANES; l++) {                                                  \
			T_##t A = pa[l], B = pb[l];                                                \
                                                                                                   \
			result |= (uint32_t)(x) << l;                                              \
		}                                                                                  \
		compared(w, i, result);                                                            \
	}

#include "sim/ptx/rows.def"
