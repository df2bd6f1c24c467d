/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instruction: its name becomes a row of ptx.def, its operands what the row's function reads.
 */
#include "sim/ptx/lower.h"

#include <string.h>

void lower_fail(struct lowering *o, const char *what)
{
	read_fail(o->r, PTX_INVALID, "%s: %s", o->name, what);
}

static unsigned letter_width(char letter)
{
	switch (letter) {
	case 'h':
	case 'e':
		return 16;
	case 'l':
	case 'd':
		return 64;
	case 'p':
	case 'P':
		return 1;
	default:
		return 32;
	}
}

static void put_source(struct insn *i, unsigned index, uint32_t operand, bool negated)
{
	static const uint32_t nots[] = {AUX_NOT_A, AUX_NOT_B, AUX_NOT_C, 0};
	uint32_t *slots[] = {&i->a, &i->b, &i->c, &i->f};

	*slots[index] = operand;
	if (negated)
		i->aux |= nots[index];
}

static void lower_results(struct lowering *o, const char **letters)
{
	const char *l = *letters;
	bool pair = l[1] == '|';
	struct argument a;

	lower_read(o, &a);
	o->insn.d = lower_result(o, &a, letter_width(l[0]), pair);
	l++;
	if (pair) {
		if (read_accept(o->r, "|")) {
			lower_read(o, &a);
			o->insn.e = lower_result(o, &a, letter_width(l[1]), true);
		}
		l += 2;
	}
	if (l[0] != '=')
		lower_fail(o, "has a row with operands that lower.c does not know");
	l++;
	*letters = l;
}

static void one_source(struct lowering *o, char letter, const struct argument *a, unsigned index)
{
	switch (letter) {
	case 'p':
	case 'P':
		if (a->negated && letter == 'p')
			lower_fail(o, "takes no negated predicate");
		put_source(&o->insn, index, lower_predicate(o, a), a->negated);
		break;
	case 's':
		o->insn.f = lower_scalar(o, a, 32, false);
		break;
	default:
		if (a->negated)
			lower_fail(o, "negates something that is not a predicate");
		put_source(&o->insn, index,
			   lower_scalar(o, a, letter_width(letter), strchr("fd", letter) != NULL),
			   false);
		break;
	}
}

static void lower_sources(struct lowering *o, const char *letters)
{
	struct argument arguments[ARGUMENTS_MOST];
	unsigned n = 0, required = 0, used = 0, index = 0;
	bool memory = *letters == 'm';

	if (memory) {
		lower_memory(o);
		letters++;
		index++;
		if (*letters)
			read_expect(o->r, ",");
	}
	while (!read_at(o->r, ";") && n < ARGUMENTS_MOST) {
		lower_read(o, &arguments[n++]);
		if (!read_accept(o->r, ","))
			break;
	}
	for (const char *l = letters; *l; l++)
		required += *l != '?' && l[1] != '?';
	for (const char *l = letters; *l; l++, index++) {
		bool optional = l[1] == '?';

		if (optional && n - used <= required) {
			l++;
			continue;
		}
		if (used == n)
			lower_fail(o, "has too few operands");
		one_source(o, *l, &arguments[used++], index);
		required -= !optional;
		l += optional;
	}
	if (used < n)
		lower_fail(o, "has too many operands");
}

static void lower_operands(struct lowering *o)
{
	static const struct {
		const char *word;
		void (*lower)(struct lowering *o);
	} words[] = {
		{"mov", lower_mov},	    {"mov.v", lower_mov_vector},
		{"cvta", lower_cvta},	    {"cvt", lower_cvt},
		{"ld", lower_ld},	    {"st", lower_st},
		{"label", lower_bra},	    {"brx", lower_brx},
		{"call", lower_call},	    {"mma", lower_mma},
		{"copy", lower_copy_async}, {"mbarrier", lower_mbarrier},
	};
	const char *letters = o->form.row->operands;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!strcmp(letters, words[i].word)) {
			words[i].lower(o);
			return;
		}
	}
	if (!strcmp(letters, "atom") || !strcmp(letters, "red")) {
		lower_atom(o, letters[0] == 'a');
		return;
	}
	if (strchr(letters, '=')) {
		lower_results(o, &letters);
		if (*letters)
			read_expect(o->r, ",");
	}
	lower_sources(o, letters);
}

