/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The amounts that a container's resource requests say, where pods are counted by amounts
 * (`counted: amounts`): `mete.dev/gpu` with `mete.dev/gpu-memory` and `mete.dev/gpu-milli`. They
 * are totals over the container's GPUs, and are split equally. Pure.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/fault.h"
#include "core/placement/seating.h"

enum { AMOUNTS_NAME = 80, AMOUNTS_TEXT = 24 };

/* The names of the three resources. */
struct amounts_names {
	char gpu[AMOUNTS_NAME], memory[AMOUNTS_NAME], milli[AMOUNTS_NAME];
};

/* From `resource` and `domain` of the configuration. */
void amounts_name(struct amounts_names *names, const char *resource, const char *domain);

/* As the API server writes them, cut short if longer; "": not said. */
struct amounts_said {
	char gpu[AMOUNTS_TEXT], memory[AMOUNTS_TEXT], milli[AMOUNTS_TEXT];
	uint8_t kind; /* enum placement_kind */
};

/* The amounts that the scheduler counts for a container: its requests. */
struct amounts {
	uint64_t gpus, memory_bytes, milli; /* totals; 0: nothing */
};

/* Reads a container of a pod's spec. */
void amounts_take(const cJSON *container, const struct amounts_names *names,
		  struct amounts_said *ret_said);

/* A value that cannot be read counts as 0. */
struct amounts amounts_counted(const struct amounts_said *said);

/* Adds a pod's containers as kube-scheduler does: init containers run one by one, each beside the
 * sidecars that come before it in `said`. */
struct amounts amounts_of_pod(const struct amounts_said *said, size_t count);

/* Whether it has a part in a GPU at all, or says that it has. */
bool amounts_any(const struct amounts_said *said);

/* Per GPU, rounded down. -EINVAL: a sentence that begins with the name of the amount. */
must_check int amounts_split(const struct amounts_said *said, const struct amounts_names *names,
			     struct seating_container *ret_container, struct fault *why);
