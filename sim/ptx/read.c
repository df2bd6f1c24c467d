/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/read.h"

#include <string.h>

static void version(struct read *r)
{
	struct lex_token t = r->token;
	uint32_t newest = r->options->ptx_version ? r->options->ptx_version : 88;
	double v;

	if (t.kind != LEX_FLOAT || t.width)
		read_unexpected(r, "a version such as 7.5");
	memcpy(&v, &t.value, sizeof(v));
	if (!(v >= 1 && v < 100))
		read_fail(r, PTX_INVALID, "there is no .version %.*s", (int)t.length, t.text);
	r->version = (uint32_t)(v * 10 + 0.5);
	if (r->version > newest)
		read_fail(r, PTX_TOO_NEW, ".version %.*s is newer than %u.%u, the driver's",
			  (int)t.length, t.text, newest / 10, newest % 10);
	read_next(r);
}

static bool begins(const struct lex_token *t, const char *prefix)
{
	size_t n = strlen(prefix);

	return t->length > n && !memcmp(t->text, prefix, n);
}

/* The number of sm_70, sm_90a or compute_80; 0: it is a word of another kind. */
static uint32_t architecture(struct read *r, const struct lex_token *t, bool *ret_alone)
{
	uint32_t number = 0, n = begins(t, "sm_") ? 3 : begins(t, "compute_") ? 8 : 0;

	if (!n)
		return 0;
	while (n < t->length && t->text[n] >= '0' && t->text[n] <= '9' && number < 10000)
		number = number * 10 + (uint32_t)(t->text[n++] - '0');
	if (!number || t->length - n > 1)
		read_fail(r, PTX_INVALID, "there is no .target %.*s", (int)t->length, t->text);
	*ret_alone = n < t->length && t->text[n] == 'a';
	return number;
}

/* sm_70, sm_90a, compute_80; texmode_independent, debug, map_f64_to_f32 */
static void target(struct read *r)
{
	do {
		struct lex_token t = read_name(r);
		bool alone = false;
		uint32_t number = architecture(r, &t, &alone);

		if (!number)
			continue;
		if (number > r->options->capability)
			read_fail(r, PTX_INVALID,
				  ".target %.*s is newer than the device, which is %u.%u",
				  (int)t.length, t.text, r->options->capability / 10,
				  r->options->capability % 10);
		if (alone && number != r->options->capability)
			read_fail(r, PTX_INVALID, ".target %.*s is for that device alone",
				  (int)t.length, t.text);
		r->target = number;
	} while (read_accept(r, ","));
}

static void skip_section(struct read *r)
{
	while (!read_at(r, "{") && r->token.kind != LEX_END)
		read_next(r);
	while (!read_at(r, "}") && r->token.kind != LEX_END)
		read_next(r);
	read_expect(r, "}");
}

/* The token after a line that ends without a semicolon. */
static void skip_line(struct read *r)
{
	lex_skip_line(&r->lex);
	read_next(r);
}

static struct function *function_of(struct read *r, const struct lex_token *name, bool entry,
				    enum symbol_linkage linkage)
{
	struct symbol *s = names_find(&r->statics, name->text, name->length);
	struct ptx_module *m = r->module;
	struct function *f;

	if (s && s->kind != SYMBOL_FUNCTION)
		read_fail(r, PTX_INVALID, "%s is declared twice", s->name);
	if (s) {
		if (linkage != LINK_STATIC && linkage != LINK_EXTERN)
			s->linkage = linkage;
		return s->function;
	}
	s = read_symbol_new(r, name, SYMBOL_FUNCTION);
	s->linkage = linkage;
	f = read_alloc(r, sizeof(*f));
	f->name = s->name;
	f->symbol = s;
	f->is_entry = entry;
	f->index = m->n_functions;
	f->source = r->source;
	s->function = f;
	read_grow(r, &m->functions, &m->functions_capacity, sizeof(struct function *),
		  m->n_functions + 1);
	m->functions[m->n_functions++] = f;
	read_add(r, name, s);
	return f;
}

/* ---- functions ----------------------------------------------------------------------------- */

