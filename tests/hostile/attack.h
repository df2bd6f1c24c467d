/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that try to get more than their limit, or to keep their neighbours from theirs: see
 * attacks.def for what each tries, attack.c for how one is run, bench/hostile.py for the judges.
 *
 * An attack takes what it can, ignores what it is told, and returns; what it holds then is held
 * until standard input ends. It may end, stop or hang the process as well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/macros.h"
#include "cuda/prototypes.h"
#include "tests/guest/memory_ways.h"

#define ATTACK(name, start, tries) void attack_##name(void);
#include "tests/hostile/attacks.def"
#undef ATTACK

/* A function of the library that a program gets by the driver's name. */
#define CALL(symbol) ((api_fn_##symbol *)attack_find(#symbol))
void *attack_find(const char *symbol);

/* cuInit(), a context (also current to every further thread that calls enter()), and `g`. */
void start(void);
void enter(void);

/* Linear memory in ever smaller pieces, until nothing is given any more. Returns how much. */
size_t take_everything(void);
/* By another function of that type. */
size_t take_everything_by(api_fn_cuMemAlloc_v2 *from);
void start_and_take(void);

/* Small pieces, each freed at once, for half a second. */
void take_and_free(void);

/* Runs it in so many threads, each in the context, and waits for all. */
void in_threads(unsigned threads, void (*work)(void));

/* Calls work(thread) for each but the first of that process's threads. */
void attack_each_thread(pid_t pid, void (*work)(pid_t thread));

/* Calls work() for each mapping of this process; `name`: whose line in /proc/self/maps has that;
 * NULL: of any name. */
void attack_each_mapping(const char *name, void (*work)(char *from, size_t bytes));

/* Is that a connection of the library's to meted? */
bool attack_is_connection(int fd);
/* Or one of its pages or stores, or any other socket? */
bool attack_is_shared(int fd);
/* Sends that descriptor, beside one byte. */
void attack_send_fd(int to, int fd);

/* Until so much time has passed, HOSTILE_LONGER times if that is set: while (until(&t, 300)) ...
 * with t 0 at first. */
bool until(uint64_t *start_ms, uint64_t ms);

/* This program again, as `name`; does not return. */
void noreturn_ become(const char *name);

/* A child of fork(): it does `work`, reports that to its parent, and stays until its standard input
 * ends. Returns when it has reported, or died. */
void child(void (*work)(void));

/* Returns when standard input ends. */
void wait_for_the_end(void);

/* Kernels that take so long; loaded once in each process. */
bool attack_load_spend(void);
void attack_spend(CUstream where, uint32_t ns);

/* PTX with so many bytes of static data; the caller frees it. */
char *image(size_t bytes);
