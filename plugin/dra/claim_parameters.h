/* SPDX-License-Identifier: Apache-2.0 */
/* A claim's or a class's parameters as they are written, for claim_config.c alone. */
#pragma once

#include "plugin/dra/claim.h"
#include "plugin/config/portion.h"

enum {
	PARAMETERS_FIELDS = SHARE_FIELDS, /* the first are share.def's ... */
	PARAMETERS_API = SHARE_FIELDS	  /* ... then come annotations.def's ... */
#define WORD(name, accepted) +1
#include "plugin/config/annotations.def"
#undef WORD
	,
	PARAMETERS = PARAMETERS_API + 2, /* ... and `apiVersion` and `kind` */
	PARAMETERS_VALUE = 64,
};

/* As texts, by their place in that order. */
struct parameters {
	char text[PARAMETERS][PARAMETERS_VALUE];
	bool has[PARAMETERS];
};

const char *parameters_name(size_t index);

/* Those of our driver from that source, "FromClass" or "FromClaim". Later entries replace what
 * earlier ones say of the same thing. -EINVAL with one sentence. */
must_check int parameters_read(const cJSON *allocation, const char *source,
			       const struct claim_place *place, const struct claim *claim,
			       struct parameters *given, struct fault *why);
