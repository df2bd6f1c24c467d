/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The complete interface that meted gives to its Kubernetes part: tenants by id, figures, the loop.
 * The Kubernetes part is a separate library (libmete-plugin.so), which meted loads only if it is
 * configured (`meted --kubernetes FILE`); without Kubernetes, none of it is in memory.
 */
#pragma once

#include <string.h>

#include "base/fault.h"
#include "base/handover.h"
#include "base/log.h"
#include "base/loop.h"
#include "core/happened.h"
#include "core/part.h"
#include "core/share/share.h"
#include "kube/right.h"
#include "wire/wire.h"

enum {
	HOST_DEVICES = 64,
	HOST_FOLDER_MAX = 108,
	HOST_VERSION = 26, /* of this interface: both sides are built together */
};

enum { HOST_ABSENT = 1 };

struct host_device {
	const char *uuid, *model;	 /* "GPU-..." */
	const char *gpu_uuid;		 /* of the GPU that it is a part of; "": it is whole */
	uint64_t total_bytes, gpu_bytes; /* of the GPU, if it is a part of one */
	int minor;			 /* of its file, /dev/nvidia<minor>; -1: not reported */
	const char *pci;		 /* its PCI address, "00000000:3B:00.0"; "": not reported */
	int cc_major, cc_minor;		 /* its compute capability; 0: not reported */
	unsigned gpu_index, part_index;	 /* in NVIDIA's numbering: nvidia-smi -L */
	int gpu_instance, compute_instance; /* of MIG; -1: it is a whole GPU */
	const char *clique; /* its NVLink domain and its clique there, "UUID.ID"; "": none */
	bool is_divisible;  /* the GPU can be divided by MIG */
	bool gone;	    /* MIG has divided its GPU in another way since; it may come back */
	const struct gpu_part *part; /* the resources of a part of MIG's; NULL: unknown */
};

/* Between two whole GPUs; 0 where nothing is reported. */
struct host_link {
	uint8_t nvlinks; /* that lead straight from one to the other */
	uint8_t level;	 /* of PCI, in NVML's numbers: 10 one switch ... 50 two sockets */
};

/* Of a share's field; the value "" is the default. */
struct host_change {
	const char *key, *value; /* borrowed */
};

struct host_tenant {
	const char *name;
	const char *texts[SHARE_FIELDS];	/* share.def's order; NULL: default */
	uint32_t devices, device[HOST_DEVICES]; /* indices of host.device[] */
	/* It sees the devices as they are by NVML. Its memory limit is that of one context, its
	 * texts notwithstanding. */
	bool observes;
};

/* A tenant's processes on a device as the driver lists them, not as they report themselves. */
struct host_measured {
	uint32_t tenant, device;
	uint64_t bytes;
	/* Its limit. After the limit was lowered: the least that it was found with since, so
	 * that memory from before is not held against it. */
	uint64_t limit, may;
	uint32_t pid; /* the process with the most memory that the ledger did not grant */
};

/* Callbacks that receive figures; NULL: not wanted. */
struct host_reader {
	void *owner;
	void (*device)(void *owner, const struct wire_device_row *row);
	void (*tenant)(void *owner, const struct wire_tenant_row *row);
	/* Each process of a tenant on each of the tenant's devices. */
	void (*guest)(void *owner, const struct wire_guest_row *row);
	/* A process that the driver lists on a device and that is not a guest, as watch() last saw
	 * it.
	 */
	void (*stranger)(void *owner, uint32_t device, uint32_t pid, uint64_t used_bytes);
	/* Each tenant on each device, as watch() last saw it. */
	void (*measured)(void *owner, const struct host_measured *row);
};

/* The driver's reports on a device's health. */
enum host_news {
	HOST_XID,
	HOST_ECC,
	HOST_ANSWERS,
	HOST_LOST,
	HOST_CORDON, /* it is cordoned, or not any more: see cordoned() */
	HOST_CLIQUE, /* it has another clique now */
	HOST_LOOKED, /* all devices were checked; not about one device */
};

typedef void host_health(void *owner, uint32_t device, enum host_news news, uint64_t xid);

enum host_wait { HOST_WAITS_NOT, HOST_WAITS_MEMORY, HOST_HANGS, HOST_STUCK };

