/* SPDX-License-Identifier: Apache-2.0 */
/* The state of meted's turns and gates: schedule.h, gate.h, drift.h, samples.h. */
#pragma once

#include <stdbool.h>

#include "base/loop.h"
#include "core/turns/turns.h"
#include "node/devices/nvml.h"
#include "node/bounds.h"

struct peer;

/* The processes that recently had kernels on a device, according to the driver. */
struct device_busy {
	bool wanted;		     /* the worker is to ask for them, */
	bool known;		     /* and has got them */
	bool judged;		     /* core/turns/alike.h waits for them */
	uint64_t asked_us, asked_ns; /* when it asked: wall clock, and the loop's */
	uint32_t count;
	struct nvml_busy rows[DAEMON_BUSY];
};

/* A change of a gate for which an admin waits. */
struct gate_wait {
	struct peer *peer; /* NULL: nobody */
	uint32_t id;
};

/* The outcome of the test verb's last close of a gate. */
enum gate_test {
	GATE_UNTESTED, /* there was none, or it was opened again */
	GATE_TEST_SHUT,
	GATE_TEST_FAILED, /* it could not be closed, and was not closed since */
};

struct gates {
	struct loop_timer timer; /* armed while a gate is closing */
};

/* late.h */
struct late {
	uint64_t since_ns; /* since when the gate closes, if that is watched */
	uint64_t ran_ns, queued_ns;
	uint64_t again_ns; /* when it is looked again, by the clock of turns; 0: not */
};

/* lost.h */
struct lost {
	struct loop_after after;
	uint64_t rested_ns, before_ns; /* the ends of the loop's last two rounds */
};

struct schedule {
	struct turns turns;
	struct lost lost;
	uint64_t again_ns; /* the first of all `again_ns`; UINT64_MAX: none */
	struct loop_alarm alarm;
	bool pumping; /* the machines' actions are being fetched */
};
