/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                           mig/gpu.h
 * A GPU as MIG may divide it: what its driver says that it can be divided into, and which parts
 * there are. No profile is known here (decision 121). Plain data; nvml.h reads it.
 */
#pragma once

#include "mig/spec.h"

enum {
	MIG_PLACES_MAX = 16,
	MIG_PARTS_MAX = 16,
	MIG_COMPUTES_MAX = 8, /* compute instances of a part */
	MIG_UUID_MAX = 80,
};

enum mig_engine {
#define ENGINE(name, counter, field) MIG_ENGINE_##name,
#include "mig/engines.def"
#undef ENGINE
	MIG_ENGINES
};

/* In slices of memory. */
struct mig_place {
	uint32_t start, size;
};

struct mig_profile {
	char name[MIG_NAME_MAX]; /* "1g.10gb" */
	uint32_t kind, id;	 /* as NVML's header and as the driver numbers it */
	uint32_t slices;	 /* of computing */
	uint32_t most;		 /* parts at a time */
	uint64_t memory_mib;
	uint32_t engines[MIG_ENGINES];
	uint32_t places; /* 0 while the GPU is not in MIG mode: the driver does not say */
	struct mig_place place[MIG_PLACES_MAX];
};

/* A GPU instance. */
struct mig_part {
	uint32_t profile; /* of the GPU's */
	uint32_t id;	  /* the driver's, of the GPU instance */
	struct mig_place place;
	uint32_t computes; /* compute instances; 0: programs cannot use it */
	uint32_t compute_slices[MIG_COMPUTES_MAX];
	char uuid[MIG_COMPUTES_MAX][MIG_UUID_MAX]; /* "MIG-..." of each; "": not reported */
};

struct mig_gpu {
	uint32_t index; /* as nvidia-smi counts */
	char uuid[MIG_UUID_MAX], name[96];
	char pci[32];		/* its address, "00000000:3B:00.0"; "": not reported */
	int cc_major, cc_minor; /* its compute capability; 0: not reported */
	struct mig_model model;
	bool capable, on;
	bool later; /* its mode after the next reset: another one than `on` waits for it */
	uint32_t profiles, parts;
	struct mig_profile profile[MIG_KINDS_MAX];
	struct mig_part part[MIG_PARTS_MAX];
};

/* What the part's compute instance is called: "3g.40gb", or "1c.3g.40gb" where it has a part of
 * the processors alone. */
void mig_part_name(const struct mig_gpu *gpu, const struct mig_part *part, uint32_t compute,
		   char ret_name[MIG_NAME_MAX]);

/* One compute instance, with all of the processors. */
bool mig_part_is_whole(const struct mig_gpu *gpu, const struct mig_part *part);

/* What the GPU is: that which a configuration would have to say. */
void mig_gpu_is(const struct mig_gpu *gpu, struct mig_wish *ret_is);

/* In whatever order. */
bool mig_wish_same(const struct mig_wish *a, const struct mig_wish *b);