struct host_waiting {
	uint32_t tenant;		   /* the outermost one, which is the Kubernetes part's */
	const struct wire_tenant_row *row; /* of the one that waits; lent */
	enum host_wait kind;
	uint64_t over_ns;   /* 0: it goes on; otherwise it is over, and took so long ... */
	uint64_t refused;   /* ... and so many of its requests for memory were refused meanwhile */
	uint64_t before_ns; /* when it began, if a meted before this one told that; 0: none did */
	uint64_t last_ns;   /* when its pods were last told of a beginning; 0: never */
};

/* True: whoever has to know was told, of the end after a beginning; false: not now, ask again. */
typedef bool host_waits(void *owner, const struct host_waiting *news);

struct daemon;

struct registration; /* plugin/dra/register.h */

struct host {
	uint32_t version, devices;
	const struct host_device *device;
	struct loop *loop;
	struct daemon *daemon;
	const char *place;	    /* meted's folder, "/run/mete" */
	const char *driver_folder;  /* of the real driver; NULL: the loader finds it */
	const char *driver_version; /* "580.65.06"; "": not reported */
	int cuda_version;	    /* that the driver serves at most, 12090; 0: not reported */
	enum log_level log_level;
	uint32_t unparted; /* GPUs in MIG mode without parts, which are no devices */
	const struct host_device *unparted_gpu;
	const char *mig_config; /* mig-parted's file, for a label; NULL: none */
	const char *missing;	/* why there are no devices: meted waits for them */
	bool missing_driver;	/* it could not be opened at all */
	bool stands_by;		/* because another meted serves the node: `missing` says so */
	/* Takes the sockets that a stand-by has taken over, for the plugin that serves after it
	 * in the same process; NULL: not wanted. */
	struct registration **carried;

	/* Creates a tenant that lives until end(); after a restart of meted, until kept_all(),
	 * unless keep() is called. The folder holds its socket and is new: its
	 * inode was never another tenant's. */
	int (*make)(struct daemon *d, const struct host_tenant *spec, uint32_t *ret_id,
		    char ret_folder[HOST_FOLDER_MAX], struct fault *why);
	/* Keeps a tenant from before this meted. HOST_ABSENT: nobody can join it before a meted
	 * starts that finds all of its devices. -ESRCH: there is none. */
	int (*keep)(struct daemon *d, uint32_t id, char ret_folder[HOST_FOLDER_MAX]);
	/* keep() has been called for all. What else was made for us before ends now, or as soon as
	 * its processes have ended. */
	void (*kept_all)(struct daemon *d);
	/* Changes the share of a tenant that runs: all of these fields, or none. -EINVAL. */
	int (*set)(struct daemon *d, uint32_t id, const struct host_change *changes, uint32_t count,
		   struct fault *why);
	/* No process can join it any more; it ends when its processes have ended. If it does not
	 * exist, this is not an error. */
	void (*end)(struct daemon *d, uint32_t id);
	/* The current figures of each device, and of each tenant on each of its devices. Rows
	 * are lent. */
	void (*rows)(struct daemon *d, const struct host_reader *reader);
	/* From now on, every few seconds: reports each device's events, and whether it answers. */
	void (*watch)(struct daemon *d, host_health *seen, void *owner);
	/* From now on: tenants that have waited for memory for long, hang or are stuck. */
	void (*waits)(struct daemon *d, host_waits *told, void *owner);
	/* For `mete events`, one sentence without its end: of a tenant on a device, or, where
	 * `tenant` is 0, of the device. */
	void (*happened)(struct daemon *d, uint32_t tenant, uint32_t device, enum happened kind,
			 const char *said);
	/* It takes no new tenants (`mete cordon`): its owner's word, and no failure. watch() says
	 * when that changes. */
	bool (*cordoned)(const struct daemon *d, uint32_t device);
	/* One process may use the GPU (MPS's server), or any number. -errno. */
	int (*compute_mode)(struct daemon *d, uint32_t device, bool exclusive);
	/* The device runs its tenants at once, and bounds their time by itself: no turns. */
	void (*at_once)(struct daemon *d, uint32_t device, bool at_once);
	struct host_link (*link)(const struct daemon *d, uint32_t a, uint32_t b);
	/* How long class batch runs before it is parked for a higher class, and how long that waits
	 * before; UINT64_MAX: as meted's options say. */
	void (*parking)(struct daemon *d, uint64_t run_ns, uint64_t delay_ns);
	/* A driver that can limits containers' control groups, too; off at first. */
	void (*native_limits)(struct daemon *d, bool on);
	/* MIG has just made or removed parts: the devices are read again soon, and divided() is
	 * called even if nothing has changed. */
	void (*look)(struct daemon *d);
	/* Sets the driver's libraries that guests get on request, replacing the former ones; -1:
	 * none. Takes over the descriptors. Without a CUDA library the former ones stay. */
	void (*driver)(struct daemon *d, const int fd[WIRE_LIBRARIES]);
	/* After finish(). */
	void (*finished)(struct daemon *d);
	/* After close(): everything has ended, and `host` is no longer needed. */
	void (*ended)(struct daemon *d);
};

