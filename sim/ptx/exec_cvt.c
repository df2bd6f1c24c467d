/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cvt. One function knows every pair of types, rounding and register width; frequent pairs between
 * registers of their types' own widths have a loop each.
 */
#include "sim/ptx/exec.h"

#include <fenv.h>

#include "sim/ptx/exec_table.h"
#include "sim/ptx/half.h"

static bool is_signed(unsigned type)
{
	return type == TYPE_S8 || type == TYPE_S16 || type == TYPE_S32 || type == TYPE_S64;
}

static bool is_float(unsigned type)
{
	return type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_F32 || type == TYPE_F64;
}

static unsigned bits_of(unsigned type)
{
	switch (type) {
	case TYPE_U8:
	case TYPE_S8:
		return 8;
	case TYPE_U16:
	case TYPE_S16:
	case TYPE_F16:
	case TYPE_BF16:
		return 16;
	case TYPE_U64:
	case TYPE_S64:
	case TYPE_F64:
		return 64;
	default:
		return 32;
	}
}

static uint64_t read_lane(const void *base, unsigned width, int lane)
{
	switch (width) {
	case 64:
		return ((const uint64_t *)base)[lane];
	case 32:
		return ((const uint32_t *)base)[lane];
	default:
		return ((const uint16_t *)base)[lane];
	}
}

static void write_lane(void *base, unsigned width, int lane, uint64_t value)
{
	switch (width) {
	case 64:
		((uint64_t *)base)[lane] = value;
		break;
	case 32:
		((uint32_t *)base)[lane] = (uint32_t)value;
		break;
	default:
		((uint16_t *)base)[lane] = (uint16_t)value;
		break;
	}
}

/* The low bits of a word as a type's value, extended to 64 bits by its sign. */
static uint64_t extended(uint64_t word, unsigned type)
{
	unsigned unused_bits = 64 - bits_of(type);

	word <<= unused_bits;
	return is_signed(type) ? (uint64_t)((int64_t)word >> unused_bits) : word >> unused_bits;
}

static uint64_t int_to_int(uint64_t v, unsigned to, unsigned from, bool saturate)
{
	__int128 value = is_signed(from) ? (__int128)(int64_t)v : (__int128)v, low, high;
	unsigned bits = bits_of(to);

	if (!saturate)
		return v;
	low = is_signed(to) ? -((__int128)1 << (bits - 1)) : 0;
	high = ((__int128)1 << (is_signed(to) ? bits - 1 : bits)) - 1;
	return (uint64_t)(value < low ? low : value > high ? high : value);
}

/* The integer as a double, rounded to odd: rounding that once more is right. */
static double odd_f64(uint64_t v, bool sign)
{
	bool negative = sign && (int64_t)v < 0;
	uint64_t m = negative ? 0 - v : v;
	double d;

	if (m >> 53) {
		uint64_t low = m & 0xfff;

		m = m >> 12 | (low != 0);
		d = (double)m * 4096.0;
	} else {
		d = (double)m;
	}
	return negative ? -d : d;
}

static uint64_t encode(double v, unsigned to, uint32_t aux)
{
	unsigned round = aux & AUX_INTEGRAL ? 0 : aux & AUX_ROUND;
	float f;

	if (aux & AUX_SAT)
		v = sat_f64(v);
	if (aux & AUX_RELU && !(v > 0) && v == v)
		v = 0;
	switch (to) {
	case TYPE_F64:
		return bits_f64(canonical_f64(v));
	case TYPE_F16:
		return f32_to_f16_round(odd_f32(v), round);
	case TYPE_BF16:
		return f32_to_bf16_round(odd_f32(v), round);
	default:
		break;
	}
	if (round) {
		static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
		volatile double hidden = v;
		volatile float narrow;

		fesetround(modes[round]);
		narrow = (float)hidden;
		fesetround(FE_TONEAREST);
		f = narrow;
	} else {
		f = (float)v;
	}
	f = canonical_f32(f);
	return bits_f32(aux & AUX_FTZ ? ftz_f32(f) : f);
}

static uint64_t int_to_float(uint64_t v, unsigned to, unsigned from, uint32_t aux)
{
	static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
	int64_t top = is_signed(from) ? (int64_t)v >> 32 : (int64_t)(v >> 32);
	volatile double high = (double)top * 0x1p32, low = (double)(int64_t)(v & UINT32_MAX), d;

	if (to != TYPE_F64)
		return encode(odd_f64(v, is_signed(from)), to, aux);
	/* Both halves are exact, so one rounding is left, in a form that compilers leave alone. */
	fesetround(modes[aux & AUX_ROUND]);
	d = high + low;
	fesetround(FE_TONEAREST);
	return encode(d, to, aux & ~(uint32_t)AUX_ROUND);
}

