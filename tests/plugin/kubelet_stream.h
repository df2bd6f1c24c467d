/* SPDX-License-Identifier: Apache-2.0 */
/* A gRPC call whose answer is a stream of messages, as ListAndWatch is: what kube/grpc.h's client,
 * which never makes one, leaves out. */
#pragma once

#include "kube/grpc.h"

struct kubelet_stream;

/* heard(): a message; lent. ended(): nothing follows, the stream is freed when it returns. From the
 * loop. */
must_check int kubelet_stream_open(struct loop *loop, const char *socket, const char *path,
				   void (*heard)(void *owner, struct grpc_bytes message),
				   void (*ended)(void *owner, struct kubelet_stream *stream),
				   void *owner, struct kubelet_stream **ret_stream);
/* ended() follows. */
void kubelet_stream_end(struct kubelet_stream *stream);
