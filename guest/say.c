/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/say.h"

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

struct out {
	char *text;
	size_t size, used;
};

static void put(struct out *out, char c)
{
	if (out->used + 1 < out->size)
		out->text[out->used++] = c;
}

static void put_text(struct out *out, const char *text)
{
	for (; *text; text++)
		put(out, *text);
}

static void put_number(struct out *out, unsigned long value, unsigned base)
{
	char digits[24];
	size_t n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	while (n > 0)
		put(out, digits[--n]);
}

static void put_signed(struct out *out, long value)
{
	if (value < 0)
		put(out, '-');
	put_number(out, value < 0 ? 0UL - (unsigned long)value : (unsigned long)value, 10);
}

/* Returns the last character of the conversion that starts behind the '%'. */
static const char *convert(struct out *out, const char *c, va_list *arguments)
{
	int wide = *c == 'l' || *c == 'z';
	const char *text;

	if (wide)
		c++;
	switch (*c) {
	case 's':
		text = va_arg(*arguments, const char *);
		put_text(out, text ? text : "(null)");
		break;
	case 'd':
		put_signed(out, wide ? va_arg(*arguments, long) : va_arg(*arguments, int));
		break;
	case 'u':
	case 'x':
		put_number(out,
			   wide ? va_arg(*arguments, unsigned long)
				: va_arg(*arguments, unsigned int),
			   *c == 'x' ? 16 : 10);
		break;
	case '%':
		put(out, '%');
		break;
	default:
		return c - 1;
	}
	return c;
}

static size_t format_list(char *text, size_t size, const char *format, va_list *arguments)
{
	struct out out = {text, size, 0};

	if (size == 0)
		return 0;
	for (const char *c = format; *c; c++) {
		if (*c == '%' && c[1])
			c = convert(&out, c + 1, arguments);
		else
			put(&out, *c);
	}
	text[out.used] = '\0';
	return out.used;
}

size_t say_format(char *out, size_t size, const char *format, ...)
{
	va_list arguments;
	size_t used;

	va_start(arguments, format);
	used = format_list(out, size, format, &arguments);
	va_end(arguments);
	return used;
}

/* Writes one line. `patient`: it may wait for the reader of standard error. */
static void write_line(bool patient, const char *format, va_list *arguments)
{
	static __thread int saying __attribute__((tls_model("initial-exec")));
	struct pollfd there = {.fd = 2, .events = POLLOUT};
	const struct timespec now = {0, 0};
	int saved = errno;
	char line[SAY_BYTES] = "mete: ";
	size_t used = 6;

	if (saying)
		return;
	saying = 1;
	if (patient || (ppoll(&there, 1, &now, NULL) == 1 && there.revents == POLLOUT)) {
		used += format_list(line + used, sizeof(line) - used - 1, format, arguments);
		line[used++] = '\n';
		best_effort(write(2, line, used));
	}
	saying = 0;
	errno = saved;
}

void say(const char *format, ...)
{
	static _Atomic unsigned lines;
	va_list arguments;

	if (atomic_load(&lines) >= SAY_LINES || atomic_fetch_add(&lines, 1) >= SAY_LINES)
		return;
	va_start(arguments, format);
	write_line(true, format, &arguments);
	va_end(arguments);
}

void say_lack(const char *call)
{
	say("the system call %s is refused to this program, and mete needs it: allow it in the "
	    "program's seccomp filter (of a container: in its seccomp profile)",
	    call);
}

void say_aside(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	write_line(false, format, &arguments);
	va_end(arguments);
}
