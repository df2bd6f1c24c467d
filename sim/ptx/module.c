/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/module.h"

#include <string.h>

#include "sim/ptx/grid.h"
#include "sim/ptx/read.h"

int ptx_module_new(const struct ptx_source *sources, size_t n_sources,
		   const struct ptx_options *options, struct ptx_module **ret_module,
		   struct ptx_error *ret_error)
{
	struct ptx_module *m;
	struct names pool;
	int r = 0;

	memset(ret_error, 0, sizeof(*ret_error));
	if (!n_sources || n_sources > UINT16_MAX)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->globals.arena = m->kernel_names.arena = m->variable_names.arena = &m->arena;
	pool = (struct names){.arena = &m->arena};
	for (size_t i = 0; !r && i < n_sources; i++)
		r = read_text(m, &sources[i], (uint32_t)i, options, &pool, ret_error);
	if (!r)
		r = link_module(m, n_sources == 1, ret_error);
	if (r) {
		ptx_module_free(m);
		return r;
	}
	*ret_module = m;
	return 0;
}

void ptx_module_free(struct ptx_module *module)
{
	if (!module)
		return;
	arena_free(&module->arena);
	free(module);
}

void ptx_module_data(const struct ptx_module *module, uint64_t *ret_bytes, uint64_t *ret_align)
{
	*ret_bytes = module->data_bytes;
	*ret_align = module->data_align;
}

uint64_t module_address(const struct ptx_module *module, struct symbol *symbol)
{
	symbol = symbol_final(symbol);
	if (symbol->kind == SYMBOL_FUNCTION)
		return PTX_WINDOW_FUNCTION + (uint64_t)symbol->function->index * 16;
	if (symbol->space == SPACE_SHARED)
		return symbol->offset;
	return module->base_address + symbol->offset;
}

struct function *module_function_at(const struct ptx_module *module, uint64_t address)
{
	uint64_t index = (address - PTX_WINDOW_FUNCTION) / 16;

	if (address < PTX_WINDOW_FUNCTION || address % 16 || index >= module->n_functions)
		return NULL;
	return module->functions[index];
}

static void place_constants(struct ptx_module *m)
{
	for (struct reference *ref = m->constant_references; ref; ref = ref->next) {
		uint64_t value = module_address(m, ref->symbol) + (uint64_t)ref->addend;

		for (unsigned l = 0; l < LANES; l++)
			memcpy(m->constants + ref->offset + l * ref->bytes, &value, ref->bytes);
	}
}

static void place_data(struct ptx_module *m, uint8_t *host)
{
	for (struct symbol *s = m->variables; s; s = s->next) {
		if ((s->space != SPACE_GLOBAL && s->space != SPACE_CONST) ||
		    s->linkage == LINK_EXTERN || s->definition)
			continue;
		if (s->initial_bytes)
			memcpy(host + s->offset, s->initial, s->initial_bytes);
		for (struct reference *ref = s->references; ref; ref = ref->next) {
			uint64_t value = module_address(m, ref->symbol) + (uint64_t)ref->addend;
			struct symbol *to = symbol_final(ref->symbol);

			if (ref->generic && to->kind == SYMBOL_VARIABLE &&
			    to->space == SPACE_SHARED)
				value += PTX_WINDOW_SHARED;
			if (ref->mask)
				value = (value & ref->mask) >> __builtin_ctzll(ref->mask);
			memcpy(host + s->offset + ref->offset, &value, ref->bytes);
		}
	}
}

int ptx_module_place(struct ptx_module *module, uint64_t base_address, void *host_view)
{
	if (module->placed || base_address & (module->data_align - 1) ||
	    (module->data_bytes && !host_view))
		return -EINVAL;
	module->base_address = base_address;
	if (module->data_bytes)
		memset(host_view, 0, module->data_bytes);
	place_data(module, host_view);
	place_constants(module);
	module->placed = true;
	return 0;
}

const struct ptx_variable *ptx_module_variable(const struct ptx_module *module, const char *name)
{
	return names_find(&module->variable_names, name, strlen(name));
}

const struct ptx_variable *ptx_module_variable_at(const struct ptx_module *module, size_t index)
{
	return index < module->n_public_variables ? &module->public_variables[index] : NULL;
}

const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, const char *name)
{
	const struct module_kernel *k = names_find(&module->kernel_names, name, strlen(name));

	return k ? &k->info : NULL;
}

const struct ptx_kernel *ptx_module_kernel_at(const struct ptx_module *module, size_t index)
{
	return index < module->n_kernels ? &module->kernels_by_index[index]->info : NULL;
}
