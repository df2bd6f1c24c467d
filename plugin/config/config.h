/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The administrator's configuration of the device plugin: one YAML file in the format of NVIDIA's
 * device plugin, with our own top-level key `mete`, which NVIDIA's plugin ignores.
 * docs/man/mete-config.5 describes it. Every mistake is one sentence with file and line. This
 * module reads no clock and watches no file; the caller does.
 */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "base/fault.h"
#include "core/health.h"
#include "core/share/share.h"

enum {
	CONFIG_BYTES_MAX = 64 << 10, /* of a file: YAML parsers are slow on malicious input */
	CONFIG_NAME_MAX = 63,
	CONFIG_PATH_MAX = 255,
	CONFIG_KUBELET_MAX = 72, /* of the kubelet's folder: leaves room for the names of sockets */
	CONFIG_MPS_ROOT_MAX = 40,
	CONFIG_RULES_MAX = 64,
	CONFIG_PROFILES_MAX = 16,
	CONFIG_NODES_MAX = 64,
	CONFIG_LABELS_MAX = 16,	 /* required by one entry of `nodes:` */
	CONFIG_SLOTS_MAX = 1000, /* of a device */
	CONFIG_WARNINGS_MAX = 16,
};

/* A portion of a device: share.def's fields as written, in its order; NULL: not given. */
struct config_share {
	const char *texts[SHARE_FIELDS];
	uint32_t lines[SHARE_FIELDS]; /* of the file, for sentences */
};

/* For the devices that `match`, by UUID (or a prefix), index or model; * and ? as in a shell;
 * case does not matter. */
struct config_rule {
	const char *match;
	bool hidden;	/* not shared out by mete: "share: none" */
	uint32_t slots; /* 0: not given */
	uint32_t line;
	struct config_share share;
};

/* At these times (local, by TZ) `share` overrides the rules. If the times of several profiles
 * overlap, the first one applies. */
struct config_profile {
	const char *name;
	uint32_t days; /* bit 0: Sunday ... bit 6: Saturday */
	uint32_t from_minute,
		to_minute; /* of the day; to <= from: over midnight, of the day it began */
	uint32_t line;
	struct config_share share;
};

/* How the parts of GPUs that MIG divides are offered: not at all; as GPUs; each kind under a
 * name of its own; or so, and made when they are needed (not NVIDIA's). */
enum config_mig { CONFIG_MIG_NONE, CONFIG_MIG_SINGLE, CONFIG_MIG_MIXED, CONFIG_MIG_DYNAMIC };

static inline bool config_mig_names_kinds(enum config_mig mig)
{
	return mig == CONFIG_MIG_MIXED || mig == CONFIG_MIG_DYNAMIC;
}

/* Of MPS's control daemons: the newest that the driver has; 2; or 3, whose daemons have a namespace
 * for each container. */
enum config_mps_protocol { CONFIG_MPS_NEWEST, CONFIG_MPS_OLDER, CONFIG_MPS_NEWER };

enum { CONFIG_KINDS_MAX = 16 };

/* The replicas of a kind of parts. */
struct config_kind {
	const char *name; /* "mig-1g.10gb" */
	uint32_t replicas, line;
};

/* The settings of a file without `mete`, as NVIDIA's plugin would read them. Nothing is enforced
 * then, except with `mps`. */
struct config_as_nvidia {
	enum config_mig mig;
	uint32_t replicas; /* of each GPU; 0: they are given whole */
	uint32_t kinds;	   /* of parts, with `mixed` */
	struct config_kind kind[CONFIG_KINDS_MAX];
	bool renamed;  /* shared ones are nvidia.com/gpu.shared, and so on */
	bool one_only; /* requests for several replicas are refused */
	bool packed;   /* the device with the most replicas taken comes first */
	bool by_index; /* containers get indices, not UUIDs */
	/* How containers are told of their devices: by the environment; by mounts of /dev/null; by
	 * names of CDI devices, in an annotation or in the kubelet's field for them. */
	bool envvar, volumes, annotation, cri;
	bool specs; /* device nodes are passed to the kubelet */
	bool gdrcopy, gds, mofed;
	bool imex, imex_required;	    /* channel 0; it is an error if it is not there */
	bool hookless;			    /* CDI files have no hook */
	const char *driver_root, *dev_root; /* of the driver and the device nodes on the host */
	const char *inner_root;		    /* where the driver is seen here */
	const char *prefix;		    /* of the annotation */
	const char *machine_file;	    /* of the label nvidia.com/gpu.machine */
	bool timeless;			    /* without nvidia.com/gfd.timestamp */
	const char *ctk;		    /* on the host: the program that CDI hooks run */
	/* Replicas are shared by MPS: a control daemon for each GPU, or for each container
	 * (`mps_apart`), with its folders below the root, and a tenant for each container.
	 * Otherwise nobody is a tenant. */
	bool mps, mps_apart;
	enum config_mps_protocol mps_protocol;
	const char *mps_root;
	struct health_xids xids;
};

enum config_ids {
	CONFIG_IDS_UUID, /* <UUID>::<n>: the kubelet picks the device */
	CONFIG_IDS_SLOT, /* slot-NNN: the scheduler does */
};
enum config_counted {
	CONFIG_COUNTED_SLOTS,
	CONFIG_COUNTED_AMOUNTS, /* pods say amounts; meted picks the device, and ids name none */
};
enum config_cdi { CONFIG_CDI_AUTO, CONFIG_CDI_ON, CONFIG_CDI_OFF };
enum config_strangers { CONFIG_STRANGERS_REPORT, CONFIG_STRANGERS_KILL };

enum config_key {
#define METE(name, kind, field, accepted) CONFIG_KEY_##name,
#include "plugin/config/config_keys.def"
	CONFIG_KEYS
};

