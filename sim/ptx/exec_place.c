/* SPDX-License-Identifier: Apache-2.0 */
/* What seldom happens to a warp's addresses: lanes that are apart, local memory, faults. */
#include "sim/ptx/exec_place.h"

bool X(one_by_one)(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
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

/* Raises the fault of the first lane that cannot be served. */
void X(shared_fault)(struct warp *w, const struct insn *i, const uint64_t *v, unsigned bytes,
		     bool write)
{
	uint64_t limit = w->shared_bytes >= bytes ? w->shared_bytes - bytes : 0;

	for (unsigned l = 0; l < LANES; l++) {
		bool misaligned = v[l] & (bytes - 1);

		if (v[l] <= limit && !misaligned && w->shared_bytes >= bytes)
			continue;
		mem_fault(w, i, misaligned ? PTX_FAULT_MISALIGNED : PTX_FAULT_ILLEGAL_ADDRESS,
			  PTX_WINDOW_SHARED + v[l], l, write);
		return;
	}
}

bool X(in_local)(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
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

bool X(in_params)(struct warp *w, const struct insn *i, const uint64_t *a, unsigned bytes,
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
