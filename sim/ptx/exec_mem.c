/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, stores and atomics. First where each lane's datum is, then a loop for its type; lanes that
 * touch one run of memory, or one datum, have loops without addresses.
 */
#include "sim/ptx/exec.h"
#include "sim/ptx/exec_table.h"
#include "sim/ptx/grid.h"
#include "sim/ptx/half.h"

enum how { EACH_ITS_OWN, ONE_RUN, ONE_DATUM };

struct place {
	enum how how;
	bool interleaved; /* local memory: the next 8 bytes are 256 further */
	uint8_t *first;
	uint8_t *at[LANES];
};

static inline uint8_t *lane_at(const struct place *p, int lane, unsigned stride)
{
	return p->how == EACH_ITS_OWN ? p->at[lane]
	       : p->how == ONE_RUN    ? p->first + (unsigned)lane * stride
				      : p->first;
}

static inline unsigned element_at(const struct place *p, unsigned offset)
{
	return p->interleaved ? (offset >> 3 << 8) + (offset & 7) : offset;
}

static bool one_by_one(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
		       bool write, struct place *p)
{
	unsigned space = (i->aux & AUX_SPACE) >> AUX_SPACE_SHIFT;

	p->how = EACH_ITS_OWN;
	for (uint32_t left = w->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		if (a[l] & (bytes - 1)) {
			mem_fault(w, i, PTX_FAULT_MISALIGNED, a[l], l, write);
			return false;
		}
		if (space == SPACE_GENERIC) {
			bool local;

			p->at[l] = mem_generic(w, i, l, a[l], bytes, write, &local);
			/* Vectors of lanes in different memories: local ones are only exact
			 * within 8 bytes, so such a mixture is refused. */
			if (p->at[l] && bytes > 8 && left != w->mask && local != p->interleaved) {
				mem_fault(w, i, PTX_FAULT_ADDRESS_SPACE, a[l], l, write);
				return false;
			}
			p->interleaved = local;
		} else {
			p->at[l] = mem_global(w, i, l, a[l], bytes, write);
		}
		if (!p->at[l])
			return false;
	}
	return true;
}

static const struct ptx_range *cached(struct ptx_grid *g, uint64_t lo, uint64_t hi, unsigned bytes,
				      bool write)
{
	for (uint32_t n = 0; n < g->n_ranges; n++) {
		const struct ptx_range *r = &g->ranges[n];

		if (lo >= r->lo && hi <= r->hi - bytes && (!write || r->writable)) {
			if (n) {
				struct ptx_range other = g->ranges[0];

				g->ranges[0] = *r;
				g->ranges[n] = other;
			}
			return &g->ranges[0];
		}
	}
	return NULL;
}

static bool in_device(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
		      bool write, struct place *p)
{
	uint64_t first = a[__builtin_ctz(w->mask)], differs = 0, runs = 0, low_bits = 0;
	int64_t lo = INT64_MAX, hi = INT64_MIN;
	const struct ptx_range *r;
	uint64_t v[LANES];

	for (int l = 0; l < LANES; l++)
		v[l] = w->mask >> l & 1 ? a[l] : first;
	for (unsigned l = 0; l < LANES; l++) {
		int64_t s = (int64_t)v[l];

		differs |= v[l] ^ first;
		runs |= v[l] ^ (first + l * bytes);
		low_bits |= v[l];
		lo = s < lo ? s : lo;
		hi = s > hi ? s : hi;
	}
	r = lo < 0 ? NULL : cached(w->grid, (uint64_t)lo, (uint64_t)hi, bytes, write);
	if (!r || low_bits & (bytes - 1))
		return one_by_one(w, i, a, bytes, write, p);
	p->first = (uint8_t *)(uintptr_t)(first + r->host_delta);
	if (!differs) {
		p->how = ONE_DATUM;
	} else if (!runs && w->mask == UINT32_MAX) {
		p->how = ONE_RUN;
	} else {
		p->how = EACH_ITS_OWN;
		for (int l = 0; l < LANES; l++)
			p->at[l] = (uint8_t *)(uintptr_t)(v[l] + r->host_delta);
	}
	return true;
}

