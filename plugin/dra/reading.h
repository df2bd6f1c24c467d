/* SPDX-License-Identifier: Apache-2.0 */
/* Reads claims from the API server: by a few requests at a time, in the order of asking, those of a
 * namespace together (plugin/dra/queue.h). */
#pragma once

#include <cjson/cJSON.h>

#include "plugin/dra/queue.h"

struct dra;

/* All zero: nothing was asked for. */
struct reading {
	struct dra *dra;
	struct queued queued;
	/* Names of a claim; borrowed until read() or reading_forget(). */
	const char *namespace, *name, *uid;
	/* Once. `problem`: a sentence, or NULL; `object` is lent. Neither: the claim was prepared
	 * while this waited. May forget readings. */
	void (*read)(struct reading *reading, const char *problem, const cJSON *object);
};

/* The names and read() are set. read() is called later. */
void reading_ask(struct dra *dra, struct reading *reading);
/* read() is not called. reading_continue() is due. Harmless if nothing was asked for. */
void reading_forget(struct reading *reading);
/* There may be room for those that wait. */
void reading_continue(struct dra *dra);
