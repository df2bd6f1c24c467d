/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time in which meted itself did not run: it was stopped, starved, or its machine stood still. What
 * guests said meanwhile has not been read, so that this time counts for nobody's patience.
 */
#pragma once

#include "node/daemon.h"

must_check int lost_open(struct daemon *d);
void lost_close(struct daemon *d);
