/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of plugin/mps/. */
#pragma once

#include "base/list.h"
#include "base/loop.h"
#include "plugin/mps/mps.h"
#include "plugin/mps/protocol.h"
#include "plugin/mps/run.h"
#include "plugin/plugin.h"

enum {
	MPS_UUID = 48,
	MPS_OWNER = 400,	/* "NAMESPACE/POD/UID" */
	MPS_CUDA_NAMES = 13040, /* of driver 615, the first with protocol 3 */
};

struct mps_daemon;

/* Sees a process end. It is freed when it is closed. */
struct mps_watch {
	struct loop_watch watch;
	struct mps_hub *hub;
	struct mps_daemon *daemon; /* NULL: the end does not matter any more */
	int fd;
};

/* The steps that differ between the daemon of a GPU, that of a container, and a container's
 * namespace. */
struct mps_uses {
	/* Before it is started: the record, and the GPU's compute mode. -errno. */
	int (*mark)(struct mps_daemon *daemon);
	/* After it has ended, and its folder has gone: the same undone. -errno. */
	int (*unmark)(struct mps_daemon *daemon);
	bool in_gpus_folder; /* a namespace: it has no folder and no process of its own */
	bool cleans; /* not before all of its folder is removed: another container may have it next
		      */
	bool (*rests)(const struct mps_daemon *daemon); /* nothing is done now; NULL: never */
	void (*turned)(struct mps_daemon *daemon);	/* it is ready, or it is not any more */
	void (*ended)(struct mps_daemon *daemon);	/* its process has, while it is wanted */
	void (*undone)(struct mps_daemon *daemon);
};

/* A control daemon, or a namespace of one. */
struct mps_daemon {
	const struct mps_uses *uses;
	const struct mps_protocol *protocol;
	struct mps_hub *hub;
	struct mps machine;
	struct loop_timer timer;
	struct loop_work work;
	struct run run;
	struct mps_watch *watch; /* of its process; NULL: its pid is not known */
	const char *name;	 /* for the log: its GPU's UUID, or a container's slot */
	char uuid[MPS_UUID];	 /* of its GPU */
	char root[MPS_PATH];	/* below which its folder is; a former meted's may be another one */
	char folder[MPS_PATH];	/* of its own, with the folders pipe and log */
	char percent[MPS_TEXT]; /* a client's most of the threads, "33.3" */
	char limit[MPS_TEXT];	/* and of the memory, "0=1024M" */
	char said[RUN_TEXT];	/* the failure that was logged last */
	struct fault unbounded; /* the reason why its folder is not bounded; "": it is */
	bool was_ready;
	bool has_folder; /* it is this daemon's: a container may have it already */
};

struct mps_gpu {
	struct mps_daemon daemon;
	uint32_t device;
	uint32_t replicas; /* that the daemon was told */
	bool one_only;
	bool named;	      /* each of its containers has a namespace of its daemon */
	bool lags;	      /* it has containers by one protocol, and is to have the other */
	uint64_t answered_ns; /* when the kubelet got its last answer with it; 0: never */
	bool apart; /* its containers have daemons of their own: it has none, and is not exclusive
		     */
	bool moves; /* it will be wanted below another root, or apart, when its daemon has gone */
	bool keeps; /* the configuration has changed, and containers have it by MPS as it was */
	bool waits; /* it will be wanted when the containers have ended that have it without MPS */
};

/* The daemon, or the namespace, of one container. */
struct mps_container {
	struct list link;
	struct mps_daemon daemon;
	char key[IDS_KEY];     /* of the container's slot */
	char owner[MPS_OWNER]; /* the pod for which it was started */
	bool leaves;	       /* another pod has the slot now: it ends first */
	uint64_t until_ns; /* until then the kubelet may ask again for a container that was refused
			    */
};

struct mps_hub {
	struct plugin *plugin;
	char control[MPS_PATH];	  /* the program; "": there is none */
	uint32_t handles;	  /* that are open: it is freed after the last */
	bool settled;		  /* the configuration is known */
	bool told_unbounded;	  /* that folders are not bounded here */
	bool told_older;	  /* that there are no namespaces, though the driver has them */
	bool given[HOST_DEVICES]; /* to pods, when the kubelet's record was last read */
	void (*closed)(struct plugin *p);
	struct list containers;
	struct mps_gpu gpu[HOST_DEVICES];
};

/* commands.c: begins a command, which ends in mps_daemon_did(), perhaps at once. */
void mps_daemon_begin(struct mps_daemon *daemon, enum mps_command command);
/* The program; "": there is none. */
void mps_find_control(const struct config *config, char ret_path[MPS_PATH]);