static double integral(double v, uint32_t aux)
{
	switch (aux & AUX_ROUND) {
	case 0:
		return __builtin_rint(v);
	case 1:
		return __builtin_trunc(v);
	case 2:
		return __builtin_floor(v);
	default:
		return __builtin_ceil(v);
	}
}

static uint64_t float_to_int(double v, unsigned to, unsigned from, uint32_t aux)
{
	unsigned bits = bits_of(to);
	double low = is_signed(to) ? -__builtin_ldexp(1, (int)bits - 1) : 0;
	double high = __builtin_ldexp(1, (int)bits - is_signed(to));

	if (v != v)
		return from == TYPE_F64 || bits == 64 ? 1ull << (bits - 1) : 0;
	v = integral(v, aux);
	if (v <= low)
		return is_signed(to) ? 0 - (1ull << (bits - 1)) : 0;
	if (v >= high)
		return is_signed(to) ? (1ull << (bits - 1)) - 1 : ~0ull >> (64 - bits);
	return is_signed(to) ? (uint64_t)(int64_t)v : (uint64_t)v;
}

static double decode(uint64_t word, unsigned from, uint32_t aux)
{
	float f;

	switch (from) {
	case TYPE_F64:
		return f64_of(word);
	case TYPE_F16:
		f = f16_to_f32((uint16_t)word);
		break;
	case TYPE_BF16:
		f = bf16_to_f32((uint16_t)word);
		break;
	default:
		f = f32_of((uint32_t)word);
		if (aux & AUX_FTZ)
			f = ftz_f32(f);
		break;
	}
	return (double)f;
}

static uint64_t convert(uint64_t word, unsigned to, unsigned from, uint32_t aux)
{
	double v;

	if (!is_float(from)) {
		word = extended(word, from);
		if (is_float(to))
			return int_to_float(word, to, from, aux);
		return extended(int_to_int(word, to, from, aux & AUX_SAT), to);
	}
	v = decode(word, from, aux);
	if (!is_float(to))
		return extended(float_to_int(v, to, from, aux), to);
	if (aux & AUX_INTEGRAL)
		v = integral(v, aux);
	return encode(v, to, aux);
}

void X(cvt)(struct warp *w, const struct insn *i)
{
	void *d = operand(w, i->d);
	const void *a = operand(w, i->a);
	unsigned to = i->argument >> 8, from = i->argument & 0xff;
	unsigned d_width = i->width & 0xff, a_width = i->width >> 8;

	for (uint32_t left = w->mask; left; left &= left - 1) {
		int l = __builtin_ctz(left);

		write_lane(d, d_width, l, convert(read_lane(a, a_width, l), to, from, i->aux));
	}
}

/* The first source is the high half. */
#define PACK(name, function)                                                                       \
	void X(name)(struct warp * w, const struct insn *i)                                        \
	{                                                                                          \
		uint32_t *d = operand(w, i->d);                                                    \
		const float *pa = operand(w, i->a), *pb = operand(w, i->b);                        \
		unsigned round = i->aux & AUX_ROUND;                                               \
		bool relu = i->aux & AUX_RELU;                                                     \
                                                                                                   \
		EACH_LANE(w, float A = relu && pa[l] <= 0 ? 0 : pa[l];                             \
			  float B = relu && pb[l] <= 0 ? 0 : pb[l];                                \
			  d[l] = (uint32_t)function(A, round) << 16 | function(B, round));         \
	}

PACK(cvt_pack_f16x2, f32_to_f16_round)
PACK(cvt_pack_bf16x2, f32_to_bf16_round)

void X(cvt_pack_sat)(struct warp *w, const struct insn *i)
{
	uint32_t *d = operand(w, i->d);
	const int32_t *pa = operand(w, i->a), *pb = operand(w, i->b);
	int32_t low = i->argument ? -32768 : 0, high = i->argument ? 32767 : 65535;

	EACH_LANE(w, int32_t A = pa[l] < low	? low
				 : pa[l] > high ? high
						: pa[l];
		  int32_t B = pb[l] < low    ? low
			      : pb[l] > high ? high
					     : pb[l];
		  d[l] = (uint32_t)A << 16 | ((uint32_t)B & 0xffff));
}

/* Frequent pairs. `stored` is what an 8-bit type's register holds. */
#define FAST(name, to, stored, value)                                                              \
	static void name(struct warp *w, const struct insn *i)                                     \
	{                                                                                          \
		to *d = operand(w, i->d);                                                          \
		const stored *pa = operand(w, i->a);                                               \
                                                                                                   \
		EACH_LANE(w, stored A = pa[l]; d[l] = (to)(value));                                \
	}
