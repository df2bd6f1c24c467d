/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by publish.c (when something is written), publish_wanted.c (what), published.c (what there
 * is) and publish_open.c. */
#pragma once

#include "plugin/dra/inside.h"
#include "plugin/dra/pcie.h"

/* A pool's generation is less: JSON has it as a number with all its digits. */
#define PUBLISH_GENERATIONS INT64_C(1000000000000000)

/* A slice of ours, as the API server has it. */
struct publish_known {
	struct list link;
	char *name;
	cJSON *object;
	cJSON *sent, *kept; /* what we wrote last, and what the server made of it, if it differs */
	uint64_t version;
	int64_t generation;
	bool seen; /* in the list that is being read */
};

struct publish {
	struct dra *dra;
	struct api_watch *watch;
	struct api_asked *asked, *node;
	struct loop_timer again;
	bool again_waits; /* nothing is written until it is due */
	char node_uid[64];
	struct list known;
	bool listed;

	bool in_round;
	int64_t generation;		/* of the round */
	char writing[SLICES_POOL + 16]; /* or deleting */
	bool deleting;
	cJSON *sent;		/* what is being written; NULL: nothing, or it is deleted */
	cJSON *times;		/* slices_note_times() */
	uint64_t unkept_ns;	/* when the server last did not keep what we wrote */
	char *unkept;		/* in which field, as last logged */
	uint64_t gone_version;	/* of `writing`, as the watch told since then; 0: it did not */
	bool counted;		/* what is being written has counters */
	bool uncounted;		/* those written last were dropped, which was logged */
	const char *unplaced;	/* as last logged; NULL: all places are published */
	char *wanted;		/* what the last round was for; NULL: there was none */
	uint64_t not_before_ns; /* the next repair */
	uint32_t pause_s, failures;
	uint64_t writes;
	const char *withheld[HOST_DEVICES]; /* as last logged; NULL: the device is published */
	char *complaint;
	char *waiting; /* why the node's UID cannot be read, as last logged */
};

/* A device, with the texts that its description borrows. */
struct publish_device {
	struct slices_device device;
	char root[PCIE_ROOT], xid[32];
	/* Of a place: */
	char id[IDS_BYTES], model[160], parent[MIG_UUID_MAX], profile[MIG_NAME_MAX], pci[32];
};

/* publish_places.c: the places where parts can be made for claims. */
struct publish_places {
	const struct publish *publish;
	uint32_t count, most;
	struct publish_device *row; /* owned; borrows from itself */
	bool failed;		    /* out of memory */
};
void publish_find_places(const struct publish *u, struct publish_places *ret_places);
/* Why there are places that are not published; NULL: all are. */
const char *publish_unplaced(const struct publish *u);
/* publish_wanted.c: the device's, behind one another. */
void publish_taint(const struct plugin *p, uint32_t device, struct publish_device *to);

/* publish_wanted.c: an array; NULL: out of memory. */
cJSON *publish_wanted(const struct publish *u, int64_t generation);
/* publish.c: nothing is written before that has passed. */
void publish_rest(struct publish *u, uint64_t ns);

/* publish_open.c: asks for the node's UID, if nobody does. */
void publish_find_node(struct publish *u);

/* published.c */
struct publish_known *known_of(const struct publish *u, const cJSON *wanted);
/* Says it what is wanted, or what the server has made of that? */
bool known_is(const struct publish *u, const struct publish_known *known, const cJSON *wanted);
/* The server has answered what was sent with another slice. */
void known_keep(struct publish *u, const cJSON *object);
/* Exactly the wanted ones, all of one generation? */
bool known_agrees(const struct publish *u, const cJSON *wanted);
/* One that is not wanted; NULL: none. */
const char *known_extra(const struct publish *u, const cJSON *wanted);
int64_t known_newest(const struct publish *u);
/* What we wrote, as the server has it now; a deletion's answer is the deleted object. */
void known_wrote(struct publish *u, const cJSON *object);
/* Has the server dropped fields that it does not know, or whose feature is off? */
bool known_lost_fields(const cJSON *object);
void known_see(struct publish *u, const cJSON *object);
void known_gone(struct publish *u, const cJSON *object);
void known_forget(struct publish *u, const char *name);
void known_begin(struct publish *u);
/* Those that the list did not have are gone. */
void known_end(struct publish *u);
void known_free(struct publish *u);
