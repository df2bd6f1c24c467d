/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several texts become one module: names find their definitions, variables their offsets.
 *
 * Shared memory is laid out per kernel, from what the functions that it can reach use; a variable
 * that several kernels use has one offset in all of them.
 */
#include <stdarg.h>
#include <string.h>

#include "sim/ptx/grid.h"
#include "sim/ptx/module.h"

struct kernel_use {
	struct kernel_use *next;
	struct module_kernel *kernel;
};

struct linking {
	struct ptx_module *m;
	struct ptx_error *error;
	struct symbol **queue; /* functions to walk */
	uint32_t n_queue, queue_capacity;
	uint32_t walk;
	bool whole; /* one text: no other can define anything */
};

static int unresolved(struct linking *k, const struct symbol *s, const char *format, ...)
	printf_like(3, 4);
static int unresolved(struct linking *k, const struct symbol *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(k->error->text, sizeof(k->error->text), format, args);
	va_end(args);
	k->error->source = s->source;
	k->error->line = s->line;
	return PTX_UNRESOLVED;
}

static bool is_defined(const struct symbol *s)
{
	if (s->definition)
		return false;
	return s->kind == SYMBOL_FUNCTION ? s->function->defined : s->linkage != LINK_EXTERN;
}

static bool is_strong(const struct symbol *s)
{
	return s->linkage != LINK_WEAK && s->linkage != LINK_COMMON;
}

static int define(struct linking *k, struct symbol *s)
{
	size_t length = strlen(s->name);
	struct symbol *old = names_find(&k->m->globals, s->name, length);

	if (!old) {
		;
	} else if (old->kind != s->kind) {
		return unresolved(k, s, "%.200s is a function and a variable", s->name);
	} else if (is_strong(s) && is_strong(old)) {
		return unresolved(k, s, "%.200s is defined twice", s->name);
	} else if (!is_strong(old) &&
		   (is_strong(s) || (s->linkage == LINK_COMMON && s->size > old->size))) {
		old->definition = s;
	} else {
		s->definition = old;
		return 0;
	}
	return names_add(&k->m->globals, s->name, length, s) ? 0 : -ENOMEM;
}

static bool is_visible(const struct symbol *s)
{
	return s->linkage != LINK_STATIC || (s->function && s->function->is_entry);
}

/* Another text's definition, or a function of the host. */
static bool finds(struct linking *k, struct symbol *s)
{
	struct symbol *found = names_find(&k->m->globals, s->name, strlen(s->name));

	if (found && found->kind == s->kind &&
	    (s->kind == SYMBOL_FUNCTION || found->space == s->space)) {
		s->definition = found;
		return true;
	}
	if (s->kind != SYMBOL_FUNCTION)
		return false;
	s->function->host = host_find(s->name);
	return s->function->host != NULL;
}

/* Does anything need a definition of it? Shared memory without a size has it from the launch. */
static bool is_needed(const struct symbol *s)
{
	if (s->kind != SYMBOL_FUNCTION && s->space == SPACE_SHARED && s->unsized)
		return false;
	return s->referenced || (s->function && s->function->is_entry);
}

static int want(struct linking *k, struct symbol *s)
{
	if (s->definition || is_defined(s) || finds(k, s) || !is_needed(s))
		return 0;
	/* ptxas ignores .extern then; Taichi declares its shared arrays so. */
	if (k->whole && s->kind != SYMBOL_FUNCTION && !s->unsized) {
		s->linkage = LINK_VISIBLE;
		return define(k, s);
	}
	return unresolved(k, s, "%.200s is used, and no text defines it", s->name);
}

static int resolve(struct linking *k)
{
	int r;

	for (uint32_t i = 0; i < k->m->n_symbols; i++) {
		struct symbol *s = k->m->symbols[i];

		if (!is_visible(s) || !is_defined(s))
			continue;
		r = define(k, s);
		if (r)
			return r;
	}
	for (uint32_t i = 0; i < k->m->n_symbols; i++) {
		r = want(k, k->m->symbols[i]);
		if (r)
			return r;
	}
	return 0;
}

/* ---- data ---------------------------------------------------------------------------------- */

static bool lies_in_data(const struct symbol *s)
{
	return (s->space == SPACE_GLOBAL || s->space == SPACE_CONST) && is_defined(s);
}

