/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of this machine, as NVIDIA's management library reports them. For a GPU in MIG mode,
 * these are its parts, as in CUDA: the whole is not a device then, even without parts. The library
 * is loaded at run time; without a driver, meted reports this when it starts.
 *
 * nvml_processes() and nvml_busy() block and may take long: they belong on a worker. One call at a
 * time.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"
#include "base/board.h"
#include "core/part.h"

struct nvml;

enum { NVML_DEVICES_LATER = 64 }; /* nvml_look_again() finds no more devices than so many */

enum { NVML_CLIQUE = 48 };

struct nvml_device {
	uint8_t uuid[16];
	char uuid_text[80]; /* "GPU-..." */
	char gpu_uuid[80];  /* likewise, of the GPU that it is a part of; "": it is whole */
	char model[96];	    /* NVML_DEVICE_NAME_V2_BUFFER_SIZE: parts have long names */
	uint64_t total_bytes, gpu_bytes; /* of the GPU, if it is a part of one */
	uint64_t reserved_bytes;	 /* taken by the driver itself; 0 if not reported */
	int minor;			 /* of its file, /dev/nvidia<minor>; -1: not reported */
	char pci[32];			 /* "00000000:3B:00.0"; "": not reported */
	int cc_major, cc_minor;		 /* its compute capability; 0: not reported */
	/* As NVIDIA's tools count: the GPU among all, divided or not; the part in its GPU. */
	unsigned gpu_index, part_index;
	/* MIG ids, if it is a part of a GPU; -1: it is a whole GPU. */
	int gpu_instance, compute_instance;
	/* Its NVLink domain and its clique there, as NVIDIA's tools write them, "UUID.ID"; "": it
	 * is in none, or not yet. */
	char clique[NVML_CLIQUE];
	bool has_fabric;   /* it can be in one */
	bool is_divisible; /* the GPU can be divided by MIG, whether it is or not */
	bool gone;	   /* its GPU is divided in another way since: nvml_accept() */
	struct gpu_part part;
};

/* Between two whole GPUs. */
struct nvml_link {
	uint8_t nvlinks; /* that lead straight from one to the other: through a switch none does */
	uint8_t level;	 /* of PCI, nvmlGpuTopologyLevel_t: 10 one switch ... 50 two sockets; 0: not
			    reported */
};

struct nvml_process {
	uint32_t pid;
	uint64_t used_bytes;
	bool guest; /* always false here: for the caller's use */
};

/* `folder`: that of the real libnvidia-ml.so.1; NULL: the loader finds it. */
must_check int nvml_open(const char *folder, struct nvml **ret_nvml, struct fault *why);
void nvml_close(struct nvml *nvml);

uint32_t nvml_count(const struct nvml *nvml);
const struct nvml_device *nvml_device(const struct nvml *nvml, uint32_t index);
struct nvml_link nvml_link(const struct nvml *nvml, uint32_t a, uint32_t b);
/* Can MIG divide any GPU? */
bool nvml_is_divisible(const struct nvml *nvml);
/* How many GPUs are in MIG mode and have no parts: they are no devices. */
uint32_t nvml_unparted(const struct nvml *nvml);
/* One of them; its texts are empty, and its figures 0, where the driver does not tell. */
const struct nvml_device *nvml_unparted_gpu(const struct nvml *nvml, uint32_t index);
/* A number for the devices that MIG has made since the devices were read: parts, and GPUs that are
 * whole again; for parts that have another part_index since; and for GPUs that have no parts any
 * more. The same for the same ones; 0: there are none, or the driver does not tell. Blocks. */
uint64_t nvml_news(const struct nvml *nvml);
/* Reads them, behind the others, and which of the others are still there. Nothing has changed for
 * anybody before nvml_accept(). Blocks. -ENOSPC: they would be more than NVML_DEVICES_LATER; -EIO;
 * -EINVAL. */
must_check int nvml_look_again(struct nvml *nvml, struct fault *why);
/* From now on nvml_count() is larger; the devices' indices and rows are what they were, but for
 * part_index and the place in `part`. Those that MIG has taken are gone, and those that are back
 * are not. Must not run beside the two above. */
