/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/machine/segment.h
 * The memory that the processes of one simulated node share: a file in METE_SIM_DIR, with the
 * node's settings, a slot per process, and each device's book (device.h) and engines (engine.h).
 *
 * Each process writes its own slot; everything else belongs to a robust mutex: the node's for the
 * table of slots, a device's for its book and engines. A process may be killed at any instant, also
 * inside a critical section: the next process that locks recomputes all sums from the slots. A
 * process that is stopped inside is helped out of it (segment_mutex.h).
 *
 * Dead processes are reaped, and their memory returned, by the next process that checks: at a
 * refused allocation, in NVML, in a wait for an engine. Nothing runs in the background. A process
 * is dead when it no longer holds its lock in the file and, if the checking process can see it,
 * /proc does not know it either (pid and start time). What a dead process did (busy time, lateness)
 * stays readable until its slot is used again.
 *
 * A process that joins an empty segment makes it anew, with its own settings.
 *
 * Lock order: a process's own locks, then the node's, then one device's. No thread waits while it
 * holds one. All calls are thread-safe. A forked child joins anew, as a process of its own, with
 * its first call; segment_join() must have succeeded before any other call of the sim's bottom
 * modules.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"
#include "sim/machine/settings.h"

#define SEGMENT_PROCESSES_MAX 512
#define SEGMENT_DEAD_MAX      64  /* how many dead processes are remembered */
#define SEGMENT_TICKETS_MAX   256 /* kernels and copies in the engines of one device at once */
#define SEGMENT_GAPS_MAX      64
#define SEGMENT_SAMPLES_MAX   32
#define SEGMENT_EVENTS_MAX    64
#define SEGMENT_SHARES_MAX    4096		 /* exported allocations of one device */
#define SEGMENT_PARTS_MAX     SETTINGS_PARTS_MAX /* GPU instances of MIG on the node */

/* A place where work runs: a whole GPU by its number, then the parts of GPUs (parts.h). */
#define SEGMENT_PLACES (SETTINGS_DEVICES_MAX + SEGMENT_PARTS_MAX)

enum segment_lane {
	SEGMENT_COMPUTE,
	SEGMENT_HOST_TO_DEVICE,
	SEGMENT_DEVICE_TO_HOST,
	SEGMENT_DEVICE_TO_DEVICE,
	SEGMENT_PEER, /* to or from another device */
	SEGMENT_LANES,
};

enum segment_state {
	SEGMENT_FREE,
	SEGMENT_ALIVE,
	SEGMENT_DEAD, /* holds nothing; its records are kept until the slot is needed */
};

#define SEGMENT_LATENESS_BUCKETS 82

/* How late work completed, from below 1 us to 1 s and more: four buckets to the octave; engine.c.
 * And for how long in all work was ready before its engine knew of it. */
struct segment_lateness {
	_Atomic uint64_t counts[SEGMENT_LATENESS_BUCKETS];
	_Atomic uint64_t missed_ns;
};

/* How long an engine worked in one sampling period; a ring of them by the period's number. */
struct segment_sample {
	uint32_t busy_ns;
	uint32_t period; /* wraps after 22 years */
};

/* The memory and the work of one process on one device. */
struct segment_usage {
	uint64_t used_bytes;	/* context, modules, allocations; managed pages that are resident */
	uint64_t managed_bytes; /* of used_bytes: managed pages, which others may push out */
	uint64_t pushed_bytes;	/* managed bytes that others pushed out, not yet noticed */
	uint64_t touched_ns;	/* last use of managed memory */
	uint32_t contexts;
	uint64_t busy_ns[SEGMENT_LANES]; /* ground truth, modelled */
	uint64_t kernels;		 /* completed */
	struct segment_sample samples[SEGMENT_SAMPLES_MAX];
};

