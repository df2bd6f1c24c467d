/* SPDX-License-Identifier: Apache-2.0 */
/* Which guest a process is, if any, and whether the process runs the program still that joined. */
#pragma once

#include "node/tenants/guest_types.h"
#include "wire/wire.h"

struct caller;
struct daemon;

/* A new guest: it is found by its process from now on. */
void guest_index(struct guest *g);
/* NULL: the process is no guest of this tenant. */
struct guest *guest_find(const struct tenant *t, const struct process_identity *process);
bool guest_is_known(const struct tenant *t, const struct process_identity *process);
bool guest_was_replaced(const struct guest *g);
/* Does another copy of the library serve the calling process? Each copy would state its own
 * inventory, and the other copy's grants would not be recorded. */
bool guest_is_another(const struct caller *c, const struct wire_hello *hello);
/* It is said to be another copy, and may be another program: the former one's memory is there
 * still. Somebody may be looking at that just now, or the process pretends. */
bool guest_is_unclear(const struct caller *c, const struct wire_hello *hello);
/* Is the process a guest of another tenant? All that it holds would count twice. */
bool guest_is_elsewhere(const struct tenant *t, const struct process_identity *process);
/* process_open_memory(). -EMFILE: guests get no further descriptor. */
must_check int guest_open_memory(const struct daemon *d, pid_t pid);
/* Does the process run the program still that has called? execve() ends its connection. */
bool guest_still_calls(const struct caller *c);
