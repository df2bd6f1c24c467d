/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is around parts.c and its neighbours: the kubelet, the clock, the thread and the driver, in
 * place of the product's.
 */
#pragma once

#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/kubelet/allocated.h"
#include "plugin/nvidia/parts_inside.h"
#include "tests/test.h"
#include "tests/unit/mig_driver.h"

#define ID MIG_DRIVER_ID
#define S  1000000000ull

struct grpc_call {
	void *kept;
	bool ended;
	enum grpc_status status;
	char said[512]; /* the sentence of a refusal, or the first id that was answered */
};

struct around {
	uint64_t now_ns;
	struct loop_work *work; /* that has begun; NULL: none */
	/* The kubelet's record. */
	const char *given;
	int unread; /* -errno */
	bool pods_known;
	const char *claimed; /* a device that a prepared claim has; NULL: none */
	uint32_t looks;	     /* at the driver's devices, that were asked for */
	const char *unnamed; /* why names for profiles are not followed; "": they are */
};

extern struct around others;
extern struct config config;
extern struct host host;
extern struct plugin plugin;
extern struct serving serving;
extern struct parts *parts;

/* meted starts, and finds that on its record. */
void around_begin(enum config_mig mig, const char *recorded);
/* And the first check. */
void around_start(void);
void around_end(void);
/* The path of meted's record. */
const char *around_record(void);
void around_set_strategy(enum config_mig mig);
/* The thread comes to its end; it may be used again at once. */
void around_finish(void);
/* meted has read the driver's devices anew. */
void around_divided(void);
void around_do_look(void);
/* Allocate begins. */
void around_await(struct grpc_call *call, const char *id);
/* Allocate, until it is answered. */
void around_give(const char *id);
/* How many parts there are. */
uint32_t around_there(void);
