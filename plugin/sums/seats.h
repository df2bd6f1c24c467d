/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs the node's pods get where they are counted by amounts: kube-scheduler has chosen the
 * node by its sums, and meted chooses the GPUs when the first of a pod's containers is about to
 * start, for all of them together (core/seating.h). The pod keeps its seat until it ends. A pod
 * without room waits; when there is room it has a seat at once, whether or not the kubelet is just
 * asking for it.
 *
 * Seats are not recorded: what a container has is in its binding. After a restart of meted the rest
 * of a pod of which a container runs is considered first.
 */
#pragma once

#include "plugin/plugin.h"

struct seats;

/* Does nothing if pods are not counted by amounts. */
must_check int seats_open(struct plugin *p, struct fault *why);
/* NULL: does nothing, as below. */
void seats_close(struct seats *seats);

/* Whether the node's devices can be counted by amounts. -EINVAL with a sentence. */
must_check int seats_fit(const struct plugin *p, const struct config *config, struct fault *why);

/* The devices of a binding, and what is counted for it. -EAGAIN: its pod waits for room; *why says
 * in numbers for what. Another -errno: it cannot be. */
must_check int seats_take(struct plugin *p, struct binding *b, const struct pod *pod,
			  struct fault *why);
/* After seats_take(): the container was not bound after all. While nobody of a pod has sat down,
 * its seat is given up when a GPU of it is out of service. */
void seats_stood_up(struct plugin *p, const struct binding *b);
/* The sentence has been said to the kubelet, so that the pod's status has it: the container may be
 * kept waiting the next time. False: it has been said before. */
bool seats_say(struct plugin *p, const struct binding *b);

/* There may be more room, or less: a little later, those who wait are considered, and the node's
 * sums. */
void seats_changed(struct plugin *p);
void seats_pod_gone(struct plugin *p, const struct pod *pod);
/* The container with these ids is no longer bound. */
void seats_unbound(struct plugin *p, const struct binding *b);

/* The node's sums of memory and time, as kube-scheduler is to count with them: what the devices in
 * service have, less what containers have there that said no amount. Never less than what the pods
 * here have said: a restarted kubelet would refuse them. False: not known yet. */
bool seats_sums(const struct plugin *p, uint64_t *ret_bytes, uint64_t *ret_milli);
