/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The claims that are prepared on this node, each with a record (a file, FOLDER/<UID>, replaced
 * atomically) that holds everything needed to answer the kubelet again and to undo the preparation
 * when the claim itself is gone. A record says that the preparation is done, or that it is being
 * undone, which is finished when meted starts. A claim that is being prepared has none yet: where
 * its CDI file may be is written down once for all claims (`.announced`, lines "KIND FOLDER").
 *
 * Records are JSON without a checksum: a newer meted may add members, and an older one ignores
 * them. They are not synced: they outlive meted, and mean nothing after a restart of the machine.
 */
#pragma once

#include "base/list.h"
#include "plugin/dra/claim.h"
#include "plugin/host.h"
#include "plugin/refusal.h"

enum journal_phase { JOURNAL_BEGUN, JOURNAL_DONE, JOURNAL_ENDING };

/* Since when a device is ready, or is not, in seconds; 0: unknown. */
struct journal_ready {
	int64_t since;
	bool is_not;
};

struct journal_claim {
	struct list link;
	enum journal_phase phase;
	struct claim *claim;	      /* its `index` and `of` are this meted's */
	uint32_t missings;	      /* devices of it that this meted does not have */
	bool absent;		      /* its tenant cannot be joined, because a device is missing */
	bool untended;		      /* likewise, and the host does not remember the tenant */
	uint32_t tenant;	      /* 0: none was made yet */
	bool recorded;		      /* there is a record of it */
	bool joint;		      /* others may have the same one: joint.h */
	char folder[HOST_FOLDER_MAX]; /* of the tenant's socket; not in the record */
	char *kind, *cdi_folder;      /* of its CDI file */
	/* What its tenant has, as annotations changed it (adjust.c); NULL: default. */
	char *in_force[SHARE_FIELDS];
	bool changing; /* recorded like this; its tenant may still have some of the former texts */
	char *complaint; /* the last sentence about annotations; NULL: none */
	struct refusal refusal;
	struct journal_ready ready[CLAIM_RESULTS]; /* as the claim's status says; of the record */
	char *told;	 /* what its status was last told; NULL: nothing by this meted */
	bool untold;	 /* there may be something to tell */
	uint64_t looked; /* the round of stale.c that has looked it up */
};

struct journal {
	char *folder;
	char boot[40]; /* this boot's id; "": unknown */
	struct list all;
	uint32_t count;
	char *announced; /* the lines, those of earlier meteds included; NULL: none */
};

/* Reads the records. Those of an earlier boot are removed: nothing of them is left but files. A
 * record that cannot be parsed is logged and removed. */
must_check int journal_open(struct journal *journal, const char *folder, const struct host *host,
			    struct fault *why);
void journal_close(struct journal *journal);

struct journal_claim *journal_find(const struct journal *journal, const char *uid);
/* A prepared claim with its tenant (joint.h) that precedes it; NULL: none. */
struct journal_claim *journal_before(const struct journal *journal,
				     const struct journal_claim *entry);
/* Has another claim its tenant? */
bool journal_is_joint(const struct journal *journal, const struct journal_claim *entry);
/* Its tenant is a new one, which has what the claim says, from now on. -ENOMEM. */
must_check int journal_take(struct journal_claim *entry);

/* A claim that is not in the journal yet. Takes over `claim`. NULL: out of memory. */
struct journal_claim *journal_make(struct claim *claim, const char *kind, const char *cdi_folder);
void journal_free(struct journal_claim *entry);
OWNED_POINTER(struct journal_claim, journal_free)

/* Files of that kind, which no record names yet, may be in that folder from now on. Writes only
 * what is new. */
must_check int journal_announce(struct journal *journal, const char *kind, const char *cdi_folder,
				struct fault *why);
/* Calls for each place that was announced since the machine's start. */
void journal_each_announced(const struct journal *journal,
			    void (*seen)(void *owner, const char *kind, const char *cdi_folder),
			    void *owner);
/* Adds it, without a record. */
void journal_add(struct journal *journal, struct journal_claim *entry);
/* Writes its record as it is now, and adds it if it is new. */
must_check int journal_write(struct journal *journal, struct journal_claim *entry,
			     const struct host *host, struct fault *why);
/* Removes the record, and frees it. -errno: the file is still there; nothing has changed. */
must_check int journal_drop(struct journal *journal, struct journal_claim *entry,
			    struct fault *why);

/* journal_record.c. Pure. A new text; NULL: out of memory. */
char *journal_describe(const struct journal_claim *entry, const char *boot,
		       const struct host *host);
/* -EINVAL: it is not a record. -ENOMEM: it could not be read now. *ret_boot is in the tree of the
 * text: a copy. */
must_check int journal_parse(const char *uid, const char *text, size_t size,
			     const struct host *host, char ret_boot[40],
			     struct journal_claim **ret_entry);
