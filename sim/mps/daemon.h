/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's daemon: its clients, and the commands that it knows. */
#pragma once

#include "base/macros.h"

/* Where it listens, and its clients look for it. */
const char *mps_folder(void);

/* Answers at this socket until it is told to quit. */
void mps_serve(int fd);