static bool in_shared(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
		      bool write, struct place *p)
{
	uint64_t first = a[__builtin_ctz(w->mask)], differs = 0, runs = 0, low_bits = 0, over = 0;
	uint64_t limit = w->shared_bytes >= bytes ? w->shared_bytes - bytes : 0;
	uint64_t v[LANES];

	for (int l = 0; l < LANES; l++)
		v[l] = w->mask >> l & 1 ? a[l] : first;
	for (unsigned l = 0; l < LANES; l++) {
		differs |= v[l] ^ first;
		runs |= v[l] ^ (first + l * bytes);
		low_bits |= v[l];
		/* the sign of limit - v, for v below 2^63 */
		over |= (limit - v[l]) | v[l];
	}
	if (over >> 63 || low_bits & (bytes - 1) || w->shared_bytes < bytes) {
		for (unsigned l = 0; l < LANES; l++) {
			if (v[l] <= limit && !(v[l] & (bytes - 1)) && w->shared_bytes >= bytes)
				continue;
			mem_fault(w, i,
				  v[l] & (bytes - 1) ? PTX_FAULT_MISALIGNED
						     : PTX_FAULT_ILLEGAL_ADDRESS,
				  PTX_WINDOW_SHARED + v[l], l, write);
			return false;
		}
	}
	p->first = w->shared + first;
	if (!differs) {
		p->how = ONE_DATUM;
	} else if (!runs && w->mask == UINT32_MAX) {
		p->how = ONE_RUN;
	} else {
		p->how = EACH_ITS_OWN;
		for (int l = 0; l < LANES; l++)
			p->at[l] = w->shared + v[l];
	}
	return true;
}

static bool in_local(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
		     bool write, struct place *p)
{
	p->how = EACH_ITS_OWN;
	p->interleaved = true;
	for (uint32_t left = w->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		p->at[l] = mem_local(w, i, l, a[l], bytes, write);
		if (!p->at[l])
			return false;
	}
	return true;
}

static bool in_params(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
		      bool write, struct place *p)
{
	p->how = EACH_ITS_OWN;
	for (uint32_t left = w->mask; left; left &= left - 1) {
		unsigned l = (unsigned)__builtin_ctz(left);

		p->at[l] =
			mem_generic(w, i, l, PTX_WINDOW_PARAM + a[l], bytes, write, &(bool){false});
		if (!p->at[l])
			return false;
	}
	return true;
}

/* False: no lane is left to do anything, or the warp has faulted. */
static inline bool locate(struct warp *w, const struct insn *i, unsigned bytes, bool write,
			  struct place *p)
{
	uint64_t a[LANES], base = (uint64_t)i->imm;

	p->interleaved = false;
	if (unlikely(!w->mask))
		return false;
	if (i->aux & AUX_FRAME)
		base += w->local_base;
	if (i->aux & AUX_NARROW) {
		const uint32_t *r = operand(w, i->a);

		for (int l = 0; l < LANES; l++)
			a[l] = (uint32_t)(r[l] + (uint32_t)base);
	} else {
		const uint64_t *r = operand(w, i->a);

		for (int l = 0; l < LANES; l++)
			a[l] = r[l] + base;
	}
	switch ((i->aux & AUX_SPACE) >> AUX_SPACE_SHIFT) {
	case SPACE_SHARED:
		return in_shared(w, i, a, bytes, write, p);
	case SPACE_LOCAL:
		return in_local(w, i, a, bytes, write, p);
	case SPACE_PARAM:
		/* Nearly always one constant address. */
		if (i->a >> 30 == BASE_CONSTANTS && !write && !(a[0] & (bytes - 1)) &&
		    a[0] <= w->grid->kernel->info.params_bytes &&
		    bytes <= w->grid->kernel->info.params_bytes - a[0]) {
			p->how = ONE_DATUM;
			p->first = w->grid->params + a[0];
			return true;
		}
		return in_params(w, i, a, bytes, write, p);
	default:
		return in_device(w, i, a, bytes, write, p);
	}
}

static unsigned vector_of(const struct insn *i)
{
	return i->aux & AUX_V4 ? 4 : i->aux & AUX_V2 ? 2 : 1;
}

/* Into registers of any width: the value is extended by the sign of its type. */
#define LOAD_WIDE(type, register_type)                                                             \
	EACH_LANE(w, type v; memcpy(&v, lane_at(&p, l, stride) + offset, sizeof(v));               \
		  ((register_type *)d)[l] = (register_type)v)

