/* SPDX-License-Identifier: Apache-2.0 */
/* The two-layer network that the training loop and the inference server have in common. */
#pragma once

#include "examples/workload.h"
#include "examples/kernels/network.ptx.h"

enum {
	NETWORK_ROWS = 32,
	NETWORK_INPUTS = 16,
	NETWORK_HIDDEN = 32,
	NETWORK_OUTPUTS = 8,
};

struct network {
	CUdeviceptr in, hidden, out, target, error, hidden_error;
	CUdeviceptr weight[2], bias[2];
	CUfunction forward, gradient, backward, update;
	float *host_weight[2]; /* as they were at the start */
};

void network_init(struct workload *w, struct network *network);
void network_done(struct workload *w, struct network *network);
void network_set_data(struct workload *w, struct network *network, const float *in,
		      const float *target);
void network_forward(struct workload *w, struct network *network, CUstream stream);
void network_backward(struct workload *w, struct network *network, float rate);

/* All weights and biases into the checksum. */
void network_sum(struct workload *w, struct network *network);

/* The forward pass of one row on the host, in the device's order of sums: equal to the bit. */
void network_reference(const struct network *network, const float *in, float *out);
