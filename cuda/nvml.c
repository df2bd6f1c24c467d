/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nvml.h"

#include <stddef.h>

struct nvml_names {
#define NVML_NAME(symbol, class, reason) char symbol[sizeof(#symbol)];
#define NVML_FUNCTION(symbol, class, reason, returns, parameters, arguments)                       \
	NVML_NAME(symbol, class, reason)
#include "cuda/nvml.def"
#undef NVML_FUNCTION
#undef NVML_NAME
};

const struct nvml_names nvml_names = {
#define NVML_NAME(symbol, class, reason)				     #symbol,
#define NVML_FUNCTION(symbol, class, reason, returns, parameters, arguments) #symbol,
#include "cuda/nvml.def"
#undef NVML_FUNCTION
#undef NVML_NAME
};

_Static_assert(sizeof(nvml_names) <= UINT16_MAX, "a name is found by 16 bits");

#define NVML_FUNCTION(symbol, class, reason, returns, parameters, arguments)                       \
	{offsetof(struct nvml_names, symbol), API_##class, API_REFUSAL_##reason, true},
#define NVML_NAME(symbol, class, reason)                                                           \
	{offsetof(struct nvml_names, symbol), API_##class, API_REFUSAL_##reason, false},

const struct nvml_row nvml_rows[NVML_ROWS] = {
#include "cuda/nvml.def"
};