/* type: in memory; register_type: of a register that is as wide (16 bits for 8). */
#define LD(name, type, register_type)                                                              \
	static void name##_any(struct warp *w, const struct insn *i)                               \
	{                                                                                          \
		unsigned n = vector_of(i), stride = n * (unsigned)sizeof(type);                    \
		struct place p;                                                                    \
                                                                                                   \
		if (!locate(w, i, stride, false, &p))                                              \
			return;                                                                    \
		for (unsigned k = 0; k < n; k++) {                                                 \
			unsigned offset = element_at(&p, k * (unsigned)sizeof(type));              \
			uint32_t o = n > 1 ? w->words[i->extra + k] : i->d;                        \
			void *d;                                                                   \
                                                                                                   \
			if (o == OPERAND_NONE)                                                     \
				continue;                                                          \
			d = operand(w, o);                                                         \
			if (i->width == 64)                                                        \
				LOAD_WIDE(type, int64_t);                                          \
			else if (i->width == 32)                                                   \
				LOAD_WIDE(type, int32_t);                                          \
			else if (i->width == 16)                                                   \
				LOAD_WIDE(type, int16_t);                                          \
			else                                                                       \
				LOAD_WIDE(type, register_type);                                    \
		}                                                                                  \
	}                                                                                          \
	void X(name)(struct warp * w, const struct insn *i)                                        \
	{                                                                                          \
		register_type *d;                                                                  \
		struct place p;                                                                    \
                                                                                                   \
		w->polled |= (i->aux & AUX_POLL) != 0;                                             \
		if (i->width || i->aux & (AUX_V2 | AUX_V4) || i->d == OPERAND_NONE) {              \
			name##_any(w, i);                                                          \
			return;                                                                    \
		}                                                                                  \
		if (!locate(w, i, sizeof(type), false, &p))                                        \
			return;                                                                    \
		d = operand(w, i->d);                                                              \
		if (p.how == ONE_DATUM) {                                                          \
			type v;                                                                    \
                                                                                                   \
			memcpy(&v, p.first, sizeof(v));                                            \
			EACH_LANE(w, d[l] = (register_type)v);                                     \
		} else if (p.how == ONE_RUN && sizeof(type) == sizeof(register_type)) {            \
			memcpy(d, p.first, LANES * sizeof(type));                                  \
		} else if (p.how == ONE_RUN) {                                                     \
			for (int l = 0; l < LANES; l++)                                            \
				d[l] = (register_type)((const type *)p.first)[l];                  \
		} else {                                                                           \
			EACH_LANE(w, type v; memcpy(&v, p.at[l], sizeof(v));                       \
				  d[l] = (register_type)v);                                        \
		}                                                                                  \
	}

LD(ld_b8, uint8_t, uint16_t)
LD(ld_u8, uint8_t, uint16_t)
LD(ld_s8, int8_t, int16_t)
LD(ld_b16, uint16_t, uint16_t)
LD(ld_u16, uint16_t, uint16_t)
LD(ld_s16, int16_t, int16_t)
LD(ld_b32, uint32_t, uint32_t)
LD(ld_u32, uint32_t, uint32_t)
LD(ld_s32, int32_t, int32_t)
LD(ld_f32, uint32_t, uint32_t)
LD(ld_b64, uint64_t, uint64_t)
LD(ld_u64, uint64_t, uint64_t)
LD(ld_s64, int64_t, int64_t)
LD(ld_f64, uint64_t, uint64_t)

#define STORE_WIDE(type, register_type)                                                            \
	for (uint32_t left = w->mask; left; left &= left - 1) {                                    \
		int l = __builtin_ctz(left);                                                       \
		type v = (type)((const register_type *)s)[l];                                      \
                                                                                                   \
		memcpy(lane_at(&p, l, stride) + offset, &v, sizeof(v));                            \
	}

#define ST(name, type, register_type)                                                              \
	static void name##_any(struct warp *w, const struct insn *i)                               \
	{                                                                                          \
		unsigned n = vector_of(i), stride = n * (unsigned)sizeof(type);                    \
		struct place p;                                                                    \
                                                                                                   \
		if (!locate(w, i, stride, true, &p))                                               \
			return;                                                                    \
		for (unsigned k = 0; k < n; k++) {                                                 \
			unsigned offset = element_at(&p, k * (unsigned)sizeof(type));              \
			const void *s = operand(w, n > 1 ? w->words[i->extra + k] : i->d);         \
                                                                                                   \
			if (i->width == 64)                                                        \
				STORE_WIDE(type, uint64_t)                                         \
			else if (i->width == 32)                                                   \
				STORE_WIDE(type, uint32_t)                                         \
			else                                                                       \
				STORE_WIDE(type, register_type)                                    \
		}                                                                                  \
	}                                                                                          \
	void X(name)(struct warp * w, const struct insn *i)                                        \
	{                                                                                          \
		const register_type *s;                                                            \
		struct place p;                                                                    \
                                                                                                   \
		w->stored = true;                                                                  \
		if (i->width || i->aux & (AUX_V2 | AUX_V4)) {                                      \
			name##_any(w, i);                                                          \
			return;                                                                    \
		}                                                                                  \
		if (!locate(w, i, sizeof(type), true, &p))                                         \
			return;                                                                    \
		s = operand(w, i->d);                                                              \
		if (p.how == ONE_RUN && sizeof(type) == sizeof(register_type)) {                   \
			memcpy(p.first, s, LANES * sizeof(type));                                  \
		} else if (p.how == ONE_DATUM) {                                                   \
			type v = (type)s[31 - __builtin_clz(w->mask)];                             \
                                                                                                   \
			memcpy(p.first, &v, sizeof(v));                                            \
		} else {                                                                           \
			for (uint32_t left = w->mask; left; left &= left - 1) {                    \
				int l = __builtin_ctz(left);                                       \
				type v = (type)s[l];                                               \
                                                                                                   \
				memcpy(lane_at(&p, l, sizeof(type)), &v, sizeof(v));               \
			}                                                                          \
		}                                                                                  \
	}

