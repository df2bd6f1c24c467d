/* SPDX-License-Identifier: Apache-2.0 */
/* The current token, memory for what is read, and giving up. */
#include "sim/ptx/read.h"

#include <stdarg.h>

void read_fail(struct read *r, int outcome, const char *format, ...)
{
	struct ptx_error *e = r->error;
	va_list args;
	int n;

	e->source = r->source;
	e->line = r->token.line;
	n = snprintf(e->text, sizeof(e->text), "line %u of %s: ", e->line, r->source_name);
	if (n > 0 && (size_t)n < sizeof(e->text)) {
		va_start(args, format);
		vsnprintf(e->text + n, sizeof(e->text) - (size_t)n, format, args);
		va_end(args);
	}
	r->outcome = outcome;
	longjmp(r->gave_up, 1);
}

void read_unexpected(struct read *r, const char *wanted)
{
	if (r->token.kind == LEX_END)
		read_fail(r, PTX_INVALID, "the text ends where %s is expected", wanted);
	read_fail(r, PTX_INVALID, "\"%.*s\" where %s is expected",
		  r->token.length > 60 ? 60 : (int)r->token.length, r->token.text, wanted);
}

void *read_alloc(struct read *r, size_t bytes)
{
	void *p = arena_alloc(&r->module->arena, bytes);

	if (!p)
		read_fail(r, -ENOMEM, "no memory");
	return p;
}

void read_grow(struct read *r, void *array, uint32_t *capacity, size_t element, uint32_t needed)
{
	if (!arena_grow(&r->module->arena, array, capacity, element, needed))
		read_fail(r, -ENOMEM, "no memory");
}

void read_next(struct read *r)
{
	r->token = lex_next(&r->lex);
	if (r->token.kind == LEX_BAD)
		read_fail(r, PTX_INVALID, "\"%.*s\" is not PTX",
			  r->token.length > 60 ? 60 : (int)r->token.length, r->token.text);
}

bool read_at(struct read *r, const char *text)
{
	return r->token.kind != LEX_STRING && r->token.kind != LEX_END && lex_is(&r->token, text);
}

bool read_accept(struct read *r, const char *text)
{
	if (!read_at(r, text))
		return false;
	read_next(r);
	return true;
}

void read_expect(struct read *r, const char *text)
{
	char wanted[16];

	if (read_accept(r, text))
		return;
	snprintf(wanted, sizeof(wanted), "\"%s\"", text);
	read_unexpected(r, wanted);
}

struct lex_token read_name(struct read *r)
{
	struct lex_token t = r->token;

	if (t.kind != LEX_NAME)
		read_unexpected(r, "a name");
	read_next(r);
	return t;
}
