/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs the node's pods get where they are counted by amounts: kube-scheduler has chosen the
 * node by its sums, and meted chooses the GPUs when the first of a pod's containers is about to
 * start, for all of them together (core/placement/seating.h). The pod keeps its seat until it ends.
 * A pod without room waits. When there is room it gets a seat at once, even if the kubelet is not
 * asking for it at that moment.
 *
 * Seats are not recorded: the share of a container is in its binding. After a restart of meted,
 * pods that have a running container are considered first.
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

/* Sets the devices of a binding and the amounts that are counted for it. -EAGAIN: its pod waits
 * for room; *why has the missing amounts. Another -errno: it never fits. */
must_check int seats_take(struct plugin *p, struct binding *b, const struct pod *pod,
			  struct fault *why);
/* After seats_take(): the container was not bound after all. Until a container of the pod is
 * bound, its seat is given up if one of its GPUs goes out of service. */
void seats_stood_up(struct plugin *p, const struct binding *b);
/* The sentence has been said to the kubelet, so that the pod's status has it: the container may be
 * kept waiting the next time. False: it has been said before. */
bool seats_say(struct plugin *p, const struct binding *b);

/* To be called when room may have changed: the waiting pods and the node's sums are considered a
 * little later. */
void seats_changed(struct plugin *p);
void seats_pod_gone(struct plugin *p, const struct pod *pod);
/* The container with these ids is no longer bound. */
void seats_unbound(struct plugin *p, const struct binding *b);

/* The node's sums of memory and time for kube-scheduler: those of the devices in service, less
 * the shares of containers without amounts. The sums are at least the amounts of the pods on the
 * node: a restarted kubelet would otherwise refuse these pods. False: not known yet. */
bool seats_sums(const struct plugin *p, uint64_t *ret_bytes, uint64_t *ret_milli);
