/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of loop_watch.c for loop.c. */
#pragma once

#include "base/loop.h"

must_check int loop_watches_open(struct loop *loop);
/* Nothing is watched any more. The loop must run once afterwards. */
void loop_watches_close(struct loop *loop);
