/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether containers get their devices through CDI (`cdi: auto`). The kubelet passes on
 * names of CDI devices since 1.29. containerd reads CDI files by default since 2.0, and since 1.7
 * if configured; CRI-O always does. Unknown versions are assumed to support it. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"

struct cdi_facts {
	const char *config;  /* containerd's file; NULL: it was not found */
	const char *runtime; /* "containerd://1.7.27", as the kubelet reports it; NULL: unknown */
	const char *kubelet; /* "v1.36.2"; NULL: unknown */
	bool folder;	     /* the folder of CDI files exists */
};

/* The reason is always set. */
bool cdi_choice(const struct cdi_facts *facts, struct fault *ret_reason);

/* Reads containerd's file below that root, where distributions have it; newly allocated. NULL: none
 * can be read. Not pure. */
char *cdi_config(const char *root);
