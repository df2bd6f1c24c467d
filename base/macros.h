/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the C language lacks: ownership that is visible in the declaration, results that must be
 * used, and short names for compiler attributes. These are declarations only: no macro here makes a
 * decision.
 *
 *	owned(free) char *text = malloc(n);     freed at the end of the scope ...
 *	return take(text);                      ... unless ownership leaves here
 *
 * owned(close), owned(fclose) and owned(x_free) work likewise: each needs an x_owned() made by
 * OWNED_POINTER(), or written by hand for things that are not pointers.
 */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define must_check	  __attribute__((warn_unused_result))
#define printf_like(f, a) __attribute__((format(printf, f, a)))
#define unused		  __attribute__((unused))
#define exported	  __attribute__((visibility("default")))
#define noreturn_	  __attribute__((noreturn))
#define noinline_	  __attribute__((noinline))
#define inline_		  inline __attribute__((always_inline))
#define likely(x)	  __builtin_expect(!!(x), 1)
#define unlikely(x)	  __builtin_expect(!!(x), 0)

/* Keeps an address in a register: gcc must not split it into a symbol and an index at each use. */
#define whole_address(pointer) __asm__("" : "+r"(pointer))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* The end of a scope calls NAME_owned() with the variable's address. */
#define owned(name) __attribute__((cleanup(name##_owned)))

/* The value leaves its owner: the variable is NULL afterwards. */
#define take(pointer)                                                                              \
	({                                                                                         \
		__typeof__(pointer) take_value_ = (pointer);                                       \
		(pointer) = NULL;                                                                  \
		take_value_;                                                                       \
	})

/* Declares name_owned() for a function that frees one pointer and accepts NULL. */
#define OWNED_POINTER(type, name)                                                                  \
	static inline void name##_owned(type **pointer)                                            \
	{                                                                                          \
		name(*pointer);                                                                    \
	}

/* Drops a must_check result on purpose: gcc does not accept a cast to void for that. */
#define best_effort(call)                                                                          \
	do {                                                                                       \
		__typeof__(call) best_effort_ unused = (call);                                     \
	} while (0)

static inline void free_owned(void *pointer)
{
	free(*(void **)pointer);
}

/* Keeps errno: a cleanup must not change what its caller is about to report. */
static inline void close_owned(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

static inline void fclose_owned(FILE **file)
{
	if (*file)
		fclose(*file);
}

/* The descriptor leaves its owner: the variable is -1 afterwards. */
static inline int take_fd(int *fd)
{
	int value = *fd;

	*fd = -1;
	return value;
}