static int lay_out_data(struct linking *k)
{
	struct ptx_module *m = k->m;
	struct symbol *forward = NULL;
	uint32_t n = 0;

	while (m->variables) { /* they were collected newest first */
		struct symbol *s = m->variables;

		m->variables = s->next;
		s->next = forward;
		forward = s;
	}
	m->variables = forward;
	m->data_align = 1;
	for (struct symbol *s = forward; s; s = s->next) {
		if (!lies_in_data(s))
			continue;
		m->data_bytes = (m->data_bytes + s->align - 1) & ~(s->align - 1);
		s->offset = m->data_bytes;
		m->data_bytes += s->size;
		if (s->align > m->data_align)
			m->data_align = s->align;
		if (s->space == SPACE_CONST)
			m->const_bytes += s->size;
		if (m->data_bytes > 1ull << 42)
			return unresolved(k, s, "the variables need too much memory");
		n++;
	}
	m->public_variables = arena_alloc(&m->arena, (n + 1) * sizeof(*m->public_variables));
	return m->public_variables ? 0 : -ENOMEM;
}

static int name_variables(struct linking *k)
{
	struct ptx_module *m = k->m;

	for (int visible = 0; visible < 2; visible++) {
		for (struct symbol *s = m->variables; s; s = s->next) {
			struct ptx_variable *v = &m->public_variables[m->n_public_variables];

			if (!lies_in_data(s) || is_visible(s) != visible)
				continue;
			*v = (struct ptx_variable){.name = s->name,
						   .offset = s->offset,
						   .size_bytes = s->size,
						   .constant = s->space == SPACE_CONST,
						   .managed = s->managed};
			m->n_public_variables++;
			if (!names_add(&m->variable_names, s->name, strlen(s->name), v))
				return -ENOMEM;
		}
	}
	return 0;
}

/* ---- shared memory ------------------------------------------------------------------------- */

static int use_shared(struct linking *k, struct module_kernel *kernel, struct symbol *s)
{
	struct kernel_use *use;

	if (s->visited == k->walk)
		return 0;
	s->visited = k->walk;
	if (!is_defined(s)) {
		kernel->uses_dynamic = true;
		return 0;
	}
	use = arena_alloc(&k->m->arena, sizeof(*use));
	if (!use || !arena_grow(&k->m->arena, (void **)&kernel->shared, &kernel->shared_capacity,
				sizeof(*kernel->shared), kernel->n_shared + 1))
		return -ENOMEM;
	use->kernel = kernel;
	use->next = s->kernels;
	s->kernels = use;
	kernel->shared[kernel->n_shared++] = s;
	return 0;
}

static int reach(struct linking *k, struct symbol *s)
{
	s = symbol_final(s);
	if (s->function->visited == k->walk)
		return 0;
	s->function->visited = k->walk;
	if (!arena_grow(&k->m->arena, (void **)&k->queue, &k->queue_capacity, sizeof(*k->queue),
			k->n_queue + 1))
		return -ENOMEM;
	k->queue[k->n_queue++] = s;
	return 0;
}

/* A call through a register may lead to any function. */
static int reach_all(struct linking *k)
{
	for (uint32_t i = 0; i < k->m->n_functions; i++) {
		int r = k->m->functions[i]->is_entry ? 0 : reach(k, k->m->functions[i]->symbol);

		if (r)
			return r;
	}
	return 0;
}

static int walk(struct linking *k, struct module_kernel *kernel)
{
	bool all = false;
	int r;

	k->walk++;
	k->n_queue = 0;
	r = reach(k, kernel->function->symbol);
	for (uint32_t at = 0; !r && at < k->n_queue; at++) {
		struct function *f = k->queue[at]->function;

		if (f->lacks && !kernel->info.lacks)
			kernel->info.lacks = f->lacks;
		for (uint32_t i = 0; !r && i < f->n_uses; i++) {
			struct symbol *s = symbol_final(f->uses[i]);

			r = s->kind == SYMBOL_FUNCTION ? reach(k, s) : use_shared(k, kernel, s);
		}
		if (!r && f->calls_unknown && !all) {
			all = true;
			r = reach_all(k);
		}
	}
	return r;
}

/* Is there anything that a kernel has by way of what it calls? */
static bool needs_walk(const struct ptx_module *m)
{
	for (struct symbol *s = m->variables; s; s = s->next)
		if (s->space == SPACE_SHARED)
			return true;
	for (uint32_t i = 0; i < m->n_functions; i++)
		if (m->functions[i]->lacks)
			return true;
	return false;
}

