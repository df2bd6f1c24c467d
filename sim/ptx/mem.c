/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "sim/ptx/grid.h"

static const char *function_name(const struct ptx_module *m, const struct insn *i)
{
	uint32_t pc = (uint32_t)(i - m->code);

	for (uint32_t n = 0; n < m->n_functions; n++) {
		const struct function *f = m->functions[n];

		if (f->defined && pc >= f->start && pc - f->start < f->n_insns)
			return f->name;
	}
	return NULL;
}

/* Only the first fault of a grid is told. */
void mem_fault(struct warp *w, const struct insn *i, enum ptx_fault kind, uint64_t address,
	       unsigned lane, bool write)
{
	struct ptx_grid *g = w->grid;
	struct ptx_report *report = &g->report;
	struct thread_warp *t = thread_warp_of(w);

	w->faulted = true;
	if (report->fault != PTX_FAULT_NONE)
		return;
	report->fault = kind;
	report->fault_write = write;
	report->fault_address = address;
	report->fault_line = i->line;
	report->fault_source = i->source;
	report->fault_function = function_name(g->module, i);
	memcpy(report->fault_block, w->block->ctaid, sizeof(report->fault_block));
	for (int d = 0; d < 3; d++)
		memcpy(&report->fault_thread[d],
		       t->special[SPECIAL_TID_X + d] + lane * sizeof(uint32_t), sizeof(uint32_t));
}

static void remember(struct ptx_grid *g, const struct ptx_range *range)
{
	if (range->hi - range->lo < 64)
		return;
	if (g->n_ranges < RANGES)
		g->n_ranges++;
	memmove(g->ranges + 1, g->ranges, (g->n_ranges - 1) * sizeof(*g->ranges));
	g->ranges[0] = *range;
}

uint8_t *mem_global(struct warp *w, const struct insn *i, unsigned lane, uint64_t address,
		    unsigned bytes, bool write)
{
	struct ptx_grid *g = w->grid;
	struct ptx_range range = {0};

	for (uint32_t n = 0; n < g->n_ranges; n++) {
		const struct ptx_range *r = &g->ranges[n];

		if (address >= r->lo && address <= r->hi - bytes && (!write || r->writable))
			return (uint8_t *)(uintptr_t)(address + r->host_delta);
	}
	if (address >= PTX_WINDOWS || !g->env.find_range ||
	    g->env.find_range(g->env.context, address, &range) || address < range.lo ||
	    address >= range.hi || range.hi - address < bytes || (write && !range.writable)) {
		mem_fault(w, i, PTX_FAULT_ILLEGAL_ADDRESS, address, lane, write);
		return NULL;
	}
	remember(g, &range);
	return (uint8_t *)(uintptr_t)(address + range.host_delta);
}

uint8_t *mem_local(struct warp *w, const struct insn *i, unsigned lane, uint64_t offset,
		   unsigned bytes, bool write)
{
	if (offset & (bytes - 1)) {
		mem_fault(w, i, PTX_FAULT_MISALIGNED, PTX_WINDOW_LOCAL + offset, lane, write);
		return NULL;
	}
	if (offset > w->local_bytes || bytes > w->local_bytes - offset) {
		mem_fault(w, i, PTX_FAULT_ILLEGAL_ADDRESS, PTX_WINDOW_LOCAL + offset, lane, write);
		return NULL;
	}
	return w->local + mem_local_at((uint32_t)offset, lane);
}

uint8_t *mem_generic(struct warp *w, const struct insn *i, unsigned lane, uint64_t address,
		     unsigned bytes, bool write, bool *ret_local)
{
	const struct ptx_kernel *kernel = &w->grid->kernel->info;
	uint64_t offset = address & (PTX_WINDOW_SIZE - 1);

	*ret_local = false;
	if (likely(address < PTX_WINDOWS))
		return mem_global(w, i, lane, address, bytes, write);
	if (address & (bytes - 1)) {
		mem_fault(w, i, PTX_FAULT_MISALIGNED, address, lane, write);
		return NULL;
	}
	switch (address & ~(PTX_WINDOW_SIZE - 1)) {
	case PTX_WINDOW_SHARED:
		if (offset <= w->shared_bytes && bytes <= w->shared_bytes - offset)
			return w->shared + offset;
		break;
	case PTX_WINDOW_LOCAL:
		*ret_local = true;
		return mem_local(w, i, lane, offset, bytes, write);
	case PTX_WINDOW_PARAM:
		if (!write && offset <= kernel->params_bytes &&
		    bytes <= kernel->params_bytes - offset)
			return w->grid->params + offset;
		break;
	default:
		break;
	}
	mem_fault(w, i, PTX_FAULT_ILLEGAL_ADDRESS, address, lane, write);
	return NULL;
}

bool mem_local_reserve(struct thread_warp *t, uint32_t bytes)
{
	uint64_t capacity = t->local_capacity ? t->local_capacity : 64;
	uint8_t *grown;

	if (bytes > t->w.local_bytes)
		t->w.local_bytes = (bytes + 7) & ~7u;
	while (capacity < t->w.local_bytes)
		capacity *= 2;
	if (capacity == t->local_capacity)
		return true;
	grown = realloc(t->w.local, capacity * LANES);
	if (!grown)
		return false;
	memset(grown + t->local_capacity * LANES, 0, (capacity - t->local_capacity) * LANES);
	t->w.local = grown;
	t->local_capacity = capacity;
	return true;
}
