/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's daemon: its clients, and the commands that it knows. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/macros.h"

/* Where it listens, and its clients look for it. */
const char *mps_folder(void);
/* A socket "control" in this folder, which everybody may connect to; -1: there is none. */
int mps_listen(const char *folder);
/* It speaks protocol 3 (names.h). */
bool mps_is_newer(void);
bool mps_is_multiuser(void);

/* Answers at this socket until it is told to quit. */
void mps_serve(int fd);

/* A process that does nothing: the simulated device divides itself. */
pid_t mps_begin_server(void);
void mps_end_server(pid_t server);

/* Of a namespace (names.h). */
bool mps_has_clients(int name);
void mps_print_clients(int name, const char *server, const char *namespace, char *answer);
/* At the answer's end. */
void mps_print(char *answer, const char *format, ...) printf_like(2, 3);
