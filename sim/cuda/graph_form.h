/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forms in which the driver's older functions describe a node. Each is the beginning of a
 * member of CUgraphNodeParams, whose further fields are zero.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "cuda/types.h"

enum graph_form {
#define FORM(name, type, member, form, context_at) GRAPH_FORM_##name,
#include "sim/cuda/graph_form.def"
#undef FORM
};

CUgraphNodeType graph_form_type(enum graph_form form);

/* `context` is of copies and sets, whose forms have none; the others ignore it. False: `given` is
 * NULL. */
must_check bool graph_form_read(enum graph_form form, const void *given, CUcontext context,
				CUgraphNodeParams *ret_params);

void graph_form_write(enum graph_form form, const CUgraphNodeParams *params, void *ret_given);
