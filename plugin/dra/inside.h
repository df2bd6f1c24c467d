/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of plugin/dra/. */
#pragma once

#include "plugin/dra/counters.h"
#include "plugin/dra/dra.h"
#include "plugin/dra/journal.h"
#include "plugin/dra/queue.h"
#include "plugin/dra/unseen.h"

struct publish;
struct status;

/* Another meted that has our driver's socket (other.c). */
struct other {
	int fd;		 /* a connection to it, since the look before this one, if `is_asked` */
	uint32_t silent; /* looks in a row in which it said nothing */
	bool is_asked;
};

struct dra {
	struct plugin *plugin;
	struct journal journal;
	bool finishing; /* we are about to end: calls that have no end of their own are ended */
	char driver[80], pool[SLICES_POOL], kind[80];

	char noted[80]; /* the driver's name, as it was written down; "": it was not */
	bool unnoted;	/* and that it cannot be was logged */
	bool withdrawn; /* the name is a former one, and nothing is published by it */
	bool emptied;	/* and at the look before this one no slice was left */
	char *needed; /* "namespace/name" of a claim that has a device of it; NULL: none is known */
	bool untold_former;	  /* why nobody knows whether it is needed was logged */
	uint32_t former_rest;	  /* looks before all claims are read again */
	struct api_asked *former; /* a page of all claims is being read; NULL: none */

	struct registration *registration; /* NULL: nobody can call */
	struct other other;
	char *complaint; /* of the sockets: the last one logged */
	char *unwritten; /* likewise, of a CDI file */
	struct list asking, watchers;
	struct queue queue;	/* claims that are to be read */
	struct unseen unseen;	/* claims of calls whose pods are not known yet */
	struct list making;	/* claims of calls that have been read, and are to be prepared */
	struct loop_timer soon; /* in the loop's next round there is something to do with those */
	struct publish *publish;
	struct api_asked *version; /* is being asked for */
	struct counters_server server;
	char *report;	       /* as it was written last; NULL: it was not */
	struct status *status; /* NULL: there is no API server */

	struct loop_timer look; /* for what nothing reports: sockets that are gone, stale claims */
	uint32_t looks;
	struct api_asked *stale; /* a claim that is being looked up; NULL: none */
	char stale_uid[CLAIM_UID];
	uint32_t stale_tenant;
	uint64_t rounds;
};

/* dra.c */
/* Why the device is not given to claims; NULL: it is. */
const char *dra_withheld(const struct dra *dra, uint32_t device);
void dra_place(const struct dra *dra, struct claim_device devices[HOST_DEVICES],
	       struct config_share *portion, struct claim_place *ret_place);

/* name.c */
/* As the configuration says. -EINVAL with a sentence. */
must_check int name_begin(struct dra *dra, struct fault *why);
/* Claims of an earlier meted may be of a driver with another name, which stays until they end. */
void name_keep(struct dra *dra);
/* They may have ended. */
void name_follow(struct dra *dra);
void name_change(struct dra *dra);
/* The driver has sockets: writes its name down, where the next one finds it. */
void name_note(struct dra *dra);
/* Can a driver of ours be called that? */
bool name_is_driver(const char *name);

/* former.c */
void former_look(struct dra *dra);
/* The driver has its new name. */
void former_forget(struct dra *dra);
void former_close(struct dra *dra);

/* other.c */
enum other_state { OTHER_IS_NONE, OTHER_SERVES, OTHER_IS_SILENT };
/* At each look, of a path that is short enough for a socket. */
enum other_state other_look(struct dra *dra, const char *path);
void other_forget(struct dra *dra);

/* register.c */
struct registration;
/* "gpu.DOMAIN". -EINVAL with a sentence: the domain is too long. */
must_check int registration_name(const struct config *config, char ret_driver[80],
				 struct fault *why);
void register_open(struct dra *dra);
void register_close(struct dra *dra);
/* We are about to end. `given`: somebody else goes on with the sockets. The host's finished() is
 * called when all calls are answered and all connections have ended. False: there are none. */
must_check bool register_leave(struct dra *dra, bool given);
/* Does the kubelet know us? */
bool register_is_known(const struct dra *dra);

/* serve.c */
extern const struct grpc_method serve_methods[];
extern const size_t serve_method_count;
/* Prepares some of the claims that have been read. */
void serve_some(struct dra *dra);
/* Of claims that are being prepared: the places where parts have been made for them, and those of
 * others' parts in which they have a share. */
void serve_each_place(const struct dra *dra, void (*each)(void *owner, const char *device),
		      void *owner);
/* The server is closing: forgets the calls that wait. */
void serve_forget(struct dra *dra);

/* health.c */
void health_watch(struct grpc_call *call, struct grpc_bytes request, void *owner);
void health_watch_gone(struct grpc_call *call, void *owner);
/* The devices' health may have changed, or it is time to say it again. */
void health_tell(struct dra *dra);
/* Likewise, for the streams of health. */
void health_forget(struct dra *dra);
/* We are about to end: ends those streams, which the kubelet then opens again. */
void health_end(struct dra *dra);

/* prepare.c */
/* What the claim is to have. -errno with one sentence. */
must_check int prepare_read(struct dra *dra, const cJSON *object, const char *uid,
			    struct claim **ret_claim, struct fault *why);
/* Takes over `claim`, which is in the journal afterwards. -errno with one sentence: nothing of it
 * is left. */
must_check int prepare_claim(struct dra *dra, struct claim *claim, struct fault *why);
/* What was prepared, or was being prepared, is undone. -errno: something is left, and so is its
 * record. */
must_check int prepare_undo(struct dra *dra, struct journal_claim *entry, struct fault *why);
/* Is it prepared, and can containers join it? */
bool prepare_is_done(const struct journal_claim *entry);
must_check int prepare_write_cdi(struct dra *dra, const struct journal_claim *entry,
				 struct fault *why);
/* prepare_restore.c: finishes what an earlier meted began, and removes files that belong to no
 * claim. */
void prepare_restore(struct dra *dra);
/* Its CDI file may have been removed by somebody: writes it anew. -errno with a sentence. */
must_check int prepare_mend(struct dra *dra, const struct journal_claim *entry, struct fault *why);
/* Those of all claims; what keeps them from being written is logged once. */
void prepare_mend_all(struct dra *dra);

/* adjust.c */
/* Gives it the share that its pods' annotations make of it. */
void adjust_claim(struct dra *dra, struct journal_claim *entry);

/* publish.c */
must_check int publish_open(struct dra *dra, struct publish **ret_publish, struct fault *why);
/* There may be something to write. NULL: does nothing. */
void publish_consider(struct publish *publish);
/* The API server has no slice of ours, as far as it has told. NULL: false. */
bool publish_is_empty(const struct publish *publish);
void publish_close(struct publish *publish);

/* status.c */
must_check int status_open(struct dra *dra, struct fault *why);
/* The claim's share, or its devices' health, may have changed. */
void status_changed(struct dra *dra, struct journal_claim *entry);
void status_changed_all(struct dra *dra);
/* Why nothing can be told; NULL: it can. */
const char *status_complaint(const struct dra *dra);
void status_close(struct dra *dra);

/* report.c */
/* What it says may have changed. */
void report_changed(struct dra *dra);
/* Removes it: nobody serves claims any more. */
void report_close(struct dra *dra);

/* stale.c */
void stale_look(struct dra *dra);
void stale_close(struct dra *dra);
