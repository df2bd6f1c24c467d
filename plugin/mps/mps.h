/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sharing.mps: for each GPU a control daemon of MPS, or one for each container, which meted starts,
 * watches, starts again and ends, as core/mps.h decides. A GPU whose daemon is not ready is not
 * offered; a container whose own is not ready does not start. Daemons outlive meted, because
 * programs do; the next meted takes them over, or ends them and sets the compute mode back, if they
 * are no longer wanted: records of GPUs and containers in meted's folder say what there is.
 *
 * Where the driver has MPS's protocol 3, each container has a namespace of its GPU's daemon, with
 * its limits (namespace.c).
 *
 * Below flags.mpsRoot each GPU has folders <UUID>/pipe, which its containers have as
 * /mps/nvidia.com/gpu/pipe, and <UUID>/log; with a daemon for each container these have them, by
 * the name of the container's slot (ids.h); with namespaces a container has <UUID>/pipe/m/SLOT.
 */
#pragma once

#include "base/fault.h"
#include "core/mps.h"

struct plugin;
struct binding;
struct mps_hub;

/* Finds the daemons of a former meted. They end if they are no longer wanted. */
must_check int mps_open(struct plugin *p, struct mps_hub **ret_hub, struct fault *why);
/* MIG has made this device, the next one, which mps_settle() settles with the others. With the key
 * `mete` no daemon is wanted, and that does not follow. -errno. */
must_check int mps_device(struct mps_hub *hub, uint32_t device);
/* `closed` is called later, in the loop, when no command is under way any more. Daemons go on. */
void mps_close(struct mps_hub *hub, void (*closed)(struct plugin *p));

struct config;

/* Would daemons run on this node with that configuration? -errno with a sentence. */
must_check int mps_fits(struct mps_hub *hub, const struct config *config, struct fault *why);
/* From now on daemons run as the configuration says: on a GPU that containers have by MPS, or
 * without it, as soon as these have ended. -errno: that is impossible on this node. */
must_check int mps_settle(struct mps_hub *hub, struct fault *why);
/* To be called when a container has ended, or its start was given up: its daemon is not wanted
 * any more. */
void mps_follow(struct mps_hub *hub);
/* Containers on GPUs that wait for their end may have ended. Called every few seconds. */
void mps_look(struct mps_hub *hub);
/* Containers have the device without MPS, which waits for their end. */
bool mps_waits(const struct mps_hub *hub, uint32_t device);
/* Likewise, or they have it by MPS although the configuration has changed. No other container is
 * given it. */
bool mps_stays(const struct mps_hub *hub, uint32_t device);

/* A former meted's GPU may be held by pods that have not started: only the API server knows the
 * pods that have ended. */
bool mps_asks_for_pods(const struct mps_hub *hub);

/* True if the device may be given to containers; always true without MPS. */
bool mps_is_open(const struct mps_hub *hub, uint32_t device);
/* -EAGAIN with a sentence: the reason why a device that stays as it is is not given to a
 * container. */
must_check int mps_blame(const struct mps_hub *hub, uint32_t device, struct fault *why);
/* -EAGAIN with a sentence: one of its devices waits for its daemon; -EINPROGRESS: the container
 * waits for its own, which is being started. */
must_check int mps_check(struct mps_hub *hub, const struct binding *b, struct fault *why);

enum { MPS_PATH = 256 };

/* Containers of the device have namespaces, which know how much they may have. */
bool mps_names(const struct plugin *p, uint32_t device);
/* The kubelet is given an answer with the device, and how it has it: for a while it stays so. */
void mps_answered(const struct plugin *p, uint32_t device);
/* The host's folder of the daemon's pipe. `key`: of the container's slot. */
void mps_pipe(const struct plugin *p, uint32_t device, const char *key, char ret_path[MPS_PATH]);

/* The limits of `replicas` out of `of`: a part of the device's threads, "28.5", and of its
 * memory, "0=11700M", as clients read them in their environment. */
enum { MPS_TEXT = 32 };
void mps_part(const struct plugin *p, uint32_t device, uint32_t replicas, uint32_t of,
	      char ret_percent[MPS_TEXT], char ret_limit[MPS_TEXT]);
