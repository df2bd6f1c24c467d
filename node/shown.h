/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that meted shows over HTTP (page/), a separate library that is loaded only with --page.
 * This is the interface through which it sees meted.
 */
#pragma once

#include "node/daemon.h"

struct shown;

/* NULL if it is not configured. -errno with a sentence. */
must_check int shown_open(struct daemon *d, struct shown **ret_shown, struct fault *why);
/* NULL: does nothing. */
void shown_close(struct shown *shown);
/* Once the loop has ended. NULL: does nothing. */
void shown_free(struct shown *shown);
