/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace from foreign files: the bytes up to the first zero are the nodes, the rest the pods. What
 * is accepted is within what placement takes, and a machine can be made of it.
 */
#include <string.h>

#include "replay/openb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *zero = memchr(data, 0, size);
	size_t first = zero ? (size_t)(zero - data) : size;
	owned(fclose) FILE *nodes = first ? fmemopen((void *)data, first, "r") : NULL;
	owned(fclose) FILE *pods =
		first + 1 < size ? fmemopen((void *)(data + first + 1), size - first - 1, "r")
				 : NULL;
	struct cluster_run run = {.policy = PLACEMENT_FORESIGHT, .overcommit_milli = 1250};
	struct replay_trace trace;
	struct fault why;

	if (!nodes || !pods)
		return 0;
	if (replay_trace_read(nodes, "nodes", pods, "pods", &trace, &why) < 0) {
		if (!why.text[0])
			abort();
		return 0;
	}
	for (size_t i = 0; i < trace.nodes_size; i++)
		if (trace.nodes[i].gpus > PLACEMENT_DEVICES ||
		    trace.nodes[i].model >= trace.models_size)
			abort();
	for (size_t i = 0; i < trace.pods_size; i++) {
		struct placement_request request;

		cluster_request(&trace.pods[i], &run, &request);
		if (trace.models_size < 64 && trace.pods[i].models >> trace.models_size)
			abort();
		if (placement_valid(&request) < 0 && trace.pods[i].gpus)
			abort();
	}
	replay_trace_done(&trace);
	return 0;
}
