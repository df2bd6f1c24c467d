/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which container has which ids, as which tenant: a binding is a set of ids with the tenant of its
 * container. Its record is a text (binding_store.h).
 */
#pragma once

#include "base/list.h"
#include "plugin/host.h"
#include "plugin/kubelet/ids.h"
#include "plugin/refusal.h"

struct binding {
	struct list link;
	char key[IDS_KEY];
	uint32_t tenant;
	char folder[HOST_FOLDER_MAX]; /* of its socket */
	char *namespace, *pod, *uid;  /* uid: "" if unknown */
	char *container;
	char *texts[SHARE_FIELDS]; /* that the tenant was made with; NULL: default */
	uint32_t devices, device[HOST_DEVICES];
	/* The UUIDs of those of its devices that are missing. */
	uint32_t missings;
	char *missing[HOST_DEVICES];
	uint32_t parts; /* ids per device */
	/* Of each of its devices, where pods are counted by amounts: its tenant never has more.
	 * Not recorded if it is not counted. */
	bool counted;
	uint64_t counted_bytes;
	uint32_t counted_milli;
	uint32_t count;
	char **ids;
	char *resource; /* the resource that they belong to */
	/* Of its CDI file, as Allocate named it: the kubelet repeats that. NULL: none. */
	char *kind, *cdi_folder;
	char *complaint; /* the last sentence about its annotations; NULL: none */
	bool untold;	 /* no event has said that yet */
	struct refusal refusal;
	bool changing;	/* recorded like this; its tenant may still have some of the former texts */
	bool is_static; /* the kubelet's own pod, which the API server shows as a mirror */
	bool exclusive; /* no other container gets its devices */
	bool crowded;	/* its device has more containers than slots: it keeps its share */
	/* Of its devices, as bits: on which it has more than its limit according to the driver, at
	 * the last look and at the one before; and that this was reported. */
	uint64_t over, was_over, told_over;
	uint64_t unannounced[HOST_DEVICES]; /* bytes that its pod has there without mete */
	bool lost;			    /* its tenant no longer exists */
	bool absent; /* its tenant cannot be joined, because a device is missing; nothing of it is
			changed until a meted starts that finds the device */
};

/* The place of the device among the binding's; -1: it has no share of it. */
int binding_place(const struct binding *binding, uint32_t device);

/* Creates a new one, which is in no store yet. */
must_check int binding_make(const char *resource, const char *const *ids, size_t count,
			    struct binding **ret_binding);
void binding_free(struct binding *binding);
OWNED_POINTER(struct binding, binding_free)

/* Formats its record as a new text; NULL: out of memory. A partial record would describe another
 * container. */
char *binding_describe(const struct binding *binding, const struct host *host);
/* Parses the record of that name. -EINVAL: it is not a record. */
must_check int binding_parse(const char *key, const char *text, size_t size,
			     const struct host *host, struct binding **ret_binding);
