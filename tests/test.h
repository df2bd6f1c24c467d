/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test is a sentence: TEST(a_full_device_is_not_the_tenants_fault) { ... }. It registers itself
 * in an ELF section; tests/test_main.c hands the section to cmocka.
 */
#pragma once

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/macros.h"

/* aligned(): gcc may otherwise over-align the entries and tear the table apart. */
#define TEST(name)                                                                                 \
	static void name(void);                                                                    \
	static void name##_run(void **cmocka)                                                      \
	{                                                                                          \
		(void)cmocka;                                                                      \
		test_begin(#name);                                                                 \
		name();                                                                            \
	}                                                                                          \
	static const struct CMUnitTest name##_row                                                  \
		__attribute__((used, section("mete_tests"), aligned(sizeof(void *)))) = {          \
			#name, name##_run, NULL, NULL, NULL};                                      \
	static void name(void)

#define expect(condition)                                                                          \
	do {                                                                                       \
		if (!(condition))                                                                  \
			test_fail(__FILE__, __LINE__, "%s is false", #condition);                  \
	} while (0)

#define expect_eq(a, b)                                                                            \
	do {                                                                                       \
		long long got_ = (long long)(a), wanted_ = (long long)(b);                         \
		if (got_ != wanted_)                                                               \
			test_fail(__FILE__, __LINE__, "%s is %lld, wanted %lld", #a, got_,         \
				  wanted_);                                                        \
	} while (0)

#define expect_str(a, b)                                                                           \
	do {                                                                                       \
		const char *got_ = (a), *wanted_ = (b);                                            \
		if (!got_ || strcmp(got_, wanted_) != 0)                                           \
			test_fail(__FILE__, __LINE__, "%s is \"%s\", wanted \"%s\"", #a,           \
				  got_ ? got_ : "(null)", wanted_);                                \
	} while (0)

void test_begin(const char *name);	   /* for TEST alone */
void test_skip(const char *why) noreturn_; /* "REASON; REMEDY" */
void test_fail(const char *file, int line, const char *format, ...) printf_like(3, 4) noreturn_;

/* Does each test run in a process of its own, so that what a failed one leaves behind spoils no
 * other? A program that wants this defines it for itself. */
bool test_apart(void);

/*
 * A small, fast, repeatable generator for property tests. The seed is METE_SEED, or the clock's,
 * and is printed. Each test draws from its own sequence, made of the seed and the test's name: so a
 * seed alone repeats a history, whichever tests run before it, in whichever order a compiler put
 * them. Two draws in one call's arguments have no order in C: draw one of them before.
 */
uint64_t test_random(void);
void test_random_restart(
	uint64_t seed); /* a child's or thread's own sequence: draw its seed before */
uint64_t test_random_below(uint64_t bound); /* 0 .. bound - 1; bound > 0 */

/* How often a property is tried: `usual`, times METE_TEST_SCALE (an integer) where it is set. */
unsigned test_rounds(unsigned usual);
/* The same of long random histories; a quarter of it in a sanitizer's build, which has been through
 * every line by then. */
unsigned test_histories(unsigned usual);
