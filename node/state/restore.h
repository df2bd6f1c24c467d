/* SPDX-License-Identifier: Apache-2.0 */
/* What a former meted has recorded becomes tenants and guests again: see the top of restore.c. */
#pragma once

#include "node/daemon.h"

must_check int restore_open(struct daemon *d, struct fault *why);
