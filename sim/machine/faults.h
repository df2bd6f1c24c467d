/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/machine/faults.h
 * Faults on demand, from METE_SIM_FAULTS or the file `faults` in METE_SIM_DIR (read again when it
 * changes; its counts start when the process first sees it).
 *
 *	faults = fault { ("," | ";" | newline) fault }        # starts a comment
 *	fault  = kind [ "=" value ] [ "@" n [ "+" ] ] { ":" device | "/" pid }
 *
 *	oom            an allocation fails: out of memory
 *	launch         a launch fails (CUDA_ERROR_LAUNCH_FAILED)
 *	illegal        a kernel fails with an illegal address
 *	ecc            a kernel meets an uncorrectable ECC error; Xid 48
 *	ecc-corrected  a corrected one: counted, not felt
 *	xid=N          an Xid event, and nothing else
 *	hang           a kernel never ends
 *	lost           the device falls off the bus: Xid 79; everything on it fails from now on
 *	slow=TIME      a call takes so much longer (modelled)
 *	die            the process is killed as it divides a GPU by MIG: before or after a change
 *	make-gi=WHAT   NVML does not make a GPU instance of MIG, and says why: in-use, no-room or
 *	               unknown; makes it elsewhere, where there is room first; or has a stall, and
 *	               goes on when the file no longer has one for it
 *	make-ci=WHAT, destroy-ci=WHAT, destroy-gi=WHAT
 *	               likewise, but for elsewhere
 *
 * @n: the n-th time (from 1), once; @n+: from the n-th time on; without: every time. Times are
 * counted per process: allocations for oom, driver calls for slow, changes of its kind for make-gi
 * and its like, kernels for the rest; for die each change by MIG twice, so that die@1 is before the
 * first one and die@2 after it. "oom@3, hang@2:1, slow=5ms/1234, make-ci=unknown@1".
 *
 * This module counts, and reports to the device (Xid, ECC, lost); the caller chooses the answer of
 * its call. Thread-safe; needs segment_join().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/macros.h"

enum faults_point {
	FAULTS_ALLOCATION,
	FAULTS_KERNEL,
	FAULTS_CALL,
	FAULTS_DIVISION, /* before and after each of these: */
	FAULTS_MAKE_GI,
	FAULTS_MAKE_CI,
	FAULTS_DESTROY_CI,
	FAULTS_DESTROY_GI,
	FAULTS_POINTS,
};

enum faults_kind {
	FAULTS_NONE,
	FAULTS_OUT_OF_MEMORY,
	FAULTS_LAUNCH_FAILED,
	FAULTS_ILLEGAL_ADDRESS,
	FAULTS_ECC,
	FAULTS_ECC_CORRECTED,
	FAULTS_XID,
	FAULTS_HANG,
	FAULTS_LOST,
	FAULTS_SLOW,
	FAULTS_DIE,
	FAULTS_IN_USE,
	FAULTS_NO_ROOM,
	FAULTS_UNKNOWN,
	FAULTS_STALL,
	FAULTS_ELSEWHERE,
};

struct faults_row {
	enum faults_kind kind;
	enum faults_point point;
	uint64_t value;	      /* Xid, or nanoseconds */
	uint64_t first, last; /* which times; last is UINT64_MAX with "+" */
	int device;	      /* -1: any */
	int pid;	      /* 0: any */
};

#define FAULTS_MAX 32

/* Parses the language. *ret_count rows. -EINVAL with a sentence. */
must_check int faults_parse(const char *text, struct faults_row ret_rows[FAULTS_MAX],
			    size_t *ret_count, struct fault *why);

/*
 * A point of that kind is reached on the device (-1: on none in particular). Returns how the call
 * must fail: FAULTS_NONE, OUT_OF_MEMORY, LAUNCH_FAILED, ILLEGAL_ADDRESS, ECC, HANG or LOST; a
 * change by MIG: FAULTS_NONE, IN_USE, NO_ROOM, UNKNOWN or ELSEWHERE. The rest is done here: events
 * are posted, slow calls are spent, lost devices marked, and a call that stalls waits. One atomic
 * load if no faults are wanted.
 */
enum faults_kind faults_at(enum faults_point point, int device);
