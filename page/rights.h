/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What those may see who say a token of the node's cluster: by the API server's word, which is
 * believed for a while. Who may `get` this node's metrics (nodes/metrics) sees all; others see the
 * tenants whose pod or claim they may get. What is not known is not seen.
 */
#pragma once

#include "http/http_pace.h"
#include "page/looks.h"

enum {
	RIGHTS_MOST = 24,	  /* tokens that are known at a time */
	RIGHTS_STRANGERS = 4,	  /* ... of them, whose owner was never known */
	RIGHTS_NEW = 12,	  /* ... of whom that is still asked */
	RIGHTS_NEW_HOST = 8,	  /* ... of them, that one host has said */
	RIGHTS_NEW_PART = 4,	  /* ... or one for whom a host speaks */
	RIGHTS_EACH = 4,	  /* ... of them, that one user keeps where others need theirs */
	RIGHTS_IDLE_S = 30,	  /* so long a token that nobody says keeps its place from others */
	RIGHTS_THINGS = 512,	  /* pods, claims and namespaces of which one's rights are known */
	RIGHTS_AT_ONCE = 4,	  /* questions about one's rights */
	RIGHTS_TOKEN_MOST = 8192, /* bytes */
	RIGHTS_REFUSED_S = 10,	  /* a refusal is believed for so long, at most */
	RIGHTS_AGAIN_S = 5,	  /* from a question that was not answered to the next one */
	RIGHTS_BEYOND_S = 10,	  /* a stream's right outlasts its time for so long, while the API
				   * server is asked again */
	RIGHTS_BURST = 12,	  /* tokens never seen before, at once */
	RIGHTS_EACH_S = 5,	  /* ... and in a second */
	RIGHTS_HOST_BURST = 6,	  /* ... of one host, likewise */
	RIGHTS_HOST_EACH_S = 2,
	RIGHTS_PART_BURST = 3, /* ... of one for whom a host speaks */
	RIGHTS_PART_EACH_S = 1,
	RIGHTS_PATIENCE_S = 20, /* for all answers that a request needs */
};

enum { RIGHTS_LATER = 1, RIGHTS_STRANGER, RIGHTS_NOTHING };

struct rights;

struct rights_table {
	struct looks *looks; /* borrowed */
	/* Something has become known: who waits may ask again. */
	void (*settled)(void *owner);
	void *owner;
	struct rights *known[RIGHTS_MOST];
	uint64_t last_id;
	struct http_paces paces; /* in which unknown ones may come */
};

void rights_open(struct rights_table *table, struct looks *looks, void (*settled)(void *owner),
		 void *owner);
/* No stream may be left. */
void rights_close(struct rights_table *table);

/* What the owner of a token sees. `asker`: who says it. `waited_ns`: so long this request has
 * waited already. RIGHTS_LATER: settled() will follow. RIGHTS_STRANGER: the API server does not
 * know the token. RIGHTS_NOTHING: he may see nothing here. -EBUSY: too many others ask. -EIO: the
 * API server does not say. -ENOMEM. */
must_check int rights_enter(struct rights_table *table, const char *token,
			    const struct http_asker *asker, uint64_t waited_ns,
			    struct sight *ret_sight);

/* A stream of what is seen begins, and ends. Does nothing if no rights are asked for. */
void rights_hold(struct rights_table *table, const struct sight *sight);
void rights_leave(struct rights_table *table, const struct sight *sight);
/* Of a stream, each second: asks again what is due. False: a right that it had is gone. */
must_check bool rights_last(struct rights_table *table, const struct sight *sight);

/* For sight.c. May the tenant of that name be seen, and all that there is? */
bool rights_see(const struct rights *rights, const char *tenant);
bool rights_see_all(const struct rights *rights);
/* What their user is called in the cluster. */
const char *rights_name(const struct rights *rights);
