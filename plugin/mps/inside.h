/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of plugin/mps/. */
#pragma once

#include "base/loop.h"
#include "plugin/mps/mps.h"
#include "plugin/mps/run.h"
#include "plugin/plugin.h"

/* Sees a process end. It is freed when it is closed. */
struct mps_watch {
	struct loop_watch watch;
	struct mps_hub *hub;
	struct mps_gpu *gpu; /* NULL: nobody wants to know any more */
	int fd;
};

struct mps_gpu {
	struct mps_hub *hub;
	uint32_t device;
	struct mps machine;
	struct loop_timer timer;
	struct loop_work work;
	struct run run;
	struct mps_watch *watch;    /* of the daemon; NULL: its pid is not known */
	char root[MPS_PATH];	    /* of the folders; a former meted's may be another one */
	char said[RUN_TEXT];	    /* what was last logged about a failure */
	uint32_t replicas, percent; /* that the daemon was told */
	bool was_ready, one_only;
	bool moves; /* it is wanted below another root, as soon as nothing is left below this one */
	bool keeps; /* the configuration has changed, and containers have it by MPS as it was */
	bool waits; /* it is wanted, when those have ended who have it without MPS */
};

struct mps_hub {
	struct plugin *plugin;
	char control[MPS_PATH];	  /* the program; "": there is none */
	uint32_t handles;	  /* that are open: it is freed after the last */
	bool given[HOST_DEVICES]; /* to pods, when the kubelet's record was last read */
	void (*closed)(struct plugin *p);
	struct mps_gpu gpu[HOST_DEVICES];
};

/* commands.c: begins a command, which ends in mps_gpu_did(), perhaps at once. */
void mps_gpu_begin(struct mps_gpu *gpu, enum mps_command command);
/* The record that the compute mode was set; -1: of no GPU of this node. */
int mps_record_read(struct plugin *p, const char *uuid, char ret_root[MPS_PATH]);
void mps_record_folder(const struct plugin *p, char ret_path[PLUGIN_PATH]);
/* The program; "": there is none. */
void mps_find_control(const struct config *config, char ret_path[MPS_PATH]);

/* gpu.c */
void mps_gpu_open(struct mps_gpu *gpu, bool marked);
void mps_gpu_did(struct mps_gpu *gpu, bool well);
/* mps.c: from now on it runs, or not, as the configuration says. */
void mps_gpu_want(struct mps_gpu *gpu);
/* turnover.c: reads the kubelet's record, before mps_gpu_want() decides by it: once for all GPUs.
 */
void mps_read_given(struct mps_hub *hub);
/* The GPU stays as it is; `asked`: the configuration wants a daemon. */
bool mps_gpu_stays(struct mps_gpu *gpu, bool asked);
/* A pod that has the device by MPS, which the configuration no longer says: it may start again. */
bool mps_has(const struct mps_hub *hub, uint32_t device, const char *uid);
/* Does what is due. Called after every event. */
void mps_gpu_pump(struct mps_gpu *gpu);
void mps_gpu_unwatch(struct mps_gpu *gpu);
/* One handle of the hub is closed. */
void mps_hub_release(struct mps_hub *hub);
