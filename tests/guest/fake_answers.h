/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fake daemon (fake_meted.h) answers to a guest's messages, and the pages that it hands
 * out. Its lock is held by the caller.
 */
#pragma once

#include "tests/guest/fake_meted.h"

/* Ends the process, with the name of what failed, if `good` is 0. */
void fake_must(int good, const char *what);

/* A page of that name, mapped; returns its descriptor, which is the caller's. */
int fake_page_make(const struct fake *fake, const char *name, int read_only, void **ret_map);

/* The tenant's page, as the fake's fault has it. */
void fake_page_fill(struct fake *fake);

/* With `count` descriptors, at most 2. A guest that is gone does not hear it. */
void fake_send(int fd, const struct wire_message *message, const int *fds, int count);

/* PACE to the guest behind `fd`. */
void fake_tell_pace(int fd, int device);

/* Ends the connection. */
void fake_drop(struct fake *fake, struct fake_guest *g);

/* Ends the connection of a guest that goes on elsewhere, and states there what it holds. */
void fake_forget(struct fake *fake, struct fake_guest *g);

/* Answers CREDIT_ASK, or keeps it while the fake holds answers back. */
void fake_credit_ask(struct fake *fake, struct fake_guest *g, const struct wire_message *m);

/* Does what the message asks, and answers it. */
void fake_hear(struct fake *fake, struct fake_guest *g, const struct wire_message *m);

/* Refuses a connection, as a meted does that is out of descriptors: messages that were sent
 * meanwhile are not read. */
void fake_refuse_at_once(int fd);
