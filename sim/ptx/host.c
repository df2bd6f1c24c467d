/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that a device's library provides to PTX that declares them: malloc, free, vprintf,
 * __assertfail and cudaGraphSetConditional.
 */
#include <inttypes.h>
#include <string.h>

#include "sim/ptx/grid.h"

enum { TEXT_MOST = 4096, FORMAT_MOST = 1024, ARGUMENTS = 5 };

struct host_call {
	struct warp *w;
	const struct insn *insn;
	unsigned lane;
	uint64_t arguments[ARGUMENTS];
	uint64_t result;
};

struct host_function {
	const char *name;
	void (*run)(struct host_call *c);
};

static uint8_t byte_at(struct host_call *c, uint64_t address)
{
	bool local;
	const uint8_t *at = mem_generic(c->w, c->insn, c->lane, address, 1, false, &local);

	return at ? *at : 0;
}

static void string_at(struct host_call *c, uint64_t address, char *text, size_t size)
{
	size_t n = 0;

	for (; n + 1 < size && !c->w->faulted; n++) {
		text[n] = (char)byte_at(c, address + n);
		if (!text[n])
			return;
	}
	text[n] = '\0';
}

static void print(struct host_call *c, const char *text, size_t bytes)
{
	const struct ptx_environment *env = &c->w->grid->env;

	if (env->print && bytes)
		env->print(env->context, text, bytes);
}

static void run_malloc(struct host_call *c)
{
	const struct ptx_environment *env = &c->w->grid->env;

	c->result = env->heap_alloc && c->arguments[0]
			    ? env->heap_alloc(env->context, c->arguments[0])
			    : 0;
	/* The new memory may lie in a range that was not there. */
	ptx_grid_forget_ranges(c->w->grid);
}

static void run_free(struct host_call *c)
{
	const struct ptx_environment *env = &c->w->grid->env;

	if (env->heap_free && c->arguments[0])
		env->heap_free(env->context, c->arguments[0]);
	ptx_grid_forget_ranges(c->w->grid);
}

/* Arguments lie one after the other, each aligned to its size. */
static uint64_t next_argument(struct host_call *c, uint64_t *at, unsigned bytes)
{
	uint64_t v = 0;

	*at = (*at + bytes - 1) & ~(uint64_t)(bytes - 1);
	for (unsigned i = 0; i < bytes; i++)
		v |= (uint64_t)byte_at(c, *at + i) << 8 * i;
	*at += bytes;
	return v;
}

struct text {
	char bytes[TEXT_MOST];
	size_t n;
};

static void append(struct text *t, const char *text, size_t n)
{
	if (n > sizeof(t->bytes) - t->n)
		n = sizeof(t->bytes) - t->n;
	memcpy(t->bytes + t->n, text, n);
	t->n += n;
}

/* A conversion is handed to snprintf with the length that the value really has. */
static void convert(struct host_call *c, struct text *out, char *spec, size_t n, unsigned longs,
		    char letter, uint64_t *at)
{
	char piece[FORMAT_MOST], string[FORMAT_MOST];
	int written;

	if (strchr("diouxX", letter)) {
		uint64_t v = next_argument(c, at, longs ? 8 : 4);

		if (!longs && strchr("di", letter))
			v = (uint64_t)(int64_t)(int32_t)v;
		snprintf(spec + n, 8, "ll%c", letter);
		written = snprintf(piece, sizeof(piece), spec, (long long)v);
	} else if (letter == 'c') {
		snprintf(spec + n, 8, "c");
		written = snprintf(piece, sizeof(piece), spec, (int)next_argument(c, at, 4));
	} else if (letter == 's') {
		string_at(c, next_argument(c, at, 8), string, sizeof(string));
		snprintf(spec + n, 8, "s");
		written = snprintf(piece, sizeof(piece), spec, string);
	} else if (letter == 'p') {
		written = snprintf(piece, sizeof(piece), "0x%" PRIx64, next_argument(c, at, 8));
	} else {
		uint64_t bits = next_argument(c, at, 8);
		double v;

		memcpy(&v, &bits, sizeof(v));
		snprintf(spec + n, 8, "%c", letter);
		written = snprintf(piece, sizeof(piece), spec, v);
	}
	if (written > 0)
		append(out, piece,
		       (size_t)written < sizeof(piece) ? (size_t)written : sizeof(piece) - 1);
}

