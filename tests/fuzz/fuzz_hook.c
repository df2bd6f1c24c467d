/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts that mete-hook reads: the runtime's JSON, and an image's ld.so.conf, ld.so.cache and
 * musl path. The first byte says which. Nothing is read past the end, each finding fits, is not
 * empty and lies in the input where it is a path, and each reading comes to an end.
 */
#include <stdlib.h>
#include <string.h>

#include "hook/json.h"
#include "hook/linker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
	if (!condition)
		abort();
}

static void read_json(const char *text, size_t size)
{
	static const char *const root[] = {"root", "path", NULL},
				 *const bundle[] = {"bundle", NULL},
				 *const env[] = {"process", "env", NULL};
	char value[32];
	int r = json_string(text, size, root, value, sizeof(value));

	must(r == 0 || r == -ENOENT || r == -EINVAL || r == -ENAMETOOLONG);
	if (r == 0)
		must(strlen(value) < sizeof(value));
	r = json_string(text, size, bundle, value, sizeof(value));
	must(r == 0 || r == -ENOENT || r == -EINVAL || r == -ENAMETOOLONG);
	r = json_element(text, size, env, "LD_LIBRARY_PATH=", value, sizeof(value));
	must(r == 0 || r == -ENOENT || r == -EINVAL || r == -ENAMETOOLONG);
}

static void check_path(const char *path, const char *text, size_t size)
{
	must(*path && strlen(path) < PATH_MAX);
	must(memmem(text, size, path, strlen(path)) != NULL);
}

static void read_texts(uint8_t which, const char *text, size_t size)
{
	static const char *const names[] = {"libcuda", "libnvidia-"};
	struct linker_text parts = {text, text + size};
	enum linker_kind kind;
	char value[PATH_MAX];
	size_t rounds = 0;

	if (which == 1) {
		while ((kind = linker_next_entry(&parts, value)) != LINKER_END) {
			must(kind == LINKER_INCLUDE || value[0] == '/');
			check_path(value, text, size);
			must(rounds++ <= size);
		}
	} else if (which == 2) {
		while (linker_next_cached(&parts, names, ARRAY_SIZE(names), value)) {
			must(value[0] == '/' && strstr(value, "/lib") != NULL);
			check_path(value, text, size);
			must(rounds++ <= size);
		}
	} else {
		while (linker_next_folder(&parts, size % 2 ? LINKER_MUSL_ENDS : LINKER_GLIBC_ENDS,
					  value)) {
			must(value[0] == '/' &&
			     !strpbrk(value, size % 2 ? LINKER_MUSL_ENDS : LINKER_GLIBC_ENDS));
			check_path(value, text, size);
			must(rounds++ <= size);
		}
	}
	must(parts.at == parts.end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	owned(free) char *exact = NULL;

	if (size == 0)
		return 0;
	exact = malloc(size);
	if (!exact)
		return 0;
	memcpy(exact, data + 1, size - 1);
	if (data[0] % 4 == 0)
		read_json(exact, size - 1);
	else
		read_texts(data[0] % 4, exact, size - 1);
	return 0;
}
