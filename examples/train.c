/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training loop: two layers, forward, backward, update, on points of a known function. The
 * checksum is that of all weights: one lost or doubled step changes it. The loss must fall. With
 * stdin=1 it waits for a line of input half way, and before it gives its ballast back; with
 * segments=1 it maps its memory itself, as PyTorch's expandable segments do.
 */
#include "examples/network.h"

static float loss(struct workload *w, struct network *network, const float *target)
{
	size_t n = (size_t)NETWORK_ROWS * NETWORK_OUTPUTS;
	float out[NETWORK_ROWS * NETWORK_OUTPUTS], sum = 0;

	workload_try(w, w->cuMemcpyDtoH_v2(out, network->out, sizeof(out)));
	for (size_t i = 0; i < n; i++)
		sum += (out[i] - target[i]) * (out[i] - target[i]);
	return sum / (float)n;
}

/* What the network is to learn: smooth, and not linear. */
static void make_data(struct workload *w, float *in, float *target)
{
	for (int row = 0; row < NETWORK_ROWS; row++) {
		float *x = in + row * NETWORK_INPUTS, *y = target + row * NETWORK_OUTPUTS;

		for (int k = 0; k < NETWORK_INPUTS; k++)
			x[k] = workload_random_unit(w);
		for (int k = 0; k < NETWORK_OUTPUTS; k++)
			y[k] = x[k] * x[k + 1] + 0.5f * x[k + 2];
	}
}

/* Stands for the optimiser's state and activations of a model of real size: each part is written
 * differently, and is as it was written in the end. */
enum { PART_BYTES = 1 << 20 };

static unsigned char part_value(size_t at)
{
	return (unsigned char)(at / PART_BYTES * 37 + 7);
}

static void write_ballast(struct workload *w, CUdeviceptr ballast, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += PART_BYTES)
		workload_try(w,
			     w->cuMemsetD8_v2(ballast + at, part_value(at),
					      bytes - at < PART_BYTES ? bytes - at : PART_BYTES));
}

static void check_ballast(struct workload *w, CUdeviceptr ballast, size_t bytes)
{
	static unsigned char part[PART_BYTES];

	for (size_t at = 0; at < bytes; at += PART_BYTES) {
		size_t n = bytes - at < PART_BYTES ? bytes - at : PART_BYTES;

		workload_try(w, w->cuMemcpyDtoH_v2(part, ballast + at, n));
		for (size_t i = 0; i < n; i++)
			if (part[i] != part_value(at))
				workload_fail(w, "byte %zu of the ballast is %u, wanted %u", at + i,
					      part[i], part_value(at));
	}
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"steps", "ballast", "stdin", "segments", NULL};
	unsigned steps = (unsigned)workload_setting(argc, argv, "steps", 60);
	size_t ballast_bytes = workload_setting(argc, argv, "ballast", 0);
	bool by_stdin = workload_setting(argc, argv, "stdin", 0) != 0;
	float in[NETWORK_ROWS * NETWORK_INPUTS], target[NETWORK_ROWS * NETWORK_OUTPUTS];
	struct workload w;
	struct network network;
	CUdeviceptr ballast = 0;
	float first_loss = 0, last_loss;

	workload_begin(&w, "train", network_ptx, argc, argv, settings);
	w.segments = workload_setting(argc, argv, "segments", 0) != 0;
	network_init(&w, &network);
	if (ballast_bytes) {
		ballast = workload_alloc(&w, ballast_bytes);
		write_ballast(&w, ballast, ballast_bytes);
	}
	make_data(&w, in, target);
	network_set_data(&w, &network, in, target);
	for (unsigned step = 0; step < steps; step++) {
		if (by_stdin && step == steps / 2)
			workload_pause(&w, "half way");
		network_forward(&w, &network, NULL);
		if (step == 0)
			first_loss = loss(&w, &network, target);
		network_backward(&w, &network, 0.2f);
	}
	network_forward(&w, &network, NULL);
	last_loss = loss(&w, &network, target);
	if (!(last_loss < first_loss) && steps)
		workload_fail(&w, "the loss went from %g to %g: nothing was learned",
			      (double)first_loss, (double)last_loss);
	network_sum(&w, &network);
	network_done(&w, &network);
	if (ballast_bytes) {
		check_ballast(&w, ballast, ballast_bytes);
		if (by_stdin)
			workload_pause(&w, "done");
		workload_free(&w, ballast, ballast_bytes);
	}
	return workload_end(&w, "steps=%u loss=%g->%g", steps, (double)first_loss,
			    (double)last_loss);
}
