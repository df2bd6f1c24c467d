/* SPDX-License-Identifier: Apache-2.0 */
/* nvidia-smi's texts about a device, one for each column of nvidia_smi.def. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"
#include "cuda/nvml_types.h"

enum { SMI_TEXT_BYTES = 96 };

struct smi_column {
	const char *name, *unit;
	bool (*write)(nvmlDevice_t device, char *text); /* false: the device has no such thing */
};

/* In the table's order; NULL: no more. */
const struct smi_column *smi_column(size_t number);

/* NULL: there is none of that name. */
const struct smi_column *smi_column_named(const char *name, size_t length);

/* Writes the text of that column: text[SMI_TEXT_BYTES]. */
must_check bool smi_write(const char *column, nvmlDevice_t device, char *text);