/* One conversion from its % on; returns how many bytes of the format it takes. */
static size_t conversion(struct host_call *c, struct text *out, const char *format, uint64_t *at)
{
	char spec[64] = "%";
	size_t i = 1, n = 1;
	unsigned longs = 0;

	while (format[i] && strchr("-+ #0123456789.*", format[i])) {
		if (format[i] == '*')
			n += (size_t)snprintf(spec + n, 12, "%d", (int)next_argument(c, at, 4));
		else
			spec[n++] = format[i];
		i++;
		if (n > 40)
			return i;
	}
	while (format[i] && strchr("hlLqjzt", format[i]))
		longs += strchr("lqjzt", format[i++]) != NULL;
	if (format[i] == '%') {
		append(out, "%", 1);
	} else if (format[i] && strchr("diouxXcspfFeEgGaA", format[i])) {
		/* A width of thousands would be cut anyway. */
		if (strspn(spec + 1, "-+ #0") + 4 < n - 1 && !strchr(spec, '.'))
			return i + 1;
		convert(c, out, spec, n, longs, format[i], at);
	} else {
		append(out, format, i);
		return i;
	}
	return i + 1;
}

static void run_vprintf(struct host_call *c)
{
	char format[FORMAT_MOST];
	uint64_t at = c->arguments[1];
	struct text out = {.n = 0};

	string_at(c, c->arguments[0], format, sizeof(format));
	for (const char *f = format; *f && !c->w->faulted;) {
		size_t plain = strcspn(f, "%");

		append(&out, f, plain);
		f += plain;
		if (*f)
			f += conversion(c, &out, f, &at);
	}
	if (!c->w->faulted)
		print(c, out.bytes, out.n);
}

static void run_assertfail(struct host_call *c)
{
	struct thread_warp *t = thread_warp_of(c->w);
	char message[FORMAT_MOST], file[FORMAT_MOST], function[FORMAT_MOST];
	uint32_t thread[3];
	struct text out = {.n = 0};
	int n;

	string_at(c, c->arguments[0], message, sizeof(message));
	string_at(c, c->arguments[1], file, sizeof(file));
	string_at(c, c->arguments[3], function, sizeof(function));
	if (c->w->faulted)
		return;
	for (int d = 0; d < 3; d++)
		memcpy(&thread[d], t->special[SPECIAL_TID_X + d] + c->lane * sizeof(uint32_t),
		       sizeof(uint32_t));
	n = snprintf(out.bytes, sizeof(out.bytes),
		     "%s:%u: %s: block: [%u,%u,%u], thread: [%u,%u,%u] Assertion `%s` failed.\n",
		     file, (unsigned)c->arguments[2], function, c->w->block->ctaid[0],
		     c->w->block->ctaid[1], c->w->block->ctaid[2], thread[0], thread[1], thread[2],
		     message);
	print(c, out.bytes, (size_t)n < sizeof(out.bytes) ? (size_t)n : sizeof(out.bytes));
	mem_fault(c->w, c->insn, PTX_FAULT_ASSERT, 0, c->lane, false);
}

static void run_set_conditional(struct host_call *c)
{
	const struct ptx_environment *env = &c->w->grid->env;

	if (env->set_condition)
		env->set_condition(env->context, c->arguments[0], (uint32_t)c->arguments[1]);
}

static const struct host_function functions[] = {
	{"malloc", run_malloc},
	{"free", run_free},
	{"vprintf", run_vprintf},
	{"__assertfail", run_assertfail},
	{"cudaGraphSetConditional", run_set_conditional},
};

const struct host_function *host_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (!strcmp(functions[i].name, name))
			return &functions[i];
	return NULL;
}

/* The address of one byte of a call's value in a lane. */
static uint8_t *value_byte(struct host_call *c, const struct call_value *v, uint32_t at)
{
	struct warp *w = c->w;

	if (v->size & CALL_IN_REGISTER)
		return (uint8_t *)operand(w, v->where) +
		       c->lane * ((v->size & ~CALL_IN_REGISTER) / 8) + at;
	return w->local + mem_local_at(w->local_base + v->where + at, c->lane);
}

static uint32_t value_bytes(const struct call_value *v)
{
	uint32_t bytes = v->size & CALL_IN_REGISTER ? (v->size & ~CALL_IN_REGISTER) / 8 : v->size;

	return bytes < 8 ? bytes : 8;
}

void host_call(struct warp *w, const struct insn *i, const struct host_function *function)
{
	const uint32_t *words = w->words + i->extra;
	const struct call_value *values = (const void *)(words + 2);

	for (uint32_t left = w->mask; left && !w->faulted; left &= left - 1) {
		struct host_call c = {.w = w, .insn = i, .lane = (unsigned)__builtin_ctz(left)};

		for (uint32_t n = 0; n < words[1] && n < ARGUMENTS; n++) {
			const struct call_value *v = &values[words[0] + n];

			for (uint32_t b = 0; b < value_bytes(v); b++)
				c.arguments[n] |= (uint64_t)*value_byte(&c, v, b) << 8 * b;
		}
		function->run(&c);
		for (uint32_t b = 0; words[0] && b < value_bytes(values); b++)
			*value_byte(&c, values, b) = (uint8_t)(c.result >> 8 * b);
	}
}