ST(st_u8, uint8_t, uint16_t)
ST(st_u16, uint16_t, uint16_t)
ST(st_u32, uint32_t, uint32_t)
ST(st_u64, uint64_t, uint64_t)

static uint16_t half_sum(uint16_t a, uint16_t b, bool brain)
{
	double sum;

	if (brain) {
		sum = (double)bf16_to_f32(a) + (double)bf16_to_f32(b);
		return f32_to_bf16_round(odd_f32(sum), 0);
	}
	sum = (double)f16_to_f32(a) + (double)f16_to_f32(b);
	return f32_to_f16_round(odd_f32(sum), 0);
}

static uint64_t sum_of(unsigned type, uint64_t old, uint64_t b)
{
	bool brain = type == TYPE_BF16 || type == TYPE_BF16X2;

	switch (type) {
	case TYPE_F32:
		return bits_f32(canonical_f32(f32_of((uint32_t)old) + f32_of((uint32_t)b)));
	case TYPE_F64:
		return bits_f64(canonical_f64(f64_of(old) + f64_of(b)));
	case TYPE_F16:
	case TYPE_BF16:
		return half_sum((uint16_t)old, (uint16_t)b, brain);
	case TYPE_F16X2:
	case TYPE_BF16X2:
		return (uint32_t)half_sum((uint16_t)(old >> 16), (uint16_t)(b >> 16), brain) << 16 |
		       half_sum((uint16_t)old, (uint16_t)b, brain);
	default:
		return old + b;
	}
}

static bool is_less(unsigned type, uint64_t a, uint64_t b)
{
	switch (type) {
	case TYPE_S32:
		return (int32_t)a < (int32_t)b;
	case TYPE_S64:
		return (int64_t)a < (int64_t)b;
	default:
		return a < b;
	}
}

static uint64_t changed(unsigned argument, uint64_t old, uint64_t b, uint64_t c)
{
	unsigned type = argument & 0xff;

	switch ((enum code_atom)(argument >> 8)) {
	case ATOM_ADD:
		return sum_of(type, old, b);
	case ATOM_MIN:
		return is_less(type, b, old) ? b : old;
	case ATOM_MAX:
		return is_less(type, old, b) ? b : old;
	case ATOM_INC:
		return old >= b ? 0 : old + 1;
	case ATOM_DEC:
		return old == 0 || old > b ? b : old - 1;
	case ATOM_AND:
		return old & b;
	case ATOM_OR:
		return old | b;
	case ATOM_XOR:
		return old ^ b;
	case ATOM_CAS:
		return old == b ? c : old;
	case ATOM_EXCH:
	default:
		return b;
	}
}