static void kernel_params(struct read *r, struct module_kernel *k)
{
	struct formals *f = &k->function->formals;
	struct ptx_param *params = read_alloc(r, (f->n_params + 1) * sizeof(*params));
	uint64_t at = 0;

	for (uint32_t i = 0; i < f->n_params; i++) {
		uint32_t align = f->params[i].align;

		at = (at + align - 1) & ~(uint64_t)(align - 1);
		params[i] = (struct ptx_param){(uint32_t)at, f->params[i].size, align};
		at += f->params[i].size;
		if (at > 1 << 16)
			read_fail(r, PTX_INVALID, "%s has too many bytes of parameters",
				  k->info.name);
	}
	k->info.params = params;
	k->info.n_params = f->n_params;
	k->info.params_bytes = (uint32_t)at;
}

static struct module_kernel *kernel_new(struct read *r, struct function *f)
{
	struct module_kernel *k = read_alloc(r, sizeof(*k));

	k->function = f;
	k->info.name = f->name;
	k->info.module = r->module;
	k->info.max_threads = 1024;
	k->info.ptx_version = r->version;
	k->info.target = r->target;
	k->next = r->module->kernels;
	r->module->kernels = k;
	r->module->n_kernels++;
	f->kernel = k;
	return k;
}

/* Everything before the semicolon of a declaration or the body of a definition. */
static struct function *declaration(struct read *r, bool entry, enum symbol_linkage linkage)
{
	struct formals formals = {0};
	struct module_kernel *k;
	struct lex_token name;
	struct function *f;

	if (!entry && read_at(r, "("))
		read_formals(r, &formals, true);
	name = read_name(r);
	if (read_at(r, "("))
		read_formals(r, &formals, false);
	f = function_of(r, &name, entry, linkage);
	if (f->is_entry != entry)
		read_fail(r, PTX_INVALID, "%s is declared twice", f->name);
	k = entry && !f->kernel ? kernel_new(r, f) : f->kernel;
	if (!f->defined)
		f->formals = formals;
	if (k)
		kernel_params(r, k);
	while (read_tuning(r, k ? k : &(struct module_kernel){0}))
		;
	return f;
}

static void function(struct read *r, bool entry, enum symbol_linkage linkage)
{
	struct function *f = declaration(r, entry, linkage);

	if (read_accept(r, ";")) {
		if (linkage == LINK_STATIC && !f->defined && entry)
			f->symbol->linkage = LINK_VISIBLE;
		return;
	}
	if (f->defined)
		read_fail(r, PTX_INVALID, "%s is defined twice", f->name);
	if (f->symbol->linkage == LINK_EXTERN)
		f->symbol->linkage = linkage == LINK_EXTERN ? LINK_VISIBLE : linkage;
	f->defined = true;
	f->source = r->source;
	read_body(r, f);
}

static void alias(struct read *r)
{
	struct lex_token name = read_name(r), other;
	struct symbol *s = names_find(&r->statics, name.text, name.length), *to;

	read_expect(r, ",");
	other = read_name(r);
	read_expect(r, ";");
	to = names_find(&r->statics, other.text, other.length);
	if (!s || !to || s->kind != SYMBOL_FUNCTION || to->kind != SYMBOL_FUNCTION ||
	    s->function->defined || s == to || to->definition)
		read_fail(r, PTX_INVALID, ".alias needs a declared and a defined function");
	s->definition = to;
}

/* ---- the text ------------------------------------------------------------------------------ */

static void skip_pragma(struct read *r)
{
	while (!read_at(r, ";") && r->token.kind != LEX_END)
		read_next(r);
	read_expect(r, ";");
}

static void address_size(struct read *r)
{
	if (read_count(r, 64, ".address_size") != 64)
		read_fail(r, PTX_INVALID, "only .address_size 64 is simulated");
}

/* A directive that declares nothing that another text could see. */
static bool plain_directive(struct read *r)
{
	static const struct {
		const char *word;
		void (*read)(struct read *r);
	} directives[] = {
		{".alias", alias},     {".pragma", skip_pragma}, {".section", skip_section},
		{".version", version}, {".target", target},	 {".address_size", address_size},
	};

	for (size_t i = 0; i < ARRAY_SIZE(directives); i++) {
		if (read_accept(r, directives[i].word)) {
			directives[i].read(r);
			return true;
		}
	}
	if (!read_at(r, ".file") && !read_at(r, ".loc"))
		return false;
	skip_line(r);
	return true;
}

