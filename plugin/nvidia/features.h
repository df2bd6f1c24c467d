/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels that GPU feature discovery of NVIDIA's device plugin (v0.20) gives a node, with its
 * names and values: of whole GPUs and of parts by MIG, shared or not. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "core/part.h"

enum { FEATURE_VALUE = 64 }; /* of a label's value, with its NUL */

/* Parts of one kind, as a resource. */
struct features_kind {
	const char *resource; /* "mig-1g.10gb"; "gpu": with the strategy single */
	const char *profile;  /* "1g.10gb" */
	uint32_t count, replicas;
	bool renamed; /* shared under another name */
	const struct gpu_part *part;
};

/* Of virtual GPUs. */
struct features_vgpu {
	bool present;
	const char *driver, *branch; /* of the machine that has made them; "": not known */
};

struct features {
	const char *driver;    /* "580.65.06"; "": not reported */
	int cuda;	       /* 12090; 0: not reported */
	bool is_divisible;     /* a GPU of the node can be divided by MIG */
	const char *machine;   /* NULL: not known */
	const char *pci_class; /* "0x030200"; "": unknown, or not the same for all */
	uint64_t timestamp;    /* seconds since 1970; 0: no such label */
	/* Of the first GPU's model. */
	const char *model;
	uint32_t count; /* of GPUs of that model */
	uint64_t total_bytes;
	int cc_major, cc_minor;
	uint32_t replicas; /* of each; 1: it is not shared */
	bool renamed;	   /* shared under another name than nvidia.com/gpu */
	bool mps;	   /* shared by MPS, not by time slices */
	/* How parts are offered: "single", "mixed"; NULL: they are not. */
	const char *strategy;
	bool invalid; /* that does not go with how the GPUs are divided */
	uint32_t kinds;
	const char *clique; /* the NVLink domain of all GPUs and their clique there, "UUID.ID"; "":
			       none */
	const struct features_vgpu *vgpu; /* NULL: not known whether there are any */
	const struct features_kind *kind; /* with single, there are no whole GPUs beside one */
};

/* Calls each() for each label. */
void features_each(const struct features *features,
		   void (*each)(void *owner, const char *key, const char *value), void *owner);
