/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/api.h"

#include <stddef.h>

struct api_names {
#define CUDA_FUNCTION(base, version, stream, symbol, class, reason, returns, parameters,           \
		      arguments)                                                                   \
	char base_##symbol[sizeof(#base)], symbol_##symbol[sizeof(#symbol)];
#include "cuda/api.def"
#undef CUDA_FUNCTION
};

const struct api_names api_names = {
#define CUDA_FUNCTION(base, version, stream, symbol, class, reason, returns, parameters,           \
		      arguments)                                                                   \
#base, #symbol,
#include "cuda/api.def"
#undef CUDA_FUNCTION
};

_Static_assert(sizeof(api_names) <= UINT16_MAX, "a name is found by 16 bits");

/* An unknown class, stream or reason, or a column too few, ends the build here. */
#define CUDA_FUNCTION(base, version, stream, symbol, class, reason, returns, parameters,           \
		      arguments)                                                                   \
	{offsetof(struct api_names, base_##symbol),                                                \
	 offsetof(struct api_names, symbol_##symbol),                                              \
	 version,                                                                                  \
	 API_##stream,                                                                             \
	 API_##class,                                                                              \
	 API_REFUSAL_##reason},

const struct api_row api_rows[API_ROWS] = {
#include "cuda/api.def"
};
#undef CUDA_FUNCTION

const char *const api_class_names[API_CLASSES] = {
	[API_PASS] = "pass",	   [API_LAUNCH] = "launch",   [API_ALLOC] = "alloc",
	[API_FREE] = "free",	   [API_TOUCH] = "touch",     [API_QUERY] = "query",
	[API_CONTEXT] = "context", [API_CAPTURE] = "capture", [API_RESOLVE] = "resolve",
	[API_REFUSE] = "refuse",
};

const char *const api_refusal_texts[API_REFUSALS] = {
#define REFUSAL(name, text) text,
#include "cuda/refusals.def"
#undef REFUSAL
};
