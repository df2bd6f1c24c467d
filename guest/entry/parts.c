/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/parts.h"

#include <stddef.h>

#define PART(name) extern const struct guest_part name##_part;
#include "guest/entry/parts.def"
#undef PART

const struct guest_part *const guest_parts[] = {
#define PART(name) &name##_part,
#include "guest/entry/parts.def"
#undef PART
	NULL,
};
