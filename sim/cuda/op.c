/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/op.h"

#include <string.h>

void op_move(struct op *to, struct op *from)
{
	*to = *from;
	memset(from, 0, sizeof(*from));
}

CUresult op_clone(const struct op *from, struct op *ret_op)
{
	const struct op_methods *methods = &op_kinds[from->kind];
	struct op to = {.kind = from->kind, .context = from->context};
	CUresult result = CUDA_SUCCESS;

	if (methods->never_in_graph)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (methods->clone)
		result = methods->clone(from, &to);
	else
		to = *from;
	if (result == CUDA_SUCCESS)
		*ret_op = to;
	return result;
}

void op_done(struct op *op)
{
	if (op_kinds[op->kind].done)
		op_kinds[op->kind].done(op);
	memset(op, 0, sizeof(*op));
}