void nvml_accept(struct nvml *nvml);
/* The GPU's clique now, as the driver says. Blocks. */
void nvml_clique(const struct nvml *nvml, uint32_t index, char ret_clique[NVML_CLIQUE]);
/* Keeps it. False: it is what it was. */
bool nvml_set_clique(struct nvml *nvml, uint32_t index, const char clique[NVML_CLIQUE]);
/* The driver's version, "580.65.06"; "": not reported. */
const char *nvml_driver(const struct nvml *nvml);
/* The newest CUDA that it serves, 12090 for 12.9; 0: not reported. */
int nvml_cuda(const struct nvml *nvml);

/* The processes that use the device, at most `room`; those without a figure are omitted. -EIO:
 * the driver did not report them; -ENOSPC: there are more. */
must_check int nvml_processes(struct nvml *nvml, uint32_t index, struct nvml_process *out,
			      uint32_t room, uint32_t *ret_count);

/* What its board says of itself. Blocks. */
struct gpu_board nvml_board(struct nvml *nvml, uint32_t index);

/* The bytes in use on the device, without those that the driver itself has reserved; 0: not
 * reported. */
must_check uint64_t nvml_used(struct nvml *nvml, uint32_t index);

struct nvml_busy {
	uint32_t pid, percent; /* part of the time in which it had kernels on the device */
	uint64_t at_us;	       /* when the sample ended: wall clock */
};

enum { NVML_SAMPLES_MOST = 65536 };

/* The driver's samples since that time (wall clock, microseconds), at most `room` rows (at least
 * 1), sorted by pid. A process may have several rows, from different times. -EIO: the driver did
 * not report them; -ENOSPC: there are more, or it wants room for more than NVML_SAMPLES_MOST;
 * -ENOMEM. */
must_check int nvml_busy(struct nvml *nvml, uint32_t index, uint64_t since_us,
			 struct nvml_busy *out, uint32_t room, uint32_t *ret_count);

/* The rows of one process, as many as *ret_count says; `rows` as nvml_busy() sorts them. */
const struct nvml_busy *nvml_busy_of(const struct nvml_busy *rows, uint32_t count, uint32_t pid,
				     uint32_t *ret_count);

enum nvml_news { NVML_NEWS_XID, NVML_NEWS_ECC };

struct nvml_event {
	uint32_t index;
	enum nvml_news news;
	uint64_t xid;
};

/* Events of the first so many `devices` since the last call (the first call starts the recording),
 * at most `room`, which is at least their number; does not wait. Others stay for the next call.
 * -EIO: the driver cannot report them. */
must_check int nvml_events(struct nvml *nvml, uint32_t devices, struct nvml_event *out,
			   uint32_t room, uint32_t *ret_count);
/* One process may use the GPU, or, as usual, any number. -EPERM; -ENOTSUP; -EIO. */
must_check int nvml_set_exclusive(struct nvml *nvml, uint32_t index, bool exclusive);

#define NVML_NO_LIMIT UINT64_MAX

/* Whether the driver of any whole GPU limits control groups (drivers from 615 on). `group`: the
 * path of one, of version 2. Blocks. */
bool nvml_has_limits(const struct nvml *nvml, const char *group);
/* The processes of the control group, the path of a folder, have `hard_bytes` of the GPU at
 * most (NVML_NO_LIMIT: any number), and `soft_bytes` are guaranteed to them. Blocks. -ENOTSUP: also
 * of a part of MIG; -ENOENT: there is no such group; -EPERM, -EINVAL, -ENOSPC, -EIO. */
must_check int nvml_limit(const struct nvml *nvml, uint32_t index, const char *group,
			  uint64_t soft_bytes, uint64_t hard_bytes);

/* Returns true if the device is still on the bus and divided by MIG as before. */
bool nvml_answers(struct nvml *nvml, uint32_t index);

/* "GPU-00010203-0405-..." or "MIG-..." to its 16 bytes; -EINVAL. */
must_check int nvml_parse_uuid(const char *text, uint8_t ret_uuid[16]);