struct segment_process {
	_Atomic uint32_t state; /* enum segment_state; written last when a slot is taken */
	int32_t pid;		/* in its own PID namespace */
	uint64_t start_ticks;	/* field 22 of /proc/PID/stat: tells a reused pid */
	uint64_t namespace_id;	/* of its PID namespace */
	uint64_t image;		/* of the program: another after exec() */
	uint64_t joined_ns, ended_ns;
	char name[32];
	/* Of a client of MPS: its control daemon (the inode of the folder; 0: not a client), and
	 * the part of a device that its kernels may have, in thousandths. */
	_Atomic uint32_t mps, mps_milli;
	struct segment_usage usage[SEGMENT_PLACES];
	struct segment_lateness lateness;
};

struct segment_ticket {
	uint64_t id;		   /* 0: free; ids are never reused */
	uint32_t process, context; /* context: a number of its process's */
	uint32_t mps, mps_milli;   /* its process's */
	uint8_t lane;
	uint8_t done;
	uint64_t ready_ns;
	uint64_t left_ns; /* work left, at full speed; UINT64_MAX: for ever */
	uint64_t end_ns;  /* when done */
};

/* A time when a lane was idle: work that comes late may still claim it. */
struct segment_gap {
	uint64_t start_ns, end_ns;
	uint64_t speed; /* in SETTINGS_FACTOR_ONE: what the duplex factor left of it */
};

struct segment_lane_book {
	uint64_t current; /* the owner of the slice: a process and its context; engine_core.c */
	uint32_t gap_count;
	uint64_t slice_end_ns;
	uint64_t busy_ns;
	struct segment_gap gaps[SEGMENT_GAPS_MAX]; /* oldest first */
};

struct segment_engines {
	uint64_t at_ns; /* the lanes' books are true up to here */
	uint64_t next_ticket;
	uint32_t tickets_high;	/* no ticket is in use from here on */
	_Atomic uint32_t epoch; /* futex: moves when work may end sooner than was thought */
	_Atomic uint32_t
		room;	/* futex: moves when a ticket gets free while a thread waits for one */
	uint32_t crowd; /* a thread may be waiting for one */
	struct segment_sample samples[SEGMENT_SAMPLES_MAX];
	struct segment_lane_book lanes[SEGMENT_LANES];
	struct segment_ticket tickets[SEGMENT_TICKETS_MAX];
};

enum segment_event {
	SEGMENT_ECC_CORRECTED = 1, /* as NVML numbers its events */
	SEGMENT_ECC_UNCORRECTED = 2,
	SEGMENT_XID = 8,
};

struct segment_event_record {
	uint32_t kind; /* enum segment_event */
	int32_t pid;
	uint64_t value, at_ns;
	uint32_t instance; /* of MIG, that it concerns; UINT32_MAX: the whole GPU */
};

/* Exported memory; share.h. Belongs to the device's mutex. */
struct segment_share {
	_Atomic uint64_t id; /* 0: free; by chance, and never used again */
	uint64_t bytes;
	uint64_t watch_inode, watch_namespace_id;
	int32_t watch_pid,
		watch_fd; /* of a process that watches: the descriptor that others can check */
	uint32_t payer;	  /* a slot, of the holders; share.c */
	uint64_t holders[SEGMENT_PROCESSES_MAX / 64];
	uint64_t watching[SEGMENT_PROCESSES_MAX / 64]; /* of holders: for descriptors only */
};

struct segment_device {
	pthread_mutex_t mutex; /* robust, shared */
	uint8_t uuid[16];
	uint64_t used_bytes; /* sum over processes and shares; capacity is the settings' */
	uint32_t lost; /* fallen off the bus: set by a fault, until the segment is made anew */
	uint64_t ecc_corrected, ecc_uncorrected;
	uint32_t event_count; /* ever; the ring holds the last ones */
	struct segment_event_record events[SEGMENT_EVENTS_MAX];
	struct segment_lateness lateness;
	struct segment_engines engines;
	_Atomic uint32_t shares_high; /* no share has been used from here on */
	struct segment_share shares[SEGMENT_SHARES_MAX];
};

