/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training loop: two layers, forward, backward, update, on points of a known function. The
 * checksum is that of all weights: one lost or doubled step changes it. The loss must fall.
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

int main(int argc, char **argv)
{
	static const char *const settings[] = {"steps", "ballast", NULL};
	unsigned steps = (unsigned)workload_setting(argc, argv, "steps", 60);
	size_t ballast_bytes = workload_setting(argc, argv, "ballast", 0);
	float in[NETWORK_ROWS * NETWORK_INPUTS], target[NETWORK_ROWS * NETWORK_OUTPUTS];
	struct workload w;
	struct network network;
	CUdeviceptr ballast = 0;
	float first_loss = 0, last_loss;

	workload_begin(&w, "train", network_ptx, argc, argv, settings);
	network_init(&w, &network);
	/* Stands for the optimiser's state and activations of a model of real size. */
	if (ballast_bytes) {
		ballast = workload_alloc(&w, ballast_bytes);
		workload_try(&w, w.cuMemsetD8_v2(ballast, 7, ballast_bytes));
	}
	make_data(&w, in, target);
	network_set_data(&w, &network, in, target);
	for (unsigned step = 0; step < steps; step++) {
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
	if (ballast_bytes)
		workload_free(&w, ballast, ballast_bytes);
	return workload_end(&w, "steps=%u loss=%g->%g", steps, (double)first_loss,
			    (double)last_loss);
}
