/* SPDX-License-Identifier: Apache-2.0 */
/* The devices' health: the worker asks the driver from time to time. Only if there is a listener.
 */
#pragma once

#include "node/daemon.h"
#include "node/devices/nvml.h"
#include "plugin/host.h"

enum {
	HEALTH_PROCESSES = 256, /* on a device, that there is room for at first */
	/* As many guests as there may be, and as many others. */
	HEALTH_PROCESSES_MAX = 2 * DAEMON_GUESTS,
};

/* The processes that the driver saw on a device last. */
struct health_processes {
	struct nvml_process *row;
	uint32_t room, count;
	bool unknown; /* the last look failed */
};

struct health_watch {
	struct daemon *daemon;
	host_health *seen; /* NULL: nobody wants to know */
	void *owner;
	struct loop_timer timer;
	struct loop_work work;
	struct nvml_event event[4 * DAEMON_DEVICES]; /* an event may befall all devices */
	uint32_t events;
	uint32_t devices; /* that are asked about */
	bool answers[DAEMON_DEVICES];
	char clique[DAEMON_DEVICES][NVML_CLIQUE];
	struct health_processes processes[DAEMON_DEVICES];
	bool unknown[DAEMON_DEVICES]; /* that was logged */
};

must_check int health_watch_open(struct health_watch *h, struct daemon *d, host_health *seen,
				 void *owner);
/* The processes that were last seen and are not guests now. */
void health_watch_strangers(const struct health_watch *h, const struct host_reader *reader);
/* The bytes that the tenants' processes had then, according to the driver. */
void health_watch_measured(const struct health_watch *h, const struct host_reader *reader);
/* Stops all reports. The struct must live until the loop has ended. */
void health_watch_close(struct health_watch *h);
/* When the loop has ended. */
void health_watch_free(struct health_watch *h);
