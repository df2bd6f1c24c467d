/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster and its pods, read from the CSV files of Alibaba's openb trace
 * (cluster-trace-gpu-v2023). Columns are found by their names in the first line.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"

struct replay_node {
	uint32_t cpu_milli, memory_mib;
	uint8_t gpus, model;
};

struct replay_pod {
	uint32_t cpu_milli, memory_mib;
	uint32_t gpus, gpu_milli; /* per GPU */
	uint64_t models;	  /* a set of bits; 0: any model */
	bool best_effort;
	double lifetime_s; /* the recorded one: deletion minus creation; 0: unknown */
};

struct replay_trace {
	struct replay_node *nodes; /* owned */
	struct replay_pod *pods;   /* owned */
	size_t nodes_size, pods_size;
	uint32_t models_size;
	char models[64][24];
};

/* -EINVAL: a malformed line; otherwise the errors of csv_open() and malloc(). */
must_check int replay_trace_load(const char *nodes_csv, const char *pods_csv,
				 struct replay_trace *ret_trace, struct fault *why);
/* The same, from open files. The names are for error messages. */
must_check int replay_trace_read(FILE *nodes_file, const char *nodes_name, FILE *pods_file,
				 const char *pods_name, struct replay_trace *ret_trace,
				 struct fault *why);
/* Also accepts a trace of all zeros. */
void replay_trace_done(struct replay_trace *trace);
