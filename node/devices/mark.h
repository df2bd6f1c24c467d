/* SPDX-License-Identifier: Apache-2.0 */
/* Lets several meteds that share out one device notice each other: see the top of mark.c. */
#pragma once

#include "node/daemon.h"

must_check int mark_open(struct daemon *d);
void mark_close(struct daemon *d);
/* Tries again if a device's mark could not be taken. */
void mark_again(struct daemon *d);
/* Adds a text line for each device that another meted also shares out. */
void mark_trouble(const struct daemon *d, char *text, size_t size);
