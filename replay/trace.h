/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster and its pods, read from the CSV files of Alibaba's openb trace
 * (cluster-trace-gpu-v2023): columns are found by their names in the first line.
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
	uint64_t models;	  /* bits; 0: any */
	bool best_effort;
	double lifetime_s; /* as recorded: deletion less creation; 0: not known */
};

struct replay_trace {
	struct replay_node *nodes; /* owned */
	struct replay_pod *pods;   /* owned */
	size_t nodes_size, pods_size;
	uint32_t models_size;
	char models[64][24];
};

/* -EINVAL: a line that is not what it should be; or csv_open()'s and malloc()'s errors. */
must_check int replay_trace_load(const char *nodes_csv, const char *pods_csv,
				 struct replay_trace *ret_trace, struct fault *why);
/* The same from open files; the names are for the sentences. */
must_check int replay_trace_read(FILE *nodes_file, const char *nodes_name, FILE *pods_file,
				 const char *pods_name, struct replay_trace *ret_trace,
				 struct fault *why);
/* Accepts a trace of zeros. */
void replay_trace_done(struct replay_trace *trace);
