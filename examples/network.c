/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/network.h"

#include <math.h>

static const size_t layer_inputs[] = {NETWORK_INPUTS, NETWORK_HIDDEN};
static const size_t layer_outputs[] = {NETWORK_HIDDEN, NETWORK_OUTPUTS};

static size_t bytes_of(size_t floats)
{
	return floats * sizeof(float);
}

/* Every buffer of the network with its number of floats, so that making, summing and
 * freeing agree. */
static size_t buffers(struct network *n, CUdeviceptr *pointer[10], size_t floats[10])
{
	CUdeviceptr *all[] = {&n->in,	   &n->hidden,	     &n->out,	    &n->target,
			      &n->error,   &n->hidden_error, &n->weight[0], &n->weight[1],
			      &n->bias[0], &n->bias[1]};
	size_t sizes[] = {
		NETWORK_ROWS * NETWORK_INPUTS,
		NETWORK_ROWS * NETWORK_HIDDEN,
		NETWORK_ROWS * NETWORK_OUTPUTS,
		NETWORK_ROWS * NETWORK_OUTPUTS,
		NETWORK_ROWS * NETWORK_OUTPUTS,
		NETWORK_ROWS * NETWORK_HIDDEN,
		NETWORK_INPUTS * NETWORK_HIDDEN,
		NETWORK_HIDDEN * NETWORK_OUTPUTS,
		NETWORK_HIDDEN,
		NETWORK_OUTPUTS,
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		pointer[i] = all[i];
		floats[i] = sizes[i];
	}
	return ARRAY_SIZE(all);
}

void network_init(struct workload *w, struct network *network)
{
	CUdeviceptr *pointer[10];
	size_t floats[10], n = buffers(network, pointer, floats);

	network->forward = workload_kernel(w, "layer_forward");
	network->gradient = workload_kernel(w, "loss_gradient");
	network->backward = workload_kernel(w, "layer_backward");
	network->update = workload_kernel(w, "layer_update");
	for (size_t i = 0; i < n; i++) {
		*pointer[i] = workload_alloc(w, bytes_of(floats[i]));
		workload_try(w, w->cuMemsetD32_v2(*pointer[i], 0, floats[i]));
	}
	for (int layer = 0; layer < 2; layer++) {
		size_t count = layer_inputs[layer] * layer_outputs[layer];
		float *weight = malloc(bytes_of(count));

		if (!weight)
			workload_fail(w, "no memory for the weights");
		for (size_t i = 0; i < count; i++)
			weight[i] = workload_random_unit(w) * 0.4f;
		workload_try(w,
			     w->cuMemcpyHtoD_v2(network->weight[layer], weight, bytes_of(count)));
		network->host_weight[layer] = weight;
	}
}

void network_done(struct workload *w, struct network *network)
{
	CUdeviceptr *pointer[10];
	size_t floats[10], n = buffers(network, pointer, floats);

	for (size_t i = 0; i < n; i++)
		workload_free(w, *pointer[i], bytes_of(floats[i]));
	free(network->host_weight[0]);
	free(network->host_weight[1]);
}

void network_set_data(struct workload *w, struct network *network, const float *in,
		      const float *target)
{
	workload_try(w,
		     w->cuMemcpyHtoD_v2(network->in, in, bytes_of(NETWORK_ROWS * NETWORK_INPUTS)));
	if (target)
		workload_try(w, w->cuMemcpyHtoD_v2(network->target, target,
						   bytes_of(NETWORK_ROWS * NETWORK_OUTPUTS)));
}

void network_forward(struct workload *w, struct network *network, CUstream stream)
{
	CUdeviceptr *in[] = {&network->in, &network->hidden};
	CUdeviceptr *out[] = {&network->hidden, &network->out};
	unsigned rows = NETWORK_ROWS;

	for (unsigned layer = 0; layer < 2; layer++) {
		unsigned inputs = (unsigned)layer_inputs[layer];
		unsigned outputs = (unsigned)layer_outputs[layer], relu = layer == 0;

		workload_launch(w, stream, network->forward, (size_t)rows * outputs,
				(void *[]){in[layer], &network->weight[layer],
					   &network->bias[layer], out[layer], &rows, &inputs,
					   &outputs, &relu});
	}
}

void network_backward(struct workload *w, struct network *network, float rate)
{
	unsigned rows = NETWORK_ROWS, inputs = NETWORK_INPUTS, hidden = NETWORK_HIDDEN;
	unsigned outputs = NETWORK_OUTPUTS;

	workload_launch(
		w, NULL, network->gradient, (size_t)rows * outputs,
		(void *[]){&network->out, &network->target, &network->error, &rows, &outputs});
	workload_launch(w, NULL, network->backward, (size_t)rows * hidden,
			(void *[]){&network->error, &network->weight[1], &network->hidden,
				   &network->hidden_error, &rows, &hidden, &outputs});
	workload_launch(w, NULL, network->update, (size_t)(hidden + 1) * outputs,
			(void *[]){&network->hidden, &network->error, &network->weight[1],
				   &network->bias[1], &rows, &hidden, &outputs, &rate});
	workload_launch(w, NULL, network->update, (size_t)(inputs + 1) * hidden,
			(void *[]){&network->in, &network->hidden_error, &network->weight[0],
				   &network->bias[0], &rows, &inputs, &hidden, &rate});
}

void network_sum(struct workload *w, struct network *network)
{
	CUdeviceptr parts[] = {network->weight[0], network->weight[1], network->bias[0],
			       network->bias[1]};
	size_t floats[] = {NETWORK_INPUTS * NETWORK_HIDDEN, NETWORK_HIDDEN * NETWORK_OUTPUTS,
			   NETWORK_HIDDEN, NETWORK_OUTPUTS};
	float copy[NETWORK_INPUTS * NETWORK_HIDDEN];

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		workload_try(w, w->cuMemcpyDtoH_v2(copy, parts[i], bytes_of(floats[i])));
		workload_sum(w, copy, bytes_of(floats[i]));
	}
}

void network_reference(const struct network *network, const float *in, float *out)
{
	float hidden[NETWORK_HIDDEN];

	for (size_t column = 0; column < NETWORK_HIDDEN; column++) {
		float sum = 0;

		for (size_t k = 0; k < NETWORK_INPUTS; k++)
			sum = fmaf(in[k], network->host_weight[0][k * NETWORK_HIDDEN + column],
				   sum);
		hidden[column] = sum < 0 ? 0 : sum;
	}
	for (size_t column = 0; column < NETWORK_OUTPUTS; column++) {
		float sum = 0;

		for (size_t k = 0; k < NETWORK_HIDDEN; k++)
			sum = fmaf(hidden[k], network->host_weight[1][k * NETWORK_OUTPUTS + column],
				   sum);
		out[column] = sum;
	}
}