static int walk_all(struct linking *k)
{
	if ((uint64_t)k->m->n_kernels * k->m->n_functions > 1u << 26)
		return unresolved(k, k->m->kernels->function->symbol,
				  "there are too many kernels and functions");
	for (struct module_kernel *kernel = k->m->kernels; kernel; kernel = kernel->next) {
		int r = walk(k, kernel);

		if (r)
			return r;
	}
	return 0;
}

/* Behind what each of its kernels has so far: one offset that is free in all of them. */
static int place_shared(struct linking *k, struct symbol *s)
{
	uint64_t at = 0;

	for (struct kernel_use *u = s->kernels; u; u = u->next)
		if (u->kernel->info.shared_bytes > at)
			at = u->kernel->info.shared_bytes;
	at = (at + s->align - 1) & ~(s->align - 1);
	if (at + s->size > 1u << 30)
		return unresolved(k, s, "%.200s: too much shared memory", s->name);
	s->offset = at;
	s->laid_out = true;
	for (struct kernel_use *u = s->kernels; u; u = u->next)
		u->kernel->info.shared_bytes = (uint32_t)(at + s->size);
	return 0;
}

static int place_static(struct linking *k)
{
	for (struct module_kernel *kernel = k->m->kernels; kernel; kernel = kernel->next) {
		for (uint32_t i = 0; i < kernel->n_shared; i++) {
			struct symbol *s = kernel->shared[i];
			int r = s->laid_out ? 0 : place_shared(k, s);

			if (r)
				return r;
		}
	}
	return 0;
}

/* What a launch sizes begins at one offset in all kernels: behind the largest of them. */
static void place_dynamic(struct linking *k)
{
	uint64_t at = 0;

	for (struct module_kernel *kernel = k->m->kernels; kernel; kernel = kernel->next)
		if (kernel->uses_dynamic && kernel->info.shared_bytes > at)
			at = kernel->info.shared_bytes;
	at = (at + 127) & ~127ull;
	for (struct symbol *s = k->m->variables; s; s = s->next)
		if (s->space == SPACE_SHARED && !is_defined(s) && !s->definition)
			s->offset = at;
	for (struct module_kernel *kernel = k->m->kernels; kernel; kernel = kernel->next)
		kernel->dynamic_offset =
			kernel->uses_dynamic ? (uint32_t)at : kernel->info.shared_bytes;
}

static int lay_out_shared(struct linking *k)
{
	int r;

	if (!needs_walk(k->m))
		return 0;
	r = walk_all(k);
	if (!r)
		r = place_static(k);
	if (!r)
		place_dynamic(k);
	return r;
}

/* ---- kernels and calls --------------------------------------------------------------------- */

static uint32_t estimate(uint32_t words)
{
	uint32_t n = (16 + words / 4 + 7) & ~7u;

	return n > 128 ? 128 : n;
}

static int name_kernels(struct linking *k)
{
	struct ptx_module *m = k->m;
	uint32_t at = 0, n = 0;

	m->kernels_by_index = arena_alloc(&m->arena, (m->n_kernels + 1) * sizeof(void *));
	if (!m->kernels_by_index)
		return -ENOMEM;
	for (struct module_kernel *kernel = m->kernels; kernel; kernel = kernel->next)
		n += kernel->function->defined && !kernel->function->symbol->definition;
	m->n_kernels = n;
	for (struct module_kernel *kernel = m->kernels; kernel; kernel = kernel->next) {
		struct function *f = kernel->function;

		if (!f->defined || f->symbol->definition)
			continue;
		m->kernels_by_index[n - ++at] = kernel;
		kernel->info.local_bytes = f->local_bytes;
		kernel->info.const_bytes =
			(uint32_t)(m->const_bytes < UINT32_MAX ? m->const_bytes : UINT32_MAX);
		kernel->info.registers = estimate(f->words32);
		if (!names_add(&m->kernel_names, f->name, strlen(f->name), kernel))
			return -ENOMEM;
	}
	return 0;
}

int link_module(struct ptx_module *m, bool whole, struct ptx_error *ret_error)
{
	struct linking k = {.m = m, .error = ret_error, .whole = whole};
	int r = resolve(&k);

	if (!r)
		r = lay_out_data(&k);
	if (!r)
		r = name_variables(&k);
	if (!r)
		r = lay_out_shared(&k);
	if (!r)
		r = name_kernels(&k);
	for (uint32_t i = 0; !r && i < m->n_calls; i++) {
		struct function *f = symbol_final(m->call_symbols[i])->function;

		m->code[m->call_sites[i]].imm = f->index;
	}
	return r;
}
