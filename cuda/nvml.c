/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nvml.h"

#define NVML_FUNCTION(symbol, class, reason, returns, parameters, arguments)                       \
	{#symbol, API_##class, API_REFUSAL_##reason, true},
#define NVML_NAME(symbol, class, reason) {#symbol, API_##class, API_REFUSAL_##reason, false},

const struct nvml_row nvml_rows[NVML_ROWS] = {
#include "cuda/nvml.def"
};
