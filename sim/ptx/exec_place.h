/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the data of a warp's lanes are, of a load, a store or an atomic. Lanes often touch one run
 * of memory, or one datum: then there is one address instead of 32.
 *
 * What happens often is here, so that it is compiled into each instruction: calls made
 * BENCH=ptx-speed execute 6 % more.
 */
#pragma once

#include "sim/ptx/exec.h"
#include "sim/ptx/grid.h"

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

/* exec_place.c: what seldom happens. False: the warp has faulted. a: the lanes' addresses. */
bool X(one_by_one)(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
		   bool write, struct place *p);
bool X(in_local)(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
		 bool write, struct place *p);
bool X(in_params)(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
		  bool write, struct place *p);
void X(shared_fault)(struct warp *w, const struct insn *i, const uint64_t *v, unsigned bytes,
		     bool write);

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

/* differs: any bit in which an address is not the first; runs: ... in which it is not where a run
 * has it. */
static inline enum how how_they_lie(const struct warp *w, uint64_t differs, uint64_t runs)
{
	if (!differs)
		return ONE_DATUM;
	return !runs && w->mask == UINT32_MAX ? ONE_RUN : EACH_ITS_OWN;
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
		return X(one_by_one)(w, i, a, bytes, write, p);
	p->first = (uint8_t *)(uintptr_t)(first + r->host_delta);
	p->how = how_they_lie(w, differs, runs);
	if (p->how == EACH_ITS_OWN)
		for (int l = 0; l < LANES; l++)
			p->at[l] = (uint8_t *)(uintptr_t)(v[l] + r->host_delta);
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
		X(shared_fault)(w, i, v, bytes, write);
		return false;
	}
	p->first = w->shared + first;
	p->how = how_they_lie(w, differs, runs);
	if (p->how == EACH_ITS_OWN)
		for (int l = 0; l < LANES; l++)
			p->at[l] = w->shared + v[l];
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
		return X(in_local)(w, i, a, bytes, write, p);
	case SPACE_PARAM:
		/* Nearly always one constant address. */
		if (i->a >> 30 == BASE_CONSTANTS && !write && !(a[0] & (bytes - 1)) &&
		    a[0] <= w->grid->kernel->info.params_bytes &&
		    bytes <= w->grid->kernel->info.params_bytes - a[0]) {
			p->how = ONE_DATUM;
			p->first = w->grid->params + a[0];
			return true;
		}
		return X(in_params)(w, i, a, bytes, write, p);
	default:
		return in_device(w, i, a, bytes, write, p);
	}
}
