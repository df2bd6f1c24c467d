/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the guest's own: detached, with every signal blocked, and with a stack on which the
 * driver can run. */
#pragma once

#include "base/macros.h"

/* 0; -errno. */
must_check int threads_start(void *(*run)(void *unused_argument));
