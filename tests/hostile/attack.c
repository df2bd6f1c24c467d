/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attack NAME[+NAME]...   does these (several: each in a thread of its own, at once), prints
 *                         "holds", and keeps what it got until standard input ends
 * attack --list           the names, and what each tries
 */
#include "tests/hostile/attack.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/guest/must.h"

enum { MOST_THREADS = 32 };

static const struct attack {
	const char *name;
	void (*run)(void);
	bool cold;
	const char *tries;
} attacks[] = {
#define warm			   false
#define cold			   true
#define ATTACK(name, start, tries) {#name, attack_##name, start, tries},
#include "tests/hostile/attacks.def"
#undef ATTACK
#undef warm
#undef cold
};

/* Three sizes until refused, some of it given back in between, and taken again. */
static void take_by(const struct way *way)
{
	static const size_t sizes[] = {48 << 20, 3 << 20, 40000, 5 << 20};
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t first = count;

		for (; count - first < 1000; count++) {
			pieces[count].bytes = sizes[i];
			if (way->obtain(&pieces[count]) != CUDA_SUCCESS)
				break;
		}
		for (size_t n = 0; i == 1 && n < 4 && count > first; n++)
			way->give(&pieces[--count]);
	}
}

static void *run_one(void *name)
{
	const char *wanted = name;

	enter();
	for (size_t i = 0; i < ways_count && strncmp(wanted, "take-", 5) == 0; i++)
		if (strcmp(ways[i].name, wanted + 5) == 0) {
			take_by(&ways[i]);
			return name;
		}
	for (size_t i = 0; i < ARRAY_SIZE(attacks); i++)
		if (strcmp(attacks[i].name, wanted) == 0) {
			attacks[i].run();
			return name;
		}
	fail("%s: no such attack", wanted);
}

static bool is_cold(const char *names)
{
	for (size_t i = 0; i < ARRAY_SIZE(attacks); i++)
		if (strcmp(attacks[i].name, names) == 0)
			return attacks[i].cold;
	return false;
}

static void list(void)
{
	for (size_t i = 0; i < ways_count; i++)
		printf("take-%s\t%s memory in four sizes until refused\n", ways[i].name,
		       ways[i].name);
	for (size_t i = 0; i < ARRAY_SIZE(attacks); i++)
		printf("%s\t%s\n", attacks[i].name, attacks[i].tries);
}

int main(int argc, char **argv)
{
	pthread_t thread[MOST_THREADS];
	unsigned threads = 0;
	char *rest, *name;

	if (argc != 2) {
		fprintf(stderr, "usage: attack NAME[+NAME]... | --list\n");
		return 2;
	}
	if (strcmp(argv[1], "--list") == 0) {
		list();
		return 0;
	}
	if (!is_cold(argv[1]))
		start();
	rest = argv[1];
	if (!strchr(rest, '+'))
		run_one(rest);
	else
		while ((name = strsep(&rest, "+")) && threads < MOST_THREADS)
			if (pthread_create(&thread[threads], NULL, run_one, name) == 0)
				threads++;
	while (threads > 0)
		pthread_join(thread[--threads], NULL);
	puts("holds");
	fflush(stdout);
	wait_for_the_end();
	_exit(0); /* what the driver does at an end is not part of it */
}