/* The folder of meted's own driver, as it is seen below that root; NULL: it is not below it. */
static inline const char *host_driver_below(const struct host *host, const char *root)
{
	const char *folder = host->driver_folder;
	size_t length = strlen(root);

	if (!folder || strcmp(root, "/") == 0)
		return folder;
	return strncmp(folder, root, length) == 0 && folder[length] == '/' ? folder + length : NULL;
}

/* The device with that UUID; -1: there is none, as for NULL. */
static inline int host_find(const struct host *host, const char *uuid)
{
	for (uint32_t i = 0; uuid && i < host->devices; i++)
		if (strcmp(host->device[i].uuid, uuid) == 0)
			return (int)i;
	return -1;
}

struct plugin;

/* The export of libmete-plugin.so: `const struct plugin_entry mete_plugin`. */
struct plugin_entry {
	uint32_t version; /* HOST_VERSION */
	/* `config`: the file. Starts to serve; steps that are not possible yet (no kubelet, no
	 * API server) are tried again. `host` is borrowed until closed. */
	int (*open)(const struct host *host, const char *config, struct plugin **ret_plugin,
		    struct fault *why);
	/* SIGHUP: rereads its file; a mistake in it is logged and changes nothing. */
	void (*reload)(struct plugin *plugin);
	/* host.device has changed: some are gone or back, and from `former` on they are new;
	 * indices stay. -errno with a sentence: it takes a restart. */
	int (*divided)(struct plugin *plugin, uint32_t former, struct fault *why);
	/* We are about to end: the sockets with which the stand-by is to go on. Lent. 0; 1:
	 * there are none. */
	int (*give)(struct plugin *plugin, struct handover_sockets *ret_sockets);
	/* Of a stand-by: goes on with the sockets of the meted that serves, which is about to
	 * end. Lent. -errno with a sentence: it does not. */
	int (*inherit)(struct plugin *plugin, const struct handover_sockets *sockets,
		       struct fault *why);
	/* We are about to end. `given`: a stand-by goes on with the sockets. 1: finished() is
	 * called when the kubelet's calls are answered and its connections have ended; 0: there are
	 * none.
	 */
	int (*finish)(struct plugin *plugin, bool given);
	/* Asks the API server for the user of a token that is for `audience` (NULL: for the API
	 * server), and whether a user may get something. The loop calls told() once, within
	 * seconds, unless it is forgotten before. -ENOTCONN: there is no API server here.
	 * -ENOMEM. All must have been forgotten before close(). */
	int (*who)(struct plugin *plugin, const char *token, const char *audience, right_told *told,
		   void *owner, struct right_asked **ret_asked);
	int (*may)(struct plugin *plugin, const char *user, const struct right *right,
		   right_told *told, void *owner, struct right_asked **ret_asked);
	/* NULL: does nothing. */
	void (*forget)(struct right_asked *asked);
	/* It ends later, in the loop: within a few seconds, for which an API server may take to
	 * answer; while MIG divides GPUs, or a command of MPS runs, when that has ended. A thread
	 * may go on after it, which uses the loop alone (loop_is_working()). */
	void (*close)(struct plugin *plugin);
};
