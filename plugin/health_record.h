/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of meted's record of its devices' health, one for each device: a restarted meted goes
 * on from there. Pure.
 */
#pragma once

#include <stdio.h>

#include "core/health.h"

enum { HEALTH_RECORD_UUID = 80 };

struct health_record {
	char uuid[HEALTH_RECORD_UUID];
	struct health health;
};

void health_record_write(FILE *out, const char *uuid, const struct health *health);
/* -EINVAL: it is not such a line, or it cannot be of this boot. */
must_check int health_record_read(const char *line, uint64_t now_ns,
				  struct health_record *ret_record);
