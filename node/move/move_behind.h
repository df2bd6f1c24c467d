/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits at its gate for who does not make room. */
#pragma once

#include "node/daemon.h"

void move_look_behind(struct daemon *d);
