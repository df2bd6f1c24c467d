/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A two-layer network, forward and backward. Every sum is taken in one order by one thread, so that
 * results are the same to the last bit wherever and beside whomever it runs.
 */
#include "device.h"

/* out[row][column] = max(0, in[row] . weight[column] + bias[column]); linear where !relu. */
KERNEL layer_forward(const float *in, const float *weight, const float *bias, float *out,
		     unsigned rows, unsigned inputs, unsigned outputs, unsigned relu)
{
	for (unsigned i = first(); i < rows * outputs; i += stride()) {
		unsigned row = i / outputs, column = i % outputs;
		float sum = bias[column];

		for (unsigned k = 0; k < inputs; k++)
			sum = __nvvm_fma_rn_f(in[row * inputs + k], weight[k * outputs + column], sum);
		out[i] = relu && sum < 0 ? 0.0f : sum;
	}
}

/* error = (out - target) / rows */
KERNEL loss_gradient(const float *out, const float *target, float *error, unsigned rows,
		     unsigned outputs)
{
	float scale = 1.0f / (float)rows;

	for (unsigned i = first(); i < rows * outputs; i += stride())
		error[i] = (out[i] - target[i]) * scale;
}

/* The error at this layer's input, through its weights and the relu before it. */
KERNEL layer_backward(const float *error, const float *weight, const float *activation,
		      float *input_error, unsigned rows, unsigned inputs, unsigned outputs)
{
	for (unsigned i = first(); i < rows * inputs; i += stride()) {
		unsigned row = i / inputs, k = i % inputs;
		float sum = 0;

		for (unsigned column = 0; column < outputs; column++)
			sum = __nvvm_fma_rn_f(error[row * outputs + column],
					      weight[k * outputs + column], sum);
		input_error[i] = activation[i] > 0 ? sum : 0.0f;
	}
}

/* weight -= rate * in^T . error, and the bias likewise (its "input" is 1). */
KERNEL layer_update(const float *in, const float *error, float *weight, float *bias, unsigned rows,
		    unsigned inputs, unsigned outputs, float rate)
{
	for (unsigned i = first(); i < (inputs + 1) * outputs; i += stride()) {
		unsigned k = i / outputs, column = i % outputs;
		float sum = 0;

		for (unsigned row = 0; row < rows; row++)
			sum = __nvvm_fma_rn_f(k < inputs ? in[row * inputs + k] : 1.0f,
					      error[row * outputs + column], sum);
		if (k < inputs)
			weight[i] = __nvvm_fma_rn_f(-rate, sum, weight[i]);
		else
			bias[column] = __nvvm_fma_rn_f(-rate, sum, bias[column]);
	}
}
