/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads and stores: a loop for each type; lanes that touch one run of memory, or one datum, have
 * loops without addresses.
 */
#include "sim/ptx/exec.h"
#include "sim/ptx/exec_place.h"
#include "sim/ptx/exec_table.h"

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