/* daemon.c: carries out the decisions of core/mps.h. */
must_check int mps_daemon_open(struct mps_daemon *daemon, struct mps_hub *hub, bool marked);
/* `closed`: NULL: only the hub's handle. */
void mps_daemon_close(struct mps_daemon *daemon, void (*closed)(struct loop_timer *timer));
void mps_daemon_did(struct mps_daemon *daemon, bool well);
void mps_daemon_want(struct mps_daemon *daemon, bool wanted);
/* Does what is due. Called after every event. */
void mps_daemon_pump(struct mps_daemon *daemon);
/* Where its folder is: below the root. */
void mps_daemon_place(struct mps_daemon *daemon, const char *root);
/* One handle of the hub is closed. */
void mps_hub_release(struct mps_hub *hub);

/* gpu.c: a percentage without its fraction; at least 1. */
void mps_make_whole(char percent[MPS_TEXT]);
/* From now on it runs, or not, as the configuration says. */
void mps_gpu_want(struct mps_gpu *gpu);
must_check int mps_gpu_open(struct mps_hub *hub, uint32_t device);
/* Something is on record: its compute mode was set, or containers have daemons of their own. */
bool mps_gpu_is_marked(const struct mps_gpu *gpu);

/* container.c: takes over what a former meted has left. -errno. */
must_check int mps_containers_open(struct mps_hub *hub, struct fault *why);
void mps_containers_close(struct mps_hub *hub);
/* After their last command. */
void mps_containers_free(struct mps_hub *hub);
/* Steps that daemons of containers and namespaces have in common. */
must_check int mps_container_record(struct mps_daemon *daemon);
must_check int mps_container_unrecord(struct mps_daemon *daemon);
void mps_container_turned(struct mps_daemon *daemon);
void mps_container_undone(struct mps_daemon *daemon);
/* -EINPROGRESS with a sentence: its daemon is not ready, and is being started. */
must_check int mps_container_check(struct mps_hub *hub, const struct binding *b, struct fault *why);

/* namespace.c */
extern const struct mps_uses mps_namespace_uses;
/* The GPU's daemon is ready, or is not any more. */
void mps_namespaces_turned(const struct mps_gpu *gpu);
/* Namespaces are wanted, and the driver has them. / And their sockets' paths are not too long. */
bool mps_would_name(const struct plugin *p);
bool mps_can_name(const struct plugin *p);

/* record.c: of a GPU: a root, and how its containers have it. -1: there is none. */
enum { MPS_WAY = 8 };
#define MPS_WAY_ONE   "" /* one daemon, of protocol 2 */
#define MPS_WAY_APART "apart"
#define MPS_WAY_NAMED "named"
int mps_record_read(struct plugin *p, const char *uuid, char ret_root[MPS_PATH],
		    char ret_way[MPS_WAY]);
must_check int mps_record_write(const struct plugin *p, const char *uuid, const char *root,
				const char *way);
void mps_record_remove(const struct plugin *p, const char *uuid);
/* folder.c: removes a folder and all that is in it, without following links. -errno. */
must_check int mps_folder_remove(const char *path);
/* Removes links and devices, which no daemon has there: it would write where they lead; and a pipe
 * in place of its pid's file. -errno. */
#define MPS_PID_FILE "nvidia-cuda-mps-control.pid"
must_check int mps_folder_unlink_links(const char *path);
/* A file that is one. A descriptor, or -errno. */
must_check int mps_folder_open_file(const char *path);

/* mount.c: makes the folder, which is there and empty, a small file system of its own, unless it is
 * one. MPS_UNBOUNDED with a sentence: it stays a folder of the host. */
enum { MPS_UNBOUNDED = 1 };
must_check int mps_may_mount(const char *root, struct fault *why); /* or MPS_UNBOUNDED */
must_check int mps_mount(const struct mps_daemon *daemon, struct fault *why);
void mps_unmount(const struct mps_daemon *daemon);

/* turnover.c: reads the kubelet's record, before mps_gpu_want() decides by it: once for all GPUs.
 */
void mps_read_given(struct mps_hub *hub);
/* Containers have it, whether they have started or not. */
bool mps_gpu_has_others(const struct mps_gpu *gpu);
/* The GPU stays as it is; `asked`: the configuration wants MPS. */
bool mps_gpu_stays(struct mps_gpu *gpu, bool asked);
/* A pod that has the device by MPS, which the configuration no longer says: it may start again. */
bool mps_has(const struct mps_hub *hub, uint32_t device, const char *uid);