enum segment_part_state {
	SEGMENT_PART_FREE,
	SEGMENT_PART_EMPTY, /* a GPU instance without its compute instance: nobody can use it */
	SEGMENT_PART_MADE,
};

/* A GPU instance of MIG; parts.h. Belongs to the node's mutex. */
struct segment_part {
	_Atomic uint32_t state; /* enum segment_part_state; written last */
	_Atomic uint32_t
		made; /* how often this place was used: tells a former part from the present one */
	uint32_t gpu, profile, start, instance;
	struct settings_device shape;
};

#define SEGMENT_LIMITS_MAX 128 /* of control groups on the node's GPUs, at once */

/* What the processes of a control group may have of a GPU; limits.h. Belongs to the node's mutex.
 */
struct segment_limit {
	char group[512]; /* its path; "": free */
	uint32_t gpu;
	uint64_t soft_bytes, hard_bytes;
};

struct segment {
	uint64_t layout; /* differs in another build, whose segment cannot be joined */
	pthread_mutex_t mutex;
	_Atomic uint32_t events;	 /* futex: moves with each event of any device */
	_Atomic uint32_t processes_high; /* no slot has been used from here on */
	struct settings settings;
	_Atomic uint32_t mig_now[SETTINGS_DEVICES_MAX], mig_later[SETTINGS_DEVICES_MAX];
	_Atomic uint32_t compute_mode[SETTINGS_DEVICES_MAX]; /* of NVML */
	_Atomic uint32_t parts_high; /* no part has been made from here on */
	struct segment_part parts[SEGMENT_PARTS_MAX];
	_Atomic uint32_t limits_high; /* no limit has been set from here on */
	struct segment_limit limits[SEGMENT_LIMITS_MAX];
	struct segment_device devices[SEGMENT_PLACES];
	struct segment_process processes[SEGMENT_PROCESSES_MAX];
};

/* Slots from here on have never been used: a loop over all slots need not touch their memory. */
static inline uint32_t segment_slots(const struct segment *segment)
{
	return atomic_load_explicit(&segment->processes_high, memory_order_acquire);
}

/* Places from here on have never been used. */
static inline uint32_t segment_places(const struct segment *segment)
{
	return SETTINGS_DEVICES_MAX +
	       atomic_load_explicit(&segment->parts_high, memory_order_acquire);
}

/*
 * Joins the node: reads the environment, opens or makes the segment, takes a slot, starts the
 * clock. Further calls: 0 at once. -EINVAL for bad settings, -EEXIST if the existing node differs,
 * -EUSERS without a free slot, or the system's error; each with one sentence on stderr, once.
 */
must_check int segment_join(void);

/* The process's slot is dead from now on. For tests and orderly ends; dying does the same. */
void segment_leave(void);

/* Never NULL after segment_join(). */
struct segment *segment_get(void);
const struct settings *segment_settings(void);

/* The folder METE_SIM_DIR that is in use. */
const char *segment_folder(void);

/* The caller's slot; joins anew after fork(). NULL where that fails. */
struct segment_process *segment_self(void);
uint32_t segment_number(const struct segment_process *process);

/* The table of slots: the processes, their pids and names. Taken before a device's lock. */
void segment_lock_node(void);
void segment_unlock_node(void);

/* Locks a device's mutex, and mends what a process left behind that died with it. */
void segment_lock(struct segment_device *device);
void segment_unlock(struct segment_device *device);

/* The calling thread has all signals blocked for good, so they need not be blocked at each lock. */
void segment_deaf_thread(void);

/* Frees what dead processes and closed descriptors held; returns how many there were. Not with a
 * lock held. */
unsigned segment_reap(void);

/* The process's pid as the caller's PID namespace has it; 0 where it has none. */
pid_t segment_pid(const struct segment_process *process);
