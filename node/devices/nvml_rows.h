/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that begin with a pid, as struct nvml_process and struct nvml_busy do: in its order. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void nvml_rows_sort(void *rows, uint32_t count, size_t size);
/* The place of the first row of a process, or of the next process that has one. */
uint32_t nvml_rows_first(const void *rows, uint32_t count, size_t size, uint32_t pid);
