/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of cuda/api.def as data: what each exported function of the driver is called, since when
 * it exists, and to which class it belongs. Prototypes are in cuda/prototypes.h.
 *
 * Data only: nothing here calls a driver, and nothing here changes at run time. Python programs
 * that generate code from the same table use cuda/api.py.
 */
#pragma once

#include <stdint.h>

/* What the guest does with a function. Every class but PASS must be acted upon. */
enum api_class {
	API_PASS,    /* forwarded by a jump: no prototype, no cost */
	API_LAUNCH,  /* submits work: gated and metered */
	API_ALLOC,   /* device memory comes, or comes to be used here: charged */
	API_FREE,    /* device memory goes: the charge goes after the driver said success */
	API_TOUCH,   /* takes a device address, submits nothing: the block must be resident */
	API_QUERY,   /* the answer is virtualised */
	API_CONTEXT, /* contexts, modules, libraries: their memory is charged from the residual */
	API_CAPTURE, /* stream capture and graph building: waits for residency before it starts */
	API_RESOLVE, /* hands out addresses of functions */
	API_REFUSE,  /* answered "not supported", because it would break isolation */
	API_CLASSES,
};

/* What stream 0 means to a symbol. */
enum api_stream {
	API_PLAIN, /* the legacy stream, or the function has no stream */
	API_PTDS,  /* the calling thread's own; the call finishes its work */
	API_PTSZ,  /* the calling thread's own; the call only submits */
};

enum api_refusal {
#define REFUSAL(name, text) API_REFUSAL_##name,
#include "cuda/refusals.def"
#undef REFUSAL
	API_REFUSALS,
};

/* API_cuMemAlloc_v2 is the index of that symbol's row. The order is that of the table. */
enum api_index {
#define CUDA_FUNCTION(base, version, stream, symbol, class, reason, returns, parameters,           \
		      arguments)                                                                   \
	API_##symbol,
#include "cuda/api.def"
#undef CUDA_FUNCTION
	API_ROWS,
};

/* Names stand apart, and rows say where: pointers would have to be relocated, some thousands, in
 * each process into which the guest is loaded. */
struct api_row {
	uint16_t base_at;   /* api_base(): what cuGetProcAddress calls it */
	uint16_t symbol_at; /* api_symbol(): what the library exports */
	uint16_t version;   /* major * 1000 + minor * 10: known and exported from this CUDA on */
	uint8_t stream;	    /* enum api_stream */
	uint8_t class;	    /* enum api_class */
	uint8_t refusal;    /* enum api_refusal */
};

extern const struct api_row api_rows[API_ROWS];

extern const struct api_names api_names;

static inline const char *api_base(const struct api_row *row)
{
	return (const char *)&api_names + row->base_at;
}

static inline const char *api_symbol(const struct api_row *row)
{
	return (const char *)&api_names + row->symbol_at;
}

/* "pass", "launch", ...; for reports. */
extern const char *const api_class_names[API_CLASSES];

/* The sentences of cuda/refusals.def. */
extern const char *const api_refusal_texts[API_REFUSALS];
