/* SPDX-License-Identifier: Apache-2.0 */
/* The sockets of who stands by; those of who serves are in inside.h. */
#pragma once

#include "plugin/dra/registration.h"

/* Of a stand-by. -ENOTUNIQ: its sockets would be those of the meted that serves. */
must_check int registration_await(struct plugin *p, const char *driver, void (*told)(void *owner),
				  void *owner, struct registration **ret_registration,
				  struct fault *why);
