/* SPDX-License-Identifier: Apache-2.0 */
/*
 * migStrategy: dynamic, and mete.mig: dynamic. A part of a GPU is made when a container needs it,
 * and removed when nobody has it. The kubelet is offered the places where parts could be
 * (mig/place.h), by profile, as far as there is room; Allocate brings the part about, and is
 * answered when meted has it as a device. Claims name places that plugin/dra publishes.
 * Every function accepts NULL: nothing is made.
 */
#pragma once

#include "mig/gpu.h"
#include "plugin/plugin.h"

struct parts;
struct V1beta1__ContainerAllocateRequest;

/* Calls for each device that a claim has, or is about to have, by its name in ResourceSlices. */
typedef void parts_each_claimed(const struct plugin *p,
				void (*each)(void *owner, const char *device), void *owner);

must_check int parts_open(struct plugin *p, parts_each_claimed *claimed, struct parts **ret_parts,
			  struct fault *why);
/* Who has parts is about to be forgotten: nothing is made or removed any more, even if who waits
 * before others leaves. */
void parts_rest(struct parts *parts);
/* What the thread is doing may end later, or never: the record has it. */
void parts_close(struct parts *parts);

/* Is it in the configuration? */
bool parts_is_on(const struct parts *parts);

/* Does it need to know which pods have ended? */
bool parts_asks_for_pods(const struct parts *parts);

/* The configuration may have switched it on. The first time it blocks: the driver is asked. */
must_check int parts_begin(struct parts *parts, struct fault *why);

/* A check of health.c, or a pod has gone: what nobody has is removed. */
void parts_look(struct parts *parts);
/* meted's devices are known anew. */
void parts_divided(struct parts *parts);

enum { PARTS_WANTS = 16 };

/* Somebody wants parts at these places; all zero: he does not. His own memory. */
struct parts_ask {
	struct list link;
	struct parts *parts;
	uint32_t count, tries;
	bool made;
	bool written_later; /* that he has them, by the kubelet: until then they are his anyway */
	char id[PARTS_WANTS][IDS_BYTES];
	/* Once; the ask is forgotten before. NULL: all of them are devices (parts_device()). */
	void (*done)(struct parts_ask *ask, const char *problem);
};

/* First come, first served. `id`, `count`, `written_later` and done() are set; done() may be called
 * within. */
void parts_want(struct parts *parts, struct parts_ask *ask);
/* done() is not called. Harmless if it was, or if nothing was wanted. */
void parts_unwant(struct parts_ask *ask);

/* Allocate: true if the ids are of places. The call is answered later. */
bool parts_await(struct parts *parts, struct serving *s, struct grpc_call *call,
		 const struct V1beta1__ContainerAllocateRequest *said);
void parts_call_gone(struct grpc_call *call);
/* The server is closing: its calls are ended. */
void parts_abandon(struct parts *parts, const struct serving *s);

/* Is the device a part that is ours, or no more there? It is not offered by its UUID. */
bool parts_hides(const struct parts *parts, uint32_t device);
/* The device that is at that place now; -1: none, or it is no place's name. */
int parts_device(const struct parts *parts, const char *id);

/* The id of the place where the device is, if its part is ours; NULL: it is not. */
const char *parts_place_of(const struct parts *parts, uint32_t device);

/* A place that is ours to give: no part lies over it but our own. */
struct parts_place {
	const char *id;
	const struct mig_gpu *gpu;
	const struct mig_profile *profile;
	struct mig_place at;
	int device; /* of meted's, that is there now; -1: none */
};
/* By GPU and profile; of a profile's, first those that leave most for others. */
void parts_each_place(const struct parts *parts,
		      void (*each)(void *owner, const struct parts_place *place), void *owner);

/* Each profile of the GPUs that can have parts now. */
void parts_each_profile(const struct parts *parts, void (*each)(void *owner, const char *profile),
			void *owner);

/* Places of the resource, with their health: at most `room`. Returns how many. */
struct parts_offered {
	char id[IDS_BYTES];
	bool healthy;
};
enum { PARTS_OFFERED = 1024 };
uint32_t parts_offer(const struct parts *parts, const char *resource, struct parts_offered *ret,
		     uint32_t room);

/* GetPreferredAllocation: moves those of `ids` that cost the others least to the front, behind the
 * first `must`, until `size` are there. False: none of the ids is a place's. */
bool parts_prefer(const struct parts *parts, const char **ids, size_t count, size_t must,
		  size_t size);
