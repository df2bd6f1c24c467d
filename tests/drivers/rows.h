/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's functions as a table for tests that call them all, and what the recording driver
 * (tests/drivers/generate.py) notes of each call.
 */
#pragma once

#include <stdint.h>

enum driver_stream {
	DRIVER_PLAIN,
	DRIVER_PTDS,
	DRIVER_PTSZ,
};

enum driver_class {
	DRIVER_PASS,
	DRIVER_LAUNCH,
	DRIVER_ALLOC,
	DRIVER_FREE,
	DRIVER_TOUCH,
	DRIVER_QUERY,
	DRIVER_CONTEXT,
	DRIVER_CAPTURE,
	DRIVER_RESOLVE,
	DRIVER_REFUSE,
};

struct driver_row {
	const char *base, *symbol;
	void (*linked)(void); /* as the dynamic linker bound it; NULL: not exported */
	int version;
	enum driver_stream stream;
	enum driver_class class;
	const char *shape;  /* a letter per argument, see shape() of generate.py */
	const char *widths; /* bytes of it that count */
	int hooked;	    /* has a C hook beside what its class asks for */
};

extern const struct driver_row driver_rows[];
extern const unsigned driver_row_count;

enum {
	RECORDS = 64,
};

struct record {
	uint64_t index;		 /* of driver_rows; the upper half is noise */
	uint64_t return_address; /* who called */
	uint64_t registers[6];
	uint64_t stack[16];
	uint64_t xmm[2];
	uint64_t padding[6];
};

_Static_assert(sizeof(struct record) == 256, "generate.py knows the size");
