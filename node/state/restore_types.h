/* SPDX-License-Identifier: Apache-2.0 */
/* The state that comes from the meted before: restore.h, absent.h. */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/journal.h"

struct restore {
	struct journal journal;
	struct loop_timer grace; /* when to stop waiting for guests that have not come back */
	bool waiting;		 /* until then */
	struct list absent;	 /* absent.h */
	uint32_t absent_count;
};