/* Other grids, processes and the host may change the same word: their threads are real. */
#define ATOMIC(bits)                                                                               \
	static void atom_##bits(struct warp *w, const struct insn *i)                              \
	{                                                                                          \
		uint##bits##_t *d = i->d == OPERAND_NONE ? NULL : operand(w, i->d);                \
		const uint##bits##_t *b = operand(w, i->b);                                        \
		const uint##bits##_t *c = i->c == OPERAND_NONE ? b : operand(w, i->c);             \
		struct place p;                                                                    \
                                                                                                   \
		if (!locate(w, i, sizeof(*b), true, &p))                                           \
			return;                                                                    \
		for (uint32_t left = w->mask; left; left &= left - 1) {                            \
			int l = __builtin_ctz(left);                                               \
			uint##bits##_t *at = (void *)lane_at(&p, l, sizeof(*at)), new;             \
			uint##bits##_t old = __atomic_load_n(at, __ATOMIC_RELAXED), bv = b[l];     \
			uint##bits##_t cv = c[l];                                                  \
                                                                                                   \
			do                                                                         \
				new = (uint##bits##_t)changed(i->argument, old, bv, cv);           \
			while (!__atomic_compare_exchange_n(at, &old, new, false,                  \
							    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));  \
			if (d)                                                                     \
				d[l] = old;                                                        \
		}                                                                                  \
	}

ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void X(atom)(struct warp *w, const struct insn *i)
{
	unsigned bits;

	switch (i->argument & 0xff) {
	case TYPE_B16:
	case TYPE_F16:
	case TYPE_BF16:
		bits = 16;
		break;
	case TYPE_B64:
	case TYPE_U64:
	case TYPE_S64:
	case TYPE_F64:
		bits = 64;
		break;
	default:
		bits = 32;
		break;
	}
	w->polled = true;
	if (bits == 64)
		atom_64(w, i);
	else if (bits == 32)
		atom_32(w, i);
	else
		atom_16(w, i);
}

/* cp.async: at once, which is within what the ISA allows. The source is described by five words:
 * operand, offset (2), aux, how many of its bytes count (an operand; the rest is zeros). */
void X(copy_async)(struct warp *w, const struct insn *i)
{
	const uint32_t *words = w->words + i->extra;
	const uint32_t *counts = operand(w, words[4]);
	struct insn source = *i;
	struct place from, to;
	unsigned bytes = i->width;

	source.a = words[0];
	source.imm = (int64_t)((uint64_t)words[1] | (uint64_t)words[2] << 32);
	source.aux = words[3];
	if (!locate(w, &source, bytes, false, &from) || !locate(w, i, bytes, true, &to))
		return;
	for (uint32_t left = w->mask; left; left &= left - 1) {
		int l = __builtin_ctz(left);
		unsigned count = counts[l] < bytes ? counts[l] : bytes;
		uint8_t data[16] = {0};

		memcpy(data, lane_at(&from, l, bytes), count);
		memcpy(lane_at(&to, l, bytes), data, bytes);
	}
	w->stored = true;
}

/* An mbarrier: bits 0 to 19 how many are expected, 20 to 39 how many are missing, 63 its phase.
 * The state that an arrival returns is what was there before. */
#define MBARRIER_COUNT 0xfffffull
#define MBARRIER_PHASE (1ull << 63)

static uint64_t arrived(uint64_t was, uint64_t count, bool drop)
{
	uint64_t expected = was & MBARRIER_COUNT, missing = was >> 20 & MBARRIER_COUNT;
	uint64_t phase = was & MBARRIER_PHASE;

	if (drop)
		expected = (expected - count) & MBARRIER_COUNT;
	missing = (missing - count) & MBARRIER_COUNT;
	if (!missing) {
		missing = expected;
		phase ^= MBARRIER_PHASE;
	}
	return phase | missing << 20 | expected;
}

void X(mbarrier)(struct warp *w, const struct insn *i)
{
	enum code_mbarrier what = (enum code_mbarrier)i->argument;
	bool asks = what == MBARRIER_TEST || what == MBARRIER_PARITY;
	struct place p;

	if (!locate(w, i, 8, !asks, &p))
		return;
	for (uint32_t left = w->mask; left; left &= left - 1) {
		int l = __builtin_ctz(left);
		uint8_t *at = lane_at(&p, l, 8);
		uint64_t is, was, given;

		memcpy(&was, at, 8);
		given = what == MBARRIER_TEST ? ((const uint64_t *)operand(w, i->b))[l]
					      : ((const uint32_t *)operand(w, i->b))[l];
		is = what == MBARRIER_INIT    ? (given & MBARRIER_COUNT) * ((1ull << 20) + 1)
		     : what == MBARRIER_INVAL ? 0
					      : arrived(was, given, what == MBARRIER_DROP);
		if (what == MBARRIER_PARITY)
			given = given << 63;
		if (asks) {
			uint32_t *d = operand(w, i->d);
			bool over = ((was ^ given) & MBARRIER_PHASE) != 0;

			*d = (*d & ~(1u << l)) | (uint32_t)over << l;
			continue;
		}
		memcpy(at, &is, 8);
		if (i->d != OPERAND_NONE)
			((uint64_t *)operand(w, i->d))[l] = was;
	}
	w->polled |= asks;
	w->stored |= !asks;
}
