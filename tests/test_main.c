/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

extern const struct CMUnitTest __start_mete_tests[], __stop_mete_tests[];

static struct {
	uint64_t seed;
	uint64_t state;
	const char *test;
	int seeded; /* the seed is known */
	int begun;  /* this test has drawn from its sequence */
} random_state;

static pid_t main_pid;

void test_fail(const char *file, int line, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	/* A child of a test that jumped to the test's end would go on with all the others. */
	if (getpid() != main_pid) {
		dprintf(2, "%s:%d: %s\n", file, line, text);
		_exit(1);
	}
	print_error("%s\n", text);
	_fail(file, line);
	abort();
}

void test_skip(const char *why)
{
	print_message("skipped: %s: %s\n", random_state.test, why);
	skip();
	abort();
}

void test_begin(const char *name)
{
	random_state.test = name;
	random_state.begun = 0;
}

/* FNV-1a: tests whose names differ get sequences that have nothing to do with each other. */
static uint64_t name_hash(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
	return hash;
}

static void seed_once(void)
{
	const char *given = getenv("METE_SEED");
	struct timespec now;

	if (random_state.begun)
		return;
	if (!random_state.seeded) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		random_state.seed = given ? strtoull(given, NULL, 0) : (uint64_t)now.tv_nsec + 1;
		random_state.seeded = 1;
	}
	random_state.state = random_state.seed ^ name_hash(random_state.test);
	random_state.begun = 1;
	print_message("METE_SEED=%" PRIu64 "\n", random_state.seed);
}

void test_random_restart(uint64_t seed)
{
	random_state.state = seed;
	random_state.begun = 1;
}

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
uint64_t test_random(void)
{
	uint64_t z;

	seed_once();
	z = random_state.state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t test_random_below(uint64_t bound)
{
	return test_random() % bound;
}

unsigned test_rounds(unsigned usual)
{
	const char *scale = getenv("METE_TEST_SCALE");
	unsigned factor = scale ? (unsigned)strtoul(scale, NULL, 10) : 1;

	return usual * (factor ? factor : 1);
}

int main(void)
{
	size_t n = (size_t)(__stop_mete_tests - __start_mete_tests);

	main_pid = getpid();
	/* A pattern, as of file names: only these. */
	if (getenv("METE_TEST_ONLY"))
		cmocka_set_test_filter(getenv("METE_TEST_ONLY"));
	return _cmocka_run_group_tests("mete", __start_mete_tests, n, NULL, NULL) ? 1 : 0;
}
