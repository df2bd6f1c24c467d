/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of cuda/nvml.def as data. Prototypes are in cuda/nvml_prototypes.h; classes and
 * reasons are those of cuda/api.h. Data only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/api.h"

/* NVML_ROW_nvmlInit_v2 is the index of that symbol's row. The order is that of the table. */
enum nvml_index {
#define NVML_FUNCTION(symbol, class, reason, returns, parameters, arguments) NVML_ROW_##symbol,
#define NVML_NAME(symbol, class, reason)				     NVML_ROW_##symbol,
#include "cuda/nvml.def"
#undef NVML_FUNCTION
#undef NVML_NAME
	NVML_ROWS,
};

struct nvml_row {
	uint16_t symbol_at; /* nvml_symbol() */
	uint8_t class;	    /* enum api_class */
	uint8_t refusal;    /* enum api_refusal */
	bool has_prototype; /* false: a name to be exported, nothing more is known */
};

extern const struct nvml_row nvml_rows[NVML_ROWS];

extern const struct nvml_names nvml_names;

static inline const char *nvml_symbol(const struct nvml_row *row)
{
	return (const char *)&nvml_names + row->symbol_at;
}
