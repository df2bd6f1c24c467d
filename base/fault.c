/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#include <string.h>

static void mark_cut(struct fault *why, int wanted)
{
	if (wanted >= (int)sizeof(why->text))
		memcpy(why->text + sizeof(why->text) - 4, "...", 4);
}

int fault_set(struct fault *why, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	mark_cut(why, vsnprintf(why->text, sizeof(why->text), format, arguments));
	va_end(arguments);
	return error;
}

void fault_within(struct fault *why, const char *format, ...)
{
	char where[sizeof(why->text)];
	struct fault whole;
	va_list arguments;
	int n;

	va_start(arguments, format);
	vsnprintf(where, sizeof(where), format, arguments);
	va_end(arguments);
	n = snprintf(whole.text, sizeof(whole.text), "%s: %s", where, why->text);
	mark_cut(&whole, n);
	*why = whole;
}
