/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/test.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"

extern const struct CMUnitTest __start_mete_tests[], __stop_mete_tests[];

static struct {
	uint64_t seed;
	uint64_t state;
	const char *test;
	int seeded; /* the seed is known */
	int begun;  /* this test has drawn from its sequence */
} random_state;

__attribute__((weak)) bool test_apart(void)
{
	return false;
}

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

/* Tests whose names differ get sequences that have nothing to do with each other. */
static uint64_t name_hash(const char *name)
{
	return hash_text(HASH_BEGIN, name);
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

unsigned test_histories(unsigned usual)
{
	return test_rounds(SANITIZED ? (usual + 3) / 4 : usual);
}

static int run_one(const struct CMUnitTest *test)
{
	int status = 1;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		main_pid = getpid();
		exit(_cmocka_run_group_tests(test->name, test, 1, NULL, NULL) ? 1 : 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	if (WIFSIGNALED(status))
		print_error("[  FAILED  ] %s: signal %d\n", test->name, WTERMSIG(status));
	return status != 0;
}

static int run_apart(size_t n, const char *only)
{
	unsigned failed = 0;

	for (size_t i = 0; i < n; i++) {
		const struct CMUnitTest *test = &__start_mete_tests[i];

		if (!only || fnmatch(only, test->name, 0) == 0)
			failed += run_one(test) != 0;
	}
	if (failed)
		print_error("\n %u FAILED TEST(S) in all\n", failed);
	return failed != 0;
}

static bool is_one_called(size_t n, const char *pattern)
{
	for (size_t i = 0; i < n; i++) {
		if (fnmatch(pattern, __start_mete_tests[i].name, 0) == 0)
			return true;
	}
	return false;
}

int main(void)
{
	size_t n = (size_t)(__stop_mete_tests - __start_mete_tests);
	const char *only = getenv("METE_TEST_ONLY"); /* a pattern, as of file names: only these */

	main_pid = getpid();
	if (only && !is_one_called(n, only)) {
		/* A command that names a renamed test must not pass by running nothing. */
		print_error("METE_TEST_ONLY=%s: no test is called so\n", only);
		return 1;
	}
	if (test_apart())
		return run_apart(n, only);
	if (only)
		cmocka_set_test_filter(only);
	return _cmocka_run_group_tests("mete", __start_mete_tests, n, NULL, NULL) ? 1 : 0;
}
