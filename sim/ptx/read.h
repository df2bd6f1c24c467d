/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading one PTX text into a module. read.c: what stands outside of functions; data.c: variables
 * and constant expressions; body.c and body_names.c: functions; lower.c: an instruction's operands.
 *
 * A reader gives up by read_fail(), which jumps to where reading began: everything that it has made
 * is in the module's arena, so nothing is lost by that.
 */
#pragma once

#include <setjmp.h>

#include "sim/ptx/form.h"
#include "sim/ptx/lex.h"
#include "sim/ptx/module.h"

struct label {
	struct label *next; /* of the same name */
	uint32_t scope, at;
};

struct label_use {
	struct label_use *next;
	const char *name;
	uint32_t length, scope, line;
	bool in_words;	/* the target goes there, or is the imm ... */
	uint32_t index; /* ... of this instruction */
};

struct known_form {
	int outcome;
	struct form form;
};

struct body {
	struct function *function;
	struct names names;  /* registers and variables of the function */
	struct names labels; /* name -> struct label */
	struct label_use *uses;
	struct names_entry **entries; /* of all open scopes, to be removed when they close */
	uint32_t n_entries, entries_capacity;
	uint32_t *scope_parents, n_scopes, scopes_capacity;
	uint32_t scope, depth;
	uint32_t predicate_at, predicates_left;
};

struct read {
	struct ptx_module *module;
	const struct ptx_options *options;
	struct ptx_error *error;
	jmp_buf gave_up;
	int outcome;
	struct lex lex;
	struct lex_token token; /* the current one */
	uint32_t source;
	const char *source_name;
	uint32_t version, target;
	bool wide_addresses;
	struct names statics;	   /* name -> struct symbol: all that this text has declared */
	struct names forms;	   /* instruction name -> struct known_form */
	struct names *pool;	   /* constants that exist, by (value, width, symbol) */
	struct body *body;	   /* NULL outside */
	struct arena scratch;	   /* lives as long as this text is read */
	code_fn *const *functions; /* of this machine */
	code_fn *(*cvt_for)(unsigned to, unsigned from, uint32_t aux);
	code_fn *mov;
	uint32_t expression_depth;
};

must_check int read_text(struct ptx_module *module, const struct ptx_source *source, uint32_t index,
			 const struct ptx_options *options, struct names *pool,
			 struct ptx_error *ret_error);

void read_fail(struct read *r, int outcome, const char *format, ...) printf_like(3, 4) noreturn_;
void read_unexpected(struct read *r, const char *wanted) noreturn_;
void *read_alloc(struct read *r, size_t bytes);
void read_grow(struct read *r, void *array, uint32_t *capacity, size_t element, uint32_t needed);

/* Tokens: read_tokens.c. */
void read_next(struct read *r);
bool read_at(struct read *r, const char *text);	    /* is it this one? */
bool read_accept(struct read *r, const char *text); /* if so, go on */
void read_expect(struct read *r, const char *text);
struct lex_token read_name(struct read *r);

/* read_tuning.c */
/* Reads a directive of performance; false: there is none here. */
bool read_tuning(struct read *r, struct module_kernel *k);

/* data.c */
int64_t read_integer(struct read *r); /* a constant expression */
uint64_t read_count(struct read *r, uint64_t most, const char *what);
uint32_t read_names_count(struct read *r);
enum code_type read_type(struct read *r);
bool read_space(struct read *r, enum code_space *ret_space);
/* After the state space: `.align 8 .b8 name[4] = {...}, ...;` up to the semicolon. */
void read_variables(struct read *r, enum code_space space, enum symbol_linkage linkage);
struct symbol *read_find(struct read *r, const char *name, size_t length);
void read_add(struct read *r, const struct lex_token *name, struct symbol *symbol);
struct symbol *read_symbol_new(struct read *r, const struct lex_token *name, enum symbol_kind kind);

/* body.c */
void read_body(struct read *r, struct function *function);
void body_use_label(struct read *r, const struct lex_token *name, bool in_words, uint32_t index);
uint32_t body_emit(struct read *r, const struct insn *insn);
uint32_t body_words(struct read *r, uint32_t n); /* zeroed; returns where they begin */
void body_uses(struct read *r, struct symbol *symbol);

/* body_names.c */
struct symbol *body_register(struct read *r, const char *name, size_t length);
uint32_t body_register_new(struct read *r, unsigned width);
void body_registers(struct read *r); /* after .reg, up to the semicolon */
void body_local(struct read *r, struct symbol *symbol);
struct formals *read_formals(struct read *r, struct formals *formals, bool results);
/* Declares them as names of the function; params: a kernel's, with their offsets; NULL: others. */
void body_formals(struct read *r, struct formal *list, uint32_t n, const struct ptx_param *params);
void body_open_scope(struct read *r);
/* Forgets all names that were added since there were n_entries of them. */
void body_close_scope(struct read *r, uint32_t n_entries);

/* lower.c */
/* The current token is what follows the opcode's first word. */
void lower_instruction(struct read *r, const struct lex_token *opcode, uint32_t guard,
		       bool guard_not);
