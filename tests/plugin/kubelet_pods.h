/* SPDX-License-Identifier: Apache-2.0 */
/* The containers that fake_kubelet.c's pod-resources knows, and which ids each of them has. */
#pragma once

#include <stddef.h>

#include "kube/grpc.h"

enum { KUBELET_HOLDERS_MAX = 512 };

struct kubelet_holder {
	char *namespace, *pod, *container;
	char **ids;
	size_t count;
};

/* All zero: none. */
struct kubelet_pods {
	struct kubelet_holder holders[KUBELET_HOLDERS_MAX];
	size_t count;
};

/* Words: NAMESPACE NAME CONTAINER ID...; without ids it is known no longer. */
void kubelet_pods_set(struct kubelet_pods *pods, char **words, size_t count);

/* Answers List: an entry for each id, as the kubelet has it. */
void kubelet_pods_answer(const struct kubelet_pods *pods, const char *resource,
			 struct grpc_call *call);

void kubelet_pods_done(struct kubelet_pods *pods);