struct config {
	const char *name;	     /* of the file, as passed to config_parse() */
	uint32_t mete_line;	     /* of the key `mete`; 0: it is missing */
	uint32_t lines[CONFIG_KEYS]; /* of the keys below it */
	bool has_mete;	      /* the key `mete` exists; otherwise `as_nvidia` has everything */
	bool has_nvidia;      /* a key of NVIDIA's exists */
	bool waits;	      /* failOnInitError is false: a start that fails is repeated */
	bool by_node;	      /* `nodes` exists: the rest depends on the node's labels */
	const char *resource; /* "mete.dev/gpu" */
	const char *domain;   /* of annotations: "mete.dev" */
	enum config_ids ids;
	enum config_counted counted;
	bool milli_caps; /* with amounts: the time that a pod says is its cap, too */
	uint32_t slots;	 /* of each device; default: 10 */
	struct config_share share, most; /* of a slot; the most that annotations may ask for */
	uint32_t overcommit_milli; /* memory that may be promised, in thousandths of a device's */
	uint64_t park_after_ns, park_delay_ns; /* UINT64_MAX: as meted's options say */
	uint32_t rules, profiles;
	struct config_rule rule[CONFIG_RULES_MAX]; /* the first that matches a device */
	struct config_profile profile[CONFIG_PROFILES_MAX];
	bool features;			 /* the node has labels about its GPUs */
	bool dra;			 /* devices are given out by claims (DRA), not by slots */
	bool makes_parts;		 /* of MIG, for claims */
	bool native_limits;		 /* a driver that can limits containers by itself, too */
	enum config_strangers strangers; /* processes on a device that no guest announced */
	enum config_cdi cdi;
	bool mounts_driver; /* containers have libcuda and libnvidia-ml by path, not from meted */
	const char *cdi_folder;	      /* default: /var/run/cdi */
	const char *kubelet_folder;   /* default: /var/lib/kubelet */
	const char *driver_root;      /* where the host's driver is seen; default: / */
	const char *host_driver_root; /* its path on the host; NULL: the same */
	const char *libraries;	 /* our libraries and hook, where this process and the host see them
				    under one name; NULL: where this program is installed */
	const char *host_prefix; /* the prefix that turns our own folders into paths on the host */
	const char *metrics;	 /* address:port, ":9400"; NULL: none */
	const char *health;	 /* likewise, for /healthz alone */
	const char *kubeconfig;	 /* NULL: the pod's service account, if there is one; "none" */
	const char *node_name;	 /* NULL: $NODE_NAME, or the host's name */
	struct config_as_nvidia as_nvidia;
	uint32_t warnings;
	const char *warning[CONFIG_WARNINGS_MAX]; /* sentences: keys that are not known, NVIDIA's
						     that are ignored */
	void *memory;				  /* all texts */
};

/* Are containers tenants? Otherwise nothing is enforced. */
static inline bool config_has_tenants(const struct config *config)
{
	return config->has_mete || config->as_nvidia.mps;
}

struct config_label {
	const char *key, *value;
};

/* `labels`: the node's. They select among the file's `nodes:`, which have settings for nodes with
 * certain labels; all of `nodes:` is checked on each node. -EINVAL with a sentence, or -ENOMEM:
 * nothing has changed. */
must_check int config_parse(const char *name, const char *text, size_t size,
			    const struct config_label *labels, size_t count,
			    struct config **ret_config, struct fault *why);
/* The same with a given environment, which overrides a file without `mete`, as in NVIDIA's plugin.
 * variable(NAME) returns the value or NULL, like getenv(). */
struct config_place {
	const struct config_label *labels;
	size_t labels_count;
	char *(*variable)(const char *name);
};
must_check int config_parse_at(const char *name, const char *text, size_t size,
			       const struct config_place *place, struct config **ret_config,
			       struct fault *why);
void config_free(struct config *config);

/* A sentence about one of mete's keys (or "mete" itself), with file, and with the line where the
 * key is, or where it is missing. -EINVAL. */
int config_blame(const struct config *config, const char *key, struct fault *why,
		 const char *format, ...) printf_like(4, 5);
OWNED_POINTER(struct config, config_free)

/* Does mete's scheduler choose the devices? */
static inline bool config_is_placed(const struct config *config)
{
	return config->ids == CONFIG_IDS_SLOT && config->counted == CONFIG_COUNTED_SLOTS;
}

/* Does MIG make parts when they are needed? */
static inline bool config_makes_parts(const struct config *config)
{
	return config->has_mete ? config->makes_parts : config->as_nvidia.mig == CONFIG_MIG_DYNAMIC;
}

struct config_device {
	uint32_t index; /* of the GPU, in NVIDIA's numbering */
	bool is_part;	/* of MIG: */
	uint32_t part_index;
	const char *uuid, *model;
	uint64_t total_bytes; /* for config_fits() alone */
};

/* The share of a slot of the device at that local time; texts are borrowed from the config. False:
 * the device is not shared out. */
bool config_portion(const struct config *config, const struct config_device *device,
		    const struct tm *now, uint32_t *ret_slots, struct config_share *ret_share);

/* So much of a device with so many bytes may be promised in sum: overcommit. */
uint64_t config_promised(const struct config *config, uint64_t device_bytes);

/* Whether the portions of all slots of this device fit on it, in each profile: config_parse()
 * cannot check bytes without the device's size. -EINVAL with a sentence. */
must_check int config_fits(const struct config *config, const struct config_device *device,
			   struct fault *why);

/* Seconds until a profile begins or ends, in the time zone TZ; 0: never (within 16 days).
 */
uint32_t config_next_change(const struct config *config, const struct tm *now);
