/* SPDX-License-Identifier: Apache-2.0 */
/*                                                        tests/gpu/claim.h
 * A claim about NVIDIA's driver, as a question to the driver of this machine. docs/UNVERIFIED.md
 * names each one in the row that it settles; tools/check-gpu asks them all. `claims NAME` asks one,
 * in a process of its own, and the last line it prints is the reason:
 *
 *	exit status 0: yes; 1: no; 77: it cannot be asked here; 2: asking it failed
 *
 * A program of the driver API and of nothing else, so that it runs where no library of ours is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/prototypes.h"

struct claim {
	const char *name;
	void (*ask)(void);
	bool part; /* of another claim, which asks it in a further process */
};

/* aligned(): gcc may otherwise over-align the entries and tear the table apart. */
#define CLAIM(name)	 CLAIM_ROW(name, false)
#define CLAIM_PART(name) CLAIM_ROW(name, true)
#define CLAIM_ROW(name, part)                                                                      \
	static void name(void);                                                                    \
	static const struct claim name##_row __attribute__((                                       \
		used, section("mete_claims"), aligned(sizeof(void *)))) = {#name, name, part};     \
	static void name(void)

/* Each prints its line and ends the process; a claim that returns is one that holds. */
void claim_no(const char *format, ...) printf_like(1, 2) noreturn_;
void claim_needs(const char *format, ...) printf_like(1, 2) noreturn_; /* "a second GPU" */
void claim_failed(const char *format, ...) printf_like(1, 2) noreturn_;

/* A line for the reader; the last one stands in the table. */
void claim_say(const char *format, ...) printf_like(1, 2);

/* Calls that have to succeed before anything can be asked. A call that the driver does not support:
 * the claim's subject does not exist here. */
#define must(call) claim_must((call), #call, __FILE__, __LINE__)
void claim_must(CUresult result, const char *call, const char *file, int line);

/* The claim itself. */
#define holds(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition))                                                                  \
			claim_no(__VA_ARGS__);                                                     \
	} while (0)

#define answers(call, wanted) claim_answers((call), (wanted), #call)
void claim_answers(CUresult got, CUresult wanted, const char *call);