#define FAST_INTS(to, bits)                                                                        \
	FAST(to_##bits##_u8, to, uint16_t, (uint8_t)A)                                             \
	FAST(to_##bits##_s8, to, uint16_t, (int8_t)A)                                              \
	FAST(to_##bits##_u16, to, uint16_t, A)                                                     \
	FAST(to_##bits##_s16, to, int16_t, A)                                                      \
	FAST(to_##bits##_u32, to, uint32_t, A)                                                     \
	FAST(to_##bits##_s32, to, int32_t, A)                                                      \
	FAST(to_##bits##_u64, to, uint64_t, A)                                                     \
	FAST(to_##bits##_s64, to, int64_t, A)

FAST_INTS(uint16_t, 16)
FAST_INTS(uint32_t, 32)
FAST_INTS(uint64_t, 64)

static code_fn *const ints[3][8] = {
	{to_16_u8, to_16_s8, to_16_u16, to_16_s16, to_16_u32, to_16_s32, to_16_u64, to_16_s64},
	{to_32_u8, to_32_s8, to_32_u16, to_32_s16, to_32_u32, to_32_s32, to_32_u64, to_32_s64},
	{to_64_u8, to_64_s8, to_64_u16, to_64_s16, to_64_u32, to_64_s32, to_64_u64, to_64_s64},
};

FAST(f32_from_s32, float, int32_t, A)
FAST(f32_from_u32, float, uint32_t, A)
FAST(f64_from_s32, double, int32_t, A)
FAST(f64_from_u32, double, uint32_t, A)
FAST(f64_from_f32, double, float, canonical_f64((double)A))
FAST(f32_from_f64, float, double, canonical_f32((float)A))
FAST(f32_from_f16, float, uint16_t, f16_to_f32(A))
FAST(f32_from_bf16, float, uint16_t, bf16_to_f32(A))
FAST(f16_from_f32, uint16_t, float, f32_to_f16_round(A, 0))
FAST(bf16_from_f32, uint16_t, float, f32_to_bf16_round(A, 0))
FAST(s32_from_f32, int32_t, float,
     A != A	     ? 0
     : A >= 0x1p31f  ? INT32_MAX
     : A <= -0x1p31f ? INT32_MIN
		     : (int32_t)A)
FAST(u32_from_f32, uint32_t, float, !(A > 0) ? 0 : A >= 0x1p32f ? UINT32_MAX : (uint32_t)A)

static int int_index(unsigned type)
{
	switch (type) {
	case TYPE_U8:
		return 0;
	case TYPE_S8:
		return 1;
	case TYPE_U16:
		return 2;
	case TYPE_S16:
		return 3;
	case TYPE_U32:
		return 4;
	case TYPE_S32:
		return 5;
	case TYPE_U64:
		return 6;
	case TYPE_S64:
		return 7;
	default:
		return -1;
	}
}

code_fn *X(cvt_for)(unsigned to, unsigned from, uint32_t aux)
{
	static const struct {
		uint8_t to, from;
		uint32_t aux;
		code_fn *run;
	} floats[] = {
		{TYPE_F32, TYPE_S32, AUX_ROUNDED, f32_from_s32},
		{TYPE_F32, TYPE_U32, AUX_ROUNDED, f32_from_u32},
		{TYPE_F64, TYPE_S32, AUX_ROUNDED, f64_from_s32},
		{TYPE_F64, TYPE_U32, AUX_ROUNDED, f64_from_u32},
		{TYPE_F64, TYPE_F32, 0, f64_from_f32},
		{TYPE_F32, TYPE_F64, AUX_ROUNDED, f32_from_f64},
		{TYPE_F32, TYPE_F16, 0, f32_from_f16},
		{TYPE_F32, TYPE_BF16, 0, f32_from_bf16},
		{TYPE_F16, TYPE_F32, AUX_ROUNDED, f16_from_f32},
		{TYPE_BF16, TYPE_F32, AUX_ROUNDED, bf16_from_f32},
		{TYPE_S32, TYPE_F32, AUX_ROUNDED | AUX_INTEGRAL | 1, s32_from_f32},
		{TYPE_U32, TYPE_F32, AUX_ROUNDED | AUX_INTEGRAL | 1, u32_from_f32},
	};
	int t = int_index(to), f = int_index(from);

	if (t >= 2 && f >= 0 && !aux)
		return ints[t / 2 - 1][f];
	for (size_t n = 0; n < ARRAY_SIZE(floats); n++)
		if (floats[n].to == to && floats[n].from == from && floats[n].aux == aux)
			return floats[n].run;
	return NULL;
}
