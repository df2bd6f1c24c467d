/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the kubelet gets to know the driver: it finds a socket in its folder plugins_registry, asks
 * there what this is, and is told where the driver's own socket is. A kubelet that starts looks
 * through that folder, so nothing here has to notice it.
 *
 * In a pod the sockets have the pod's UID in their names, because two pods of the DaemonSet may be
 * there during an update. Who stands by (standby.h) gets the sockets of who serves, when that ends:
 * the kubelet knows one driver all the time. What it asks for in between waits at the socket,
 * without an answer to the connection, until somebody serves.
 */
#pragma once

#include "plugin/plugin.h"

struct dra;

struct registration {
	char driver[80];
	struct grpc_server *server, *registry;
	bool registered;
	struct dra *dra;  /* that serves; NULL: a stand-by has it */
	unsigned leaving; /* servers of which callers take leave */
};

enum { REGISTRATION_METHODS = 2 };

extern const struct grpc_method registration_methods[REGISTRATION_METHODS];

/* Without sockets. NULL: out of memory. */
struct registration *registration_new(const char *driver, struct dra *dra);
/* Do the paths still lead to our sockets? */
bool registration_is_reachable(const struct registration *registration);
/* NULL: does nothing. */
void registration_free(struct registration *registration);
OWNED_POINTER(struct registration, registration_free)
