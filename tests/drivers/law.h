/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the law driver (law.c) tells a test: `law_state`, by dlsym() on it, points to it; where
 * METE_TEST_LAW names a file, it is that file's memory. All are read and written atomically.
 */
#pragma once

#include <stdint.h>

struct law {
	uint32_t acknowledged; /* written by the test: a close was acknowledged, and no gate is open
				*/
	uint32_t violations;   /* submissions while `acknowledged` was set */
	uint32_t bad_calls;    /* calls that CUDA forbids while a capture is open */
	uint32_t checks;       /* by guest_load: how often it checked, acknowledged or not */
	uint64_t submissions;
	uint64_t captured;	     /* calls into a stream under capture */
	int64_t outstanding;	     /* submitted and not complete */
	uint32_t acknowledged_on[2]; /* the same for one device */
	int64_t outstanding_on[2];
	uint64_t copies, copied_bytes; /* cuMemcpyHtoD_v2 */
	void (*look)(void);  /* called when a stream is asked whether it is complete, by the thread
				that asks */
	void (*probe)(void); /* called inside submissions and ends of captures, by their thread */
	/* called by the driver's own code while it makes a context, once */
	int (*nested)(void **context, unsigned flags, int device);
	/* called before a stream or an event is reported as not complete, by the thread that asks;
	 * not 0: work under way has been let end, and its end is waited for instead */
	int (*unready)(void);
	uint32_t call_us; /* a call's duration by events; 0: 10 */
};

#define law_probe(law, function) __atomic_store_n(&(law)->probe, function, __ATOMIC_RELEASE)
#define law_count(law, field)	 __atomic_load_n(&(law)->field, __ATOMIC_SEQ_CST)
