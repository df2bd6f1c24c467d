/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/graph_form.h"

#include <stddef.h>
#include <string.h>

/* Where the form is in CUgraphNodeParams, and the context that belongs to it; 0: none. */
static const struct {
	CUgraphNodeType type;
	size_t at, bytes, context_at;
} forms[] = {
#define AT(member) offsetof(CUgraphNodeParams, member)
#define FORM(name, type, member, form, context_at)                                                 \
	{CU_GRAPH_NODE_TYPE_##type, AT(member), sizeof(form), context_at},
#include "sim/cuda/graph_form.def"
#undef FORM
#undef AT
};

CUgraphNodeType graph_form_type(enum graph_form form)
{
	return forms[form].type;
}

bool graph_form_read(enum graph_form form, const void *given, CUcontext context,
		     CUgraphNodeParams *ret_params)
{
	if (!given)
		return false;
	memset(ret_params, 0, sizeof(*ret_params));
	ret_params->type = forms[form].type;
	memcpy((char *)ret_params + forms[form].at, given, forms[form].bytes);
	if (forms[form].context_at)
		memcpy((char *)ret_params + forms[form].context_at, &context, sizeof(context));
	return true;
}

void graph_form_write(enum graph_form form, const CUgraphNodeParams *params, void *ret_given)
{
	memcpy(ret_given, (const char *)params + forms[form].at, forms[form].bytes);
}
