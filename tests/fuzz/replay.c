/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target over every file of the folders that are named, with any compiler. */
#include <dirent.h>
#include <limits.h>
#include <string.h>

#include "base/macros.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	owned(fclose) FILE *file = fopen(path, "rb");
	owned(free) uint8_t *data = NULL;
	long size;

	if (!file || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
		return -1;
	rewind(file);
	/* Exactly as large as the input, so that a sanitizer sees a read past the end. */
	data = malloc((size_t)size + (size == 0));
	if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
		return -1;
	best_effort(LLVMFuzzerTestOneInput(data, (size_t)size));
	return 0;
}

int main(int argc, char **argv)
{
	size_t replayed = 0;

	for (int i = 1; i < argc; i++) {
		DIR *folder = opendir(argv[i]);
		struct dirent *entry;

		while (folder && (entry = readdir(folder))) {
			char path[PATH_MAX];

			if (entry->d_name[0] == '.')
				continue;
			snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
			if (replay_file(path) != 0) {
				fprintf(stderr, "%s: cannot be read\n", path);
				return 1;
			}
			replayed++;
		}
		if (folder)
			closedir(folder);
	}
	printf("%zu inputs replayed\n", replayed);
	return replayed ? 0 : 1; /* a target without a corpus proves nothing */
}