/* The last one counts, if there are several. */
static enum symbol_linkage read_linkage(struct read *r)
{
	static const struct {
		const char *word;
		enum symbol_linkage linkage;
	} words[] = {
		{".visible", LINK_VISIBLE},
		{".extern", LINK_EXTERN},
		{".weak", LINK_WEAK},
		{".common", LINK_COMMON},
	};
	enum symbol_linkage linkage = LINK_STATIC;
	size_t i = 0;

	while (i < ARRAY_SIZE(words)) {
		if (read_accept(r, words[i].word)) {
			linkage = words[i].linkage;
			i = 0;
		} else {
			i++;
		}
	}
	return linkage;
}

static void top_level(struct read *r)
{
	enum symbol_linkage linkage = read_linkage(r);
	enum code_space space;

	if (read_accept(r, ".entry")) {
		function(r, true, linkage);
	} else if (read_accept(r, ".func")) {
		function(r, false, linkage);
	} else if (read_at(r, ".param")) {
		read_unexpected(r, "a declaration");
	} else if (read_space(r, &space)) {
		if (space == SPACE_LOCAL)
			read_fail(r, PTX_INVALID, ".local outside of a function is not simulated");
		read_variables(r, space, linkage);
	} else if (plain_directive(r)) {
		;
	} else if (r->token.kind == LEX_DOT) {
		read_fail(r, PTX_INVALID, "%.*s is not simulated",
			  r->token.length > 60 ? 60 : (int)r->token.length, r->token.text);
	} else {
		read_unexpected(r, "a directive");
	}
}

static void text(struct read *r)
{
	read_next(r);
	if (!read_at(r, ".version"))
		read_unexpected(r, ".version");
	while (r->token.kind != LEX_END) {
		top_level(r);
		r->expression_depth = 0;
		if (!r->target && !read_at(r, ".target") && r->token.kind != LEX_END &&
		    !read_at(r, ".address_size"))
			read_unexpected(r, ".target");
	}
	if (!r->target)
		read_fail(r, PTX_INVALID, "there is no .target");
}

extern code_fn *const ptx_base_functions[];
code_fn ptx_base_mov;
code_fn *ptx_base_cvt_for(unsigned to, unsigned from, uint32_t aux);
#if PTX_HAVE_V3
extern code_fn *const ptx_v3_functions[];
code_fn ptx_v3_mov;
code_fn *ptx_v3_cvt_for(unsigned to, unsigned from, uint32_t aux);
#endif

static void choose_functions(struct read *r)
{
	r->functions = ptx_base_functions;
	r->cvt_for = ptx_base_cvt_for;
	r->mov = ptx_base_mov;
#if PTX_HAVE_V3
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
		r->functions = ptx_v3_functions;
		r->cvt_for = ptx_v3_cvt_for;
		r->mov = ptx_v3_mov;
	}
#endif
}

static size_t length_of(const struct ptx_source *source)
{
	const char *end;

	if (!source->bytes)
		return strlen(source->text);
	end = memchr(source->text, '\0', source->bytes);
	return end ? (size_t)(end - source->text) : source->bytes;
}

/* For link.c: what the other texts can see, and what they have to define. */
static void publish(struct read *r)
{
	struct ptx_module *m = r->module;

	for (uint32_t i = 0; i < r->statics.n_buckets; i++) {
		for (struct names_entry *e = r->statics.buckets[i]; e; e = e->next) {
			struct symbol *s = e->value;

			if (s->kind != SYMBOL_VARIABLE && s->kind != SYMBOL_FUNCTION)
				continue;
			read_grow(r, &m->symbols, &m->symbols_capacity, sizeof(s),
				  m->n_symbols + 1);
			m->symbols[m->n_symbols++] = s;
		}
	}
}

int read_text(struct ptx_module *module, const struct ptx_source *source, uint32_t index,
	      const struct ptx_options *options, struct names *pool, struct ptx_error *ret_error)
{
	struct read r = {
		.module = module,
		.options = options,
		.error = ret_error,
		.source = index,
		.source_name = source->name ? source->name : "the PTX text",
		.statics.arena = &module->arena,
		.lex = {.at = source->text, .end = source->text + length_of(source), .line = 1},
	};

	r.forms.arena = &r.scratch;
	r.pool = pool;
	choose_functions(&r);
	if (setjmp(r.gave_up) == 0) {
		text(&r);
		publish(&r);
	}
	arena_free(&r.scratch);
	return r.outcome;
}
