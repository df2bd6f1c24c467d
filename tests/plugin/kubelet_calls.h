/* SPDX-License-Identifier: Apache-2.0 */
/* The kubelet's calls to a device plugin, in fake_kubelet's words; what becomes of them is written
 * to standard output. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "base/list.h"
#include "kube/grpc.h"

enum { KUBELET_WORDS_MAX = 2048 };

struct kubelet_caller {
	struct grpc_client *endpoint; /* NULL: no plugin is registered */
	struct list *calls;	      /* that are under way */
};

/* "allocate", "prefer" or "start"; false: it is another verb. */
bool kubelet_call(const struct kubelet_caller *by, const char *tag, const char *verb, char **words,
		  size_t count);
/* The endpoint is gone. */
void kubelet_calls_abandon(struct list *calls);

/* Answers a call of the plugin with one message, and ends it. */
void kubelet_answer(struct grpc_call *call, const ProtobufCMessage *message);
