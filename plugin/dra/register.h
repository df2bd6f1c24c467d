/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the kubelet gets to know the driver: it finds a socket in its folder plugins_registry, asks
 * there what this is, and is told where the driver's own socket is. A kubelet that starts looks
 * through that folder, so nothing here has to notice it.
 *
 * In a pod the sockets have the pod's UID in their names, because two pods of the DaemonSet may be
 * there during an update: the kubelet knows both, and calls the one that it has known for the
 * shorter time. So a stand-by (standby.h) is registered before its predecessor ends. What it is
 * asked for waits at its socket, without an answer to the connection, until it serves.
 */
#pragma once

#include "plugin/plugin.h"

struct dra;

struct registration {
	char driver[80], registration_path[PLUGIN_PATH], path[PLUGIN_PATH];
	struct grpc_server *server, *registry;
	bool registered;
	bool is_own;	 /* the paths are no other meted's: they have the pod's UID */
	struct dra *dra; /* that serves; NULL: a stand-by's */
	/* A stand-by's: the kubelet has answered. NULL: nobody wants to know. */
	void (*told)(void *owner);
	void *owner;
};

/* Of a stand-by. -ENOTUNIQ: its sockets would be those of the meted that serves. */
must_check int registration_await(struct plugin *p, const char *driver, void (*told)(void *owner),
				  void *owner, struct registration **ret_registration,
				  struct fault *why);
/* NULL: does nothing. */
void registration_free(struct registration *registration);
OWNED_POINTER(struct registration, registration_free)
