/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node's devices as ResourceSlices (resource.k8s.io/v1): from which devices kube-scheduler gives
 * claims their shares, and how much of each there is. Pure: devices in, trees out.
 *
 * Each device may be given to several claims, and has three capacities: `memory` (bytes), `compute`
 * (percent of its time) and `slots`. A claim that does not say how much it wants has all of the
 * memory and of the time, so that nobody shares by accident, and one slot. Parts of a GPU also
 * consume its counters (counters.h), whose sets are in slices of their own, behind the others.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/macros.h"
#include "mig/gpu.h"

enum {
	SLICES_DEVICES_MAX = 128,	 /* of a slice ... */
	SLICES_DEVICES_TAINTED_MAX = 64, /* ... and if one has a taint, or consumes counters */
	SLICES_TEXT_MAX = 64,		 /* of an attribute */
	SLICES_NAME = 64,		 /* of a device, with its NUL */
	SLICES_POOL = 254,		 /* of a pool, and of a slice, with its NUL ... */
	SLICES_SHORT = 245, /* ... and of a pool, so that a slice's number fits behind it */
	SLICES_VERSION = 32,
	SLICES_TAINTS = 4, /* of a device */
};

/* Why no new claim is placed on a device, or pods are evicted from it. */
struct slices_taint {
	const char *key;    /* "xid", behind the driver's name; NULL: there is none */
	const char *value;  /* "79", of "xid"; NULL: the key says all */
	const char *effect; /* "NoSchedule", "NoExecute" */
};

/* Of a part of a GPU: its slices, and all that the GPU has. 0: unknown. */
struct slices_of_gpu {
	uint32_t memory_first, memory, compute;
	uint32_t gpu_memory, gpu_compute;
	/* Of a place alone: parts that are there have theirs. */
	uint32_t engines[MIG_ENGINES], gpu_engines[MIG_ENGINES];
};

struct slices_device {
	const char *uuid, *model;
	bool is_place;		      /* where a part can be made: its name stands in `uuid` */
	const char *profile, *parent; /* of a part: "1g.10gb", its GPU's UUID; NULL: unknown */
	const char *pci;	      /* as NVML has it; "": unknown */
	const char *pcie_root;	      /* "pci0000:16"; "": unknown */
	const char *driver;	      /* the version of NVIDIA's driver; "": unknown */
	int cuda;		      /* that it serves at most, 12090; 0: unknown */
	bool is_part;		      /* of MIG */
	uint32_t gpu;		      /* that it is, or is a part of: a number */
	struct slices_of_gpu slices;
	int major, minor; /* the compute capability; 0: unknown */
	int numa;	  /* -1: unknown */
	uint64_t total_bytes, promised_bytes;
	uint32_t slots;
	struct slices_taint taint[SLICES_TAINTS]; /* those that there are come first */
};

/* Texts are borrowed. */
struct slices_pool {
	const char *driver; /* "gpu.mete.dev" */
	const char *node, *node_uid;
	int64_t generation;
};

/* A pool's name differs from the node's: Kubernetes before 1.36.3 mixes up the counters of two
 * drivers whose pools have one name. */
void slices_pool_name(const char *node, char ret_name[SLICES_POOL]);
/* A DNS label: the UUID in lower case, or of a place "gpu-<uuid>-1g-10gb-4". */
void slices_device_name(const char *uuid, char ret_name[SLICES_NAME]);
/* So much of the device's memory is given out: whole mebibytes, the step of a request. */
uint64_t slices_memory(uint64_t bytes);
/* Of "550.54" or "615.71.09": a version has three numbers, without zeros in front. "": it is none.
 */
void slices_version(const char *text, char ret_version[SLICES_VERSION]);
/* "Hopper"; "": unknown. */
const char *slices_architecture(int major, int minor);

/* An array of complete ResourceSlices; NULL: out of memory. No devices: one slice without any, so
 * that the pool is known to be empty. */
cJSON *slices_describe(const struct slices_pool *pool, const struct slices_device *devices,
		       size_t count);

/* Whether the API server's slice says what the wanted one says, whatever its generation is: the
 * server writes amounts in its own way and adds times. */
bool slices_same(const cJSON *wanted, const cJSON *found);
/* The name of what differs; NULL: nothing does. Borrowed from one of both. */
const char *slices_difference(const cJSON *wanted, const cJSON *found);

/* When the server says that a taint was added. It sets that of each taint that is written without,
 * and a claim that tolerates the taint for some seconds has those from then on. So whatever else is
 * written of a slice, it has to go along. `times`: an object, of all slices of a pool. */
#define SLICES_ADDED "timeAdded"
void slices_note_times(cJSON *times, const cJSON *found);
/* Of the taints that are not in the array of wanted slices any more. */
void slices_forget_times(cJSON **times, const cJSON *wanted);
/* Of the taints that this slice was written without: one that comes again is a new one, also if it
 * came before the answer did. */
void slices_drop_times(cJSON *times, const cJSON *written);
void slices_put_times(const cJSON *times, cJSON *slice);
