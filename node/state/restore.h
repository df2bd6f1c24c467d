/* SPDX-License-Identifier: Apache-2.0 */
/* Makes tenants and guests of a former meted's records: see the top of restore.c. */
#pragma once

#include "node/daemon.h"

must_check int restore_open(struct daemon *d, struct fault *why);
