/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Kubernetes part of meted (plugin/), a separate library that is loaded only with --kubernetes
 * FILE. This is the interface through which it handles tenants; it sees nothing else of meted.
 */
#pragma once

#include "base/handover.h"
#include "kube/right.h"
#include "node/daemon.h"

struct kubernetes;

/* NULL if it is not configured. -errno with a sentence: the library or the file is invalid. */
must_check int kubernetes_open(struct daemon *d, struct kubernetes **ret_kubernetes,
			       struct fault *why);
/* NULL: does nothing. Tenants stay for our successor. */
void kubernetes_close(struct kubernetes *k);
/* We are about to end: the sockets with which the meted that stands by (standby.h) is to go on.
 * Lent. False: there are none, as for NULL. */
must_check bool kubernetes_give(struct kubernetes *k, struct handover_sockets *ret_sockets);
/* In a meted that stands by: does it go on with the serving one's sockets? Lent. NULL: no. */
must_check bool kubernetes_inherit(struct kubernetes *k, const struct handover_sockets *sockets);
/* We are about to end. `given`: the meted that stands by goes on with the sockets. True:
 * standby_finished() is called when the kubelet's calls are answered. NULL: false. */
must_check bool kubernetes_finish(struct kubernetes *k, bool given);
/* Closed, but it has not ended: it may be telling the API server. */
bool kubernetes_is_leaving(const struct kubernetes *k);
/* Questions to the API server: plugin/host.h. -ENOTCONN: this is no node of Kubernetes. */
must_check int kubernetes_who(struct daemon *d, const char *token, const char *audience,
			      right_told *told, void *owner, struct right_asked **ret_asked);
must_check int kubernetes_may(struct daemon *d, const char *user, const struct right *right,
			      right_told *told, void *owner, struct right_asked **ret_asked);
void kubernetes_forget(struct daemon *d, struct right_asked *asked);
/* The file that a guest loads as that library (enum wire_library); -1: nothing is handed out.
 * Borrowed. */
int kubernetes_driver(const struct kubernetes *k, uint32_t library);
/* Once the loop has ended. NULL: does nothing. */
void kubernetes_free(struct kubernetes *k);
OWNED_POINTER(struct kubernetes, kubernetes_free)
