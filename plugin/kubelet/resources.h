/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which container holds which ids, from the kubelet's pod-resources API. Requests during a call
 * share the next call, so that an answer is never older than its request.
 */
#pragma once

#include "base/list.h"
#include "kube/grpc.h"

struct resources;

must_check int resources_open(struct loop *loop, const char *socket,
			      struct resources **ret_resources, struct fault *why);
void resources_close(struct resources *resources);

/* A container that has exactly the ids that are asked for. Texts are lent. */
struct resources_found {
	const char *namespace, *pod, *container;
};

struct resources_ask {
	struct list link; /* not linked: nothing was asked */
	/* `problem`: the kubelet did not answer; otherwise `found` lists the holders, at most
	 * one entry per container. The loop calls it once; resources_want() may be called
	 * inside. */
	void (*answered)(struct resources_ask *ask, const char *problem,
			 const struct resources_found *found, size_t count);
	const char *resource, *const *ids; /* borrowed */
	size_t count;
};

/* It must not be linked. */
void resources_want(struct resources *resources, struct resources_ask *ask);
void resources_forget(struct resources_ask *ask);
