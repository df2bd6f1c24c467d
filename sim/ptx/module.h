/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A linked module: its code, constants, variables and kernels. Everything lies in its arena.
 */
#pragma once

#include "sim/ptx/arena.h"
#include "sim/ptx/code.h"

enum symbol_kind {
	SYMBOL_VARIABLE, /* .global .const .shared .local, and .param of calls */
	SYMBOL_PARAM,	 /* of a kernel */
	SYMBOL_FUNCTION,
	SYMBOL_REGISTER,
	SYMBOL_RANGE, /* %r<100>: registers are made when they are first used */
	SYMBOL_PROTOTYPE,
	SYMBOL_TARGETS, /* .branchtargets, .calltargets */
};

enum symbol_linkage { LINK_STATIC, LINK_VISIBLE, LINK_EXTERN, LINK_WEAK, LINK_COMMON };

struct symbol;

/* A place in initial data, or a constant, that holds an address. */
struct reference {
	struct reference *next;
	struct symbol *symbol;
	int64_t addend;
	uint64_t offset; /* in the initial data; of the first lane in the constants */
	uint8_t bytes;
	uint64_t mask; /* 0xFF(name): which byte; 0: all of it */
	bool generic;
};

struct symbol {
	enum symbol_kind kind;
	enum symbol_linkage linkage;
	enum code_space space;
	enum code_type type;
	const char *name;
	struct symbol *definition; /* what an .extern one came to mean */
	struct symbol *next;	   /* the module's list of variables */
	uint64_t size, align, offset;
	uint8_t elements; /* of a vector: 2 or 4; else 0 */
	uint8_t width;	  /* of a register; 1 for a predicate */
	bool unsized;	  /* [] without an initial value */
	bool managed, referenced;
	bool is_array;
	uint32_t operand; /* of a register */
	uint32_t count;	  /* of a range */
	uint32_t source, line;
	struct function *function;
	struct formals *formals;   /* of a prototype */
	struct symbol *parts;	   /* a vector register's elements; a range's members, by next */
	struct symbol *hides;	   /* the range of the same name around it, while it is hidden */
	struct names_entry *entry; /* of a range's member */
	uint8_t *initial;
	uint32_t initial_bytes, initial_capacity;
	struct reference *references;
	uint32_t words_at, n_targets; /* of .branchtargets: instruction addresses in the words */
	uint32_t visited;	      /* by which kernel's walk (link.c) */
	bool laid_out;
	struct kernel_use *kernels; /* of a .shared one */
};

/* A parameter or result as a function sees its own. */
struct formal {
	bool in_register;
	uint8_t width; /* of the register */
	uint32_t operand;
	uint32_t offset, size,
		align;	  /* in the frame's local memory, or of the kernel's parameters */
	const char *name; /* in the text; only while it is read */
	uint32_t name_length, line;
	enum code_type type;
	bool is_array;
};

struct formals {
	struct formal *results, *params;
	uint32_t n_results, n_params;
};

/* One argument or result of a call, in the module's words. */
enum { CALL_IN_REGISTER = 1u << 31 };
struct call_value {
	uint32_t where; /* operand, or offset in the frame */
	uint32_t size;	/* bytes; CALL_IN_REGISTER with the width in bits */
};

struct host_function;

struct function {
	const char *name;
	struct symbol *symbol;
	bool is_entry, defined;
	uint32_t index;
	uint32_t start, n_insns;
	uint32_t frame_bytes; /* registers */
	uint32_t local_bytes; /* variables and parameters */
	uint32_t words32;     /* how many 32-bit registers its registers make */
	struct formals formals;
	struct module_kernel *kernel;
	const struct host_function *host;
	struct symbol **uses; /* .shared variables and functions */
	uint32_t n_uses, uses_capacity;
	bool calls_unknown;
	const char *lacks; /* the first instruction that loads, and cannot be run */
	uint32_t visited;
	uint32_t source;
};

struct cost {
	struct cost *next;
	bool bytes, times_param;
	uint32_t param;
	uint64_t value;
};

struct module_kernel {
	struct ptx_kernel info; /* first */
	struct function *function;
	struct cost *costs;
	uint32_t dynamic_offset; /* where the launch's shared memory begins */
	struct symbol **shared;
	uint32_t n_shared, shared_capacity;
	bool uses_dynamic;
	struct module_kernel *next;
};

struct ptx_module {
	struct arena arena;
	struct insn *code;
	uint32_t n_code, code_capacity;
	uint32_t *words;
	uint32_t n_words, words_capacity;
	uint8_t *constants;
	uint32_t constants_bytes, constants_capacity;
	struct reference *constant_references;
	struct function **functions;
	uint32_t n_functions, functions_capacity;
	struct symbol **symbols; /* what texts show each other, and what they want to see */
	uint32_t n_symbols, symbols_capacity;
	struct symbol
		*variables; /* .global and .const and .shared of the module and its functions */
	struct module_kernel *kernels, **kernels_by_index;
	uint32_t n_kernels;
	struct ptx_variable *public_variables;
	uint32_t n_public_variables;
	struct names globals;	   /* name -> struct symbol of what other texts can see */
	struct names kernel_names; /* name -> struct module_kernel */
	struct names variable_names;
	uint64_t data_bytes, data_align, const_bytes, base_address;
	uint32_t *call_sites; /* instructions that call a symbol: fixed by link.c */
	struct symbol **call_symbols;
	uint32_t n_calls, calls_capacity, call_symbols_capacity;
	bool placed;
};

static inline struct symbol *symbol_final(struct symbol *s)
{
	for (int steps = 0; s->definition && steps < 8; steps++)
		s = s->definition;
	return s;
}

/* What a symbol's address is in its own state space, once the module is placed. */
uint64_t module_address(const struct ptx_module *module, struct symbol *symbol);
struct function *module_function_at(const struct ptx_module *module, uint64_t address);

/* link.c: after all texts are read; `whole` if it was one. */
must_check int link_module(struct ptx_module *module, bool whole, struct ptx_error *ret_error);
