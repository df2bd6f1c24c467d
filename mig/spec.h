/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                          mig/spec.h
 * NVIDIA's mig-parted configuration file (version v1), which also mig-manager and the GPU Operator
 * read: named configurations, each a list of rows that say which GPUs are divided into what. Pure.
 *
 *	version: v1
 *	mig-configs:
 *	  NAME:
 *	  - device-filter: ["0x233010DE"]     # what the PCI bus calls the model; missing: any
 *	    devices: all                      # or a list of indices, as nvidia-smi counts
 *	    mig-enabled: true
 *	    mig-devices: {"1g.10gb": 7}
 *
 * The format is that of mig-parted v0.15.0, api/spec/v1 and pkg/types
 *(github.com/NVIDIA/mig-parted).
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"

enum {
	MIG_SPEC_BYTES_MAX = 1 << 20, /* of a file */
	MIG_NAME_MAX = 32,	      /* of a profile, with its NUL */
	MIG_KINDS_MAX = 32,	      /* profiles of a row, or of a GPU */
	MIG_FILTERS_MAX = 64,
	MIG_GPUS_MAX = 64,
};

/* So many parts of a profile. */
struct mig_count {
	char name[MIG_NAME_MAX]; /* "1g.10gb+me" */
	uint32_t count;		 /* from 1 */
};

/* What a GPU shall be. */
struct mig_wish {
	bool enabled;
	uint32_t kinds; /* 0 unless enabled */
	struct mig_count kind[MIG_KINDS_MAX];
};

/* Numbers of the PCI bus: device << 16 | vendor. */
struct mig_model {
	uint32_t id, board;
};

struct mig_filter {
	struct mig_model model;
	bool of_board; /* the board counts, too */
};

struct mig_row {
	bool all;	  /* GPUs: `device` does not count */
	uint64_t device;  /* bit i: GPU i */
	uint32_t filters; /* 0: any model */
	struct mig_filter filter[MIG_FILTERS_MAX];
	struct mig_wish wish;
};

/* One configuration of a file. */
struct mig_spec {
	char name[64];
	uint32_t rows;
	struct mig_row *row; /* owned */
};

/* Reads all of the text, and returns the configuration of that name; NULL or "": the only one.
 * -EINVAL with "FILE:LINE: ..."; -ENOENT: there is none of that name, or the name is missing. */
must_check int mig_spec_parse(const char *file, const char *text, size_t size, const char *name,
			      struct mig_spec *ret_spec, struct fault *why);
void mig_spec_done(struct mig_spec *spec);

/* Does the row speak of that GPU? */
bool mig_row_matches(const struct mig_row *row, uint32_t gpu, struct mig_model model);

static inline void mig_spec_done_owned(struct mig_spec *spec)
{
	mig_spec_done(spec);
}
