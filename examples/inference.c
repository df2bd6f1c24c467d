/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An inference server's loop: requests arrive as a Poisson process (rate=PER SECOND), each is a
 * batch through the network; every answer is compared with the host's. Late arrivals queue. Prints
 * the latency from arrival to answer.
 *
 * weights=BYTES: it has so much more in tables of `layer` bytes, which are written once; each
 * request reads a row of them, and compares it.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "examples/network.h"

enum { ROW_WORDS = 1024 };

struct weights {
	size_t layers, layer_bytes;
	CUdeviceptr *layer;
};

static uint32_t word_of(size_t layer, size_t at)
{
	return (uint32_t)(layer * 40503 + at) * 2654435761u;
}

static void weights_init(struct workload *w, struct weights *weights, size_t bytes, size_t layer)
{
	uint32_t *words;

	weights->layer_bytes = layer / (ROW_WORDS * 4) * (ROW_WORDS * 4);
	if (weights->layer_bytes == 0)
		workload_fail(w, "layer must be at least %d", ROW_WORDS * 4);
	weights->layers = (bytes + weights->layer_bytes - 1) / weights->layer_bytes;
	weights->layer = calloc(weights->layers + 1, sizeof(*weights->layer));
	words = malloc(weights->layer_bytes);
	if (!weights->layer || !words)
		workload_fail(w, "no memory for the weights");
	for (size_t i = 0; i < weights->layers; i++) {
		for (size_t at = 0; at < weights->layer_bytes / 4; at++)
			words[at] = word_of(i, at);
		weights->layer[i] = workload_alloc(w, weights->layer_bytes);
		workload_try(w, w->cuMemcpyHtoD_v2(weights->layer[i], words, weights->layer_bytes));
	}
	free(words);
}

static void weights_check(struct workload *w, const struct weights *weights, CUstream stream,
			  uint32_t *pinned)
{
	size_t layer, row;

	if (weights->layers == 0)
		return;
	layer = workload_random(w) % weights->layers;
	row = workload_random(w) % (weights->layer_bytes / (ROW_WORDS * 4));
	workload_try(w, w->cuMemcpyDtoHAsync_v2(pinned, weights->layer[layer] + row * ROW_WORDS * 4,
						(size_t)ROW_WORDS * 4, stream));
	workload_try(w, w->cuStreamSynchronize(stream));
	for (size_t i = 0; i < ROW_WORDS; i++)
		if (pinned[i] != word_of(layer, row * ROW_WORDS + i))
			workload_fail(w, "word %zu of row %zu of layer %zu has changed", i, row,
				      layer);
}

static void weights_done(struct workload *w, struct weights *weights)
{
	for (size_t i = 0; i < weights->layers; i++)
		workload_free(w, weights->layer[i], weights->layer_bytes);
	free(weights->layer);
}

static void wait_until(uint64_t then_ns)
{
	struct timespec then = {(time_t)(then_ns / 1000000000u), (long)(then_ns % 1000000000u)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL) == EINTR)
		;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void serve(struct workload *w, struct network *network, CUstream stream, float *pinned)
{
	float *in = pinned, *out = pinned + NETWORK_ROWS * NETWORK_INPUTS;
	float wanted[NETWORK_OUTPUTS];

	for (size_t i = 0; i < NETWORK_ROWS * NETWORK_INPUTS; i++)
		in[i] = workload_random_unit(w);
	workload_try(w, w->cuMemcpyHtoDAsync_v2(network->in, in,
						NETWORK_ROWS * NETWORK_INPUTS * sizeof(float),
						stream));
	network_forward(w, network, stream);
	workload_try(w, w->cuMemcpyDtoHAsync_v2(out, network->out,
						NETWORK_ROWS * NETWORK_OUTPUTS * sizeof(float),
						stream));
	workload_try(w, w->cuStreamSynchronize(stream));
	for (size_t row = 0; row < NETWORK_ROWS; row++) {
		network_reference(network, in + row * NETWORK_INPUTS, wanted);
		/* To the bit: equal is equal. NOLINTNEXTLINE(*-memory-comparison,cert-*) */
		if (memcmp(wanted, out + row * NETWORK_OUTPUTS, sizeof(wanted)) != 0)
			workload_fail(w, "row %zu of an answer differs from the host's", row);
	}
	workload_sum(w, out, NETWORK_ROWS * NETWORK_OUTPUTS * sizeof(float));
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"requests", "rate", "weights", "layer", NULL};
	size_t requests = workload_setting(argc, argv, "requests", 50);
	double rate = (double)workload_setting(argc, argv, "rate", 200);
	uint64_t *latency_ns = calloc(requests + 1, sizeof(*latency_ns));
	struct workload w;
	struct network network;
	struct weights weights;
	uint64_t arrival_ns;
	CUstream stream;
	void *pinned, *row;

	workload_begin(&w, "inference", network_ptx, argc, argv, settings);
	if (!latency_ns || requests == 0 || rate <= 0)
		workload_fail(&w, "requests and rate must be positive");
	network_init(&w, &network);
	weights_init(&w, &weights, workload_setting(argc, argv, "weights", 0),
		     workload_setting(argc, argv, "layer", 8 << 20));
	workload_try(&w, w.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	workload_try(&w, w.cuMemHostAlloc(&pinned,
					  NETWORK_ROWS * (NETWORK_INPUTS + NETWORK_OUTPUTS) *
						  sizeof(float),
					  0));
	workload_try(&w, w.cuMemHostAlloc(&row, (size_t)ROW_WORDS * 4, 0));
	/* The weights were set on the default stream, which this one does not wait for. */
	workload_try(&w, w.cuCtxSynchronize());
	arrival_ns = workload_now_ns();
	for (size_t i = 0; i < requests; i++) {
		/* Exponential gaps make a Poisson process. */
		double unit = ((double)(workload_random(&w) >> 11) + 1) / 9007199254740993.0;

		arrival_ns += (uint64_t)(-log(unit) / rate * 1e9);
		wait_until(arrival_ns);
		serve(&w, &network, stream, pinned);
		weights_check(&w, &weights, stream, row);
		latency_ns[i] = workload_now_ns() - arrival_ns;
	}
	qsort(latency_ns, requests, sizeof(*latency_ns), by_value);
	workload_try(&w, w.cuMemFreeHost(pinned));
	workload_try(&w, w.cuMemFreeHost(row));
	workload_try(&w, w.cuStreamDestroy_v2(stream));
	weights_done(&w, &weights);
	network_done(&w, &network);
	return workload_end(&w, "requests=%zu p50_us=%llu p99_us=%llu", requests,
			    (unsigned long long)latency_ns[requests / 2] / 1000,
			    (unsigned long long)latency_ns[requests * 99 / 100] / 1000);
}
