/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter's verdicts on PTX texts: take CAPABILITY FILE...: a text line each, "taken" or
 * the reason, which may be why a kernel cannot be launched. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/ptx/ptx.h"

static char *text_of(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;

	/* Up to its end: a text has no byte of zero. */
	if (file && getdelim(&text, &room, '\0', file) < 0) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	return text;
}

/* NULL: all kernels can be launched. */
static const char *lacking(const struct ptx_module *module)
{
	const struct ptx_kernel *kernel;

	for (size_t i = 0; (kernel = ptx_module_kernel_at(module, i)); i++)
		if (kernel->lacks)
			return kernel->lacks;
	return NULL;
}

int main(int argc, char **argv)
{
	struct ptx_options options = {.capability = argc > 1 ? (unsigned)atoi(argv[1]) : 0};

	for (int i = 2; i < argc; i++) {
		struct ptx_source source = {.text = text_of(argv[i]), .name = argv[i]};
		struct ptx_module *module = NULL;
		struct ptx_error error = {0};

		if (!source.text) {
			fprintf(stderr, "take: %s cannot be read\n", argv[i]);
			return 1;
		}
		if (ptx_module_new(&source, 1, &options, &module, &error) != 0)
			printf("%s\n", error.text);
		else if (lacking(module))
			printf("%s: not launched\n", lacking(module));
		else
			puts("taken");
		ptx_module_free(module);
		free((void *)(uintptr_t)source.text);
	}
	return 0;
}
