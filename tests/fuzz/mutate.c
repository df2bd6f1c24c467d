/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutate COUNT SEED FOLDER: a fuzz target that speaks HTTP/2 over COUNT transcripts of the folder,
 * each changed in a few places: bits, bytes, whole frames, their lengths, types, flags and streams.
 * Without feedback, so that it runs with any compiler and repeats by its seed.
 */
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TRANSCRIPTS = 256, ROOM = 128 << 10, FRAMES = 512 };

static struct transcript {
	uint8_t *bytes;
	size_t size;
} transcripts[TRANSCRIPTS];
static size_t count;
static uint64_t state;

/* splitmix64, as tests/test_main.c. */
static uint64_t draw(uint64_t bound)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (z ^ (z >> 31)) % bound;
}

static void load(const char *folder)
{
	DIR *open = opendir(folder);
	struct dirent *entry;

	while (open && (entry = readdir(open)) && count < TRANSCRIPTS) {
		struct transcript *t = &transcripts[count];
		char path[PATH_MAX];
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : fopen(path, "rb");
		t->bytes = malloc(ROOM);
		t->size = file && t->bytes ? fread(t->bytes, 1, ROOM / 2, file) : 0;
		if (file)
			fclose(file);
		if (t->size > 1)
			count++;
		else
			free(t->bytes);
	}
	if (open)
		closedir(open);
}

/* Where the frames begin, after the first byte (of the target) and the preface, where there is one.
 */
static size_t find_frames(const uint8_t *bytes, size_t size, size_t at[FRAMES])
{
	size_t found = 0, i = 1;

	if (size > 25 && memcmp(bytes + 1, "PRI", 3) == 0)
		i += 24;
	while (i + 9 <= size && found < FRAMES) {
		at[found++] = i;
		i += 9 + ((size_t)bytes[i] << 16 | (size_t)bytes[i + 1] << 8 | bytes[i + 2]);
	}
	return found;
}

static size_t insert(uint8_t *bytes, size_t size, size_t at, const uint8_t *from, size_t n)
{
	uint8_t copy[4096];

	n = n < sizeof(copy) ? n : sizeof(copy);
	if (size + n > ROOM)
		return size;
	memcpy(copy, from, n);
	memmove(bytes + at + n, bytes + at, size - at);
	memcpy(bytes + at, copy, n);
	return size + n;
}

static size_t erase(uint8_t *bytes, size_t size, size_t at, size_t n)
{
	n = n < size - at ? n : size - at;
	memmove(bytes + at, bytes + at + n, size - at - n);
	return size - n;
}

static size_t mutate_frame(uint8_t *bytes, size_t size)
{
	size_t at[FRAMES], found = find_frames(bytes, size, at), frame, n;
	const struct transcript *other = &transcripts[draw(count)];

	if (!found)
		return size;
	frame = at[draw(found)];
	n = 9 + ((size_t)bytes[frame] << 16 | (size_t)bytes[frame + 1] << 8 | bytes[frame + 2]);
	n = n < size - frame ? n : size - frame;
	switch (draw(8)) {
	case 0:
		return erase(bytes, size, frame, n);
	case 1: /* again, elsewhere */
		return insert(bytes, size, at[draw(found)], bytes + frame, n);
	case 2:
		bytes[frame + 3] = (uint8_t)draw(12);
		return size;
	case 3:
		bytes[frame + 4] ^= (uint8_t)(1 << draw(8));
		return size;
	case 4:
		bytes[frame + 8] = (uint8_t)draw(12);
		return size;
	case 5:
		bytes[frame + draw(3)] = (uint8_t)draw(256);
		return size;
	case 6: /* another's, here */
		found = find_frames(other->bytes, other->size, at);
		if (!found)
			return size;
		n = at[draw(found)];
		return insert(bytes, size, frame, other->bytes + n, other->size - n);
	default: /* what waits in many frames */
		for (uint64_t i = draw(64); i > 0; i--)
			size = insert(bytes, size, frame, bytes + frame, n < 64 ? n : 64);
		return size;
	}
}

static size_t mutate(uint8_t *bytes, size_t size)
{
	size_t at = 1 + draw(size - 1);

	switch (draw(8)) {
	case 0:
		bytes[at] ^= (uint8_t)(1 << draw(8));
		return size;
	case 1:
		bytes[at] = (uint8_t)draw(256);
		return size;
	case 2:
		return erase(bytes, size, at, 1 + draw(16));
	case 3:
		return insert(bytes, size, at, bytes + 1 + draw(size - 1), 1);
	case 4:
		return draw(4) ? size : at; /* cut off */
	default:
		return mutate_frame(bytes, size);
	}
}

int main(int argc, char **argv)
{
	uint64_t wanted = argc == 4 ? strtoull(argv[1], NULL, 10) : 0;
	static uint8_t bytes[ROOM];

	if (argc == 4)
		load(argv[3]);
	if (!wanted || !count) {
		fprintf(stderr, "usage: mutate COUNT SEED FOLDER-WITH-TRANSCRIPTS\n");
		return 2;
	}
	state = strtoull(argv[2], NULL, 10);
	for (uint64_t i = 0; i < wanted; i++) {
		const struct transcript *t = &transcripts[draw(count)];
		owned(free) uint8_t *exact = NULL;
		size_t size = t->size;

		memcpy(bytes, t->bytes, size);
		bytes[0] = draw(4) ? 0 : (uint8_t)draw(256);
		for (uint64_t n = 1 + draw(8); n > 0 && size > 1; n--)
			size = mutate(bytes, size);
		exact = malloc(size);
		if (!exact)
			return 1;
		memcpy(exact, bytes, size);
		best_effort(LLVMFuzzerTestOneInput(exact, size));
	}
	printf("%" PRIu64 " transcripts\n", wanted);
	return 0;
}