/* Programs that use surfaces have other kernels as well. */
static bool is_surface(const char *name)
{
	return !strncmp(name, "sust.", 5) || !strncmp(name, "suld.", 5) ||
	       !strncmp(name, "sured.", 6) || !strncmp(name, "suq.", 4);
}

/* A trap takes its place, and is never reached, because the kernel cannot be launched. */
static void lower_lacking(struct lowering *o)
{
	struct function *f = o->r->body->function;
	size_t bytes = strlen(o->name) + 1;

	if (!f->lacks) {
		char *name = read_alloc(o->r, bytes);

		memcpy(name, o->name, bytes);
		f->lacks = name;
	}
	while (!read_at(o->r, ";")) {
		if (o->r->token.kind == LEX_END)
			read_unexpected(o->r, "';'");
		read_next(o->r);
	}
	if (form_find("trap", 4, &o->form))
		lower_fail(o, "is not simulated");
}

/* The whole name, from the opcode and the words that follow it. */
static void name_read(struct lowering *o, const struct lex_token *opcode)
{
	struct read *r = o->r;
	struct known_form *known;
	size_t n = opcode->length;

	if (n >= NAME_MOST)
		read_fail(r, PTX_INVALID, "%.60s... is no instruction", opcode->text);
	memcpy(o->name, opcode->text, n);
	while (r->token.kind == LEX_DOT) {
		if (n + r->token.length >= NAME_MOST)
			read_fail(r, PTX_INVALID, "%.60s... is no instruction", opcode->text);
		memcpy(o->name + n, r->token.text, r->token.length);
		n += r->token.length;
		read_next(r);
	}
	o->name[n] = '\0';
	known = names_find(&r->forms, o->name, n);
	if (!known) {
		known = arena_alloc(&r->scratch, sizeof(*known));
		if (!known)
			read_fail(r, -ENOMEM, "no memory");
		known->outcome = form_find(o->name, n, &known->form);
		if (!names_add(&r->forms, o->name, n, known))
			read_fail(r, -ENOMEM, "no memory");
	}
	if (known->outcome && is_surface(o->name)) {
		lower_lacking(o);
		return;
	}
	if (known->outcome)
		read_fail(r, PTX_INVALID, "%s is not simulated", o->name);
	o->form = known->form;
}

/* set: the first type is the result's; GCC writes it before the comparison. */
static void set_result(struct lowering *o)
{
	if (strncmp(o->name, "set.", 4) != 0)
		return;
	if (o->form.n_types != 2)
		lower_fail(o, "needs two types");
	if (o->form.types[0] == TYPE_F32)
		o->insn.aux |= AUX_FLOAT_RESULT;
}

void lower_instruction(struct read *r, const struct lex_token *opcode, uint32_t guard,
		       bool guard_not)
{
	struct lowering o = {.r = r};

	name_read(&o, opcode);
	o.insn = (struct insn){
		.run = r->functions[o.form.row - form_rows],
		.guard = guard,
		.guard_not = guard_not,
		.kind = o.form.row->kind,
		.argument = o.form.row->argument,
		.d = OPERAND_NONE,
		.e = OPERAND_NONE,
		.a = OPERAND_NONE,
		.b = OPERAND_NONE,
		.c = OPERAND_NONE,
		.f = OPERAND_NONE,
		.aux = o.form.aux,
		.line = opcode->line,
		.source = (uint16_t)r->source,
	};
	if (o.form.n_types)
		o.type = (enum code_type)o.form.types[o.form.n_types - 1];
	lower_operands(&o);
	set_result(&o);
	read_expect(r, ";");
	body_emit(r, &o.insn);
}
