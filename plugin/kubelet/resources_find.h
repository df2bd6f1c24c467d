/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the kubelet's answer to List of its pod-resources API. Pure. */
#pragma once

#include "kube/proto/podresources.pb-c.h"
#include "plugin/kubelet/resources.h"

/* Finds the containers that have exactly these ids, at most `most`; texts are borrowed from the
 * answer. */
size_t resources_find(const V1__ListPodResourcesResponse *answer, const char *resource,
		      const char *const *ids, size_t count, struct resources_found *ret_found,
		      size_t most);
