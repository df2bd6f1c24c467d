/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's own record of which container has which device ids
 * (/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint,
 * pkg/kubelet/cm/devicemanager/checkpoint of Kubernetes 1.20 to 1.36). It knows the pod's UID,
 * which the pod-resources API does not, and init containers. This is not a stable interface: if the
 * file cannot be read, nothing is known. Pure.
 */
#pragma once

#include "base/fault.h"

enum { CHECKPOINT_BYTES_MAX = 16 << 20 };

/* A container that has exactly these ids of the resource. Texts are lent. */
typedef void checkpoint_found(void *owner, const char *pod_uid, const char *container);

/* A resource that a device plugin registered, and that the kubelet still has. */
typedef void checkpoint_resource(void *owner, const char *resource);

/* An id that a container has. */
typedef void checkpoint_id(void *owner, const char *pod_uid, const char *id);

/* -EINVAL: it is not a checkpoint. `resource`: NULL: any, of checkpoint_given(). */
must_check int checkpoint_given(const char *text, size_t size, const char *resource,
				checkpoint_id *found, void *owner);
must_check int checkpoint_registered(const char *text, size_t size, checkpoint_resource *found,
				     void *owner);
must_check int checkpoint_look(const char *text, size_t size, const char *resource,
			       const char *const *ids, size_t count, checkpoint_found *found,
			       void *owner);
