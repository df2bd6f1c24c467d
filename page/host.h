/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The complete interface between meted and its page, a separate library (libmete-page.so) that
 * meted loads only if it is asked to show figures over HTTP (`meted --page`, `meted --metrics`).
 * The page reads rows, and can change nothing.
 */
#pragma once

#include <sys/types.h>

#include "base/fault.h"
#include "base/loop.h"
#include "base/board.h"
#include "kube/right.h"
#include "wire/wire.h"

enum { PAGE_VERSION = 7 }; /* of this interface: both sides are built together */

enum { PAGE_USER_MAX = 33 };

struct daemon;

struct page_host {
	uint32_t version;
	struct loop *loop;
	struct daemon *daemon;
	uid_t owner;	     /* who runs meted: he sees everything */
	bool system;	     /* the machine's, which has tenants of all users */
	const char *page;    /* an address, as http_open() has them; NULL: none was said */
	const char *metrics; /* likewise, for Prometheus */
	const char *token;   /* a file; NULL: there is none */
	/* Files, for TLS at TCP addresses; both or neither. */
	const char *certificate, *key;
	bool open; /* a loopback address needs no token */
	/* How long the cluster's word is believed on who may see what; 0: it is not asked. */
	uint64_t believed_ns;
	const char *audience; /* whom tokens must be for; NULL: the API server */

	/* The rows of `mete ps` in its order: devices, tenants each with its processes, what is
	 * outside. A row is lent. */
	void (*rows)(struct daemon *d, void (*row)(void *owner, const struct wire_message *row),
		     void *owner);
	/* What has happened and meted still knows, beyond the event of that number, the oldest
	 * first. An event is lent. */
	void (*events)(struct daemon *d, uint64_t after,
		       void (*event)(void *owner, const struct wire_event_row *event), void *owner);
	/* Has the driver asked for newer figures; they are in later rows. */
	void (*freshen)(struct daemon *d);
	/* What meted says of itself. */
	void (*tell)(struct daemon *d, struct wire_admin_welcome *ret_said);
	/* Of a device: the number of its file, and of MIG its instance; unchanged if there is none.
	 */
	void (*device)(struct daemon *d, uint32_t index, int *minor, int *gpu_instance);
	/* Has the driver asked what boards say of themselves, unless it said so within the last
	 * second. True: that is longer ago, and `told` is called once it says so, or takes too
	 * long. `told` NULL: nobody waits. */
	bool (*want_boards)(struct daemon *d, void (*told)(void *owner), void *owner);
	/* As it was said, and when; 0: not yet. */
	struct gpu_board (*board)(const struct daemon *d, uint32_t index);
	uint64_t (*boards_since_ns)(const struct daemon *d);
	/* "alice", or "1004". */
	void (*user)(uid_t uid, char ret_name[PAGE_USER_MAX]);

	/* Only if the cluster is asked. Whose a token is, and what he may get: the loop calls
	 * told() once, within seconds, unless it is forgotten before. -ENOTCONN, -ENOMEM. All must
	 * have been forgotten when the page is closed. */
	int (*who)(struct daemon *d, const char *token, const char *audience, right_told *told,
		   void *owner, struct right_asked **ret_asked);
	int (*may)(struct daemon *d, const char *user, const struct right *right, right_told *told,
		   void *owner, struct right_asked **ret_asked);
	void (*forget)(struct daemon *d, struct right_asked *asked);
};

struct page_server;

/* What libmete-page.so exports: `const struct page_entry mete_page`. */
struct page_entry {
	uint32_t version; /* PAGE_VERSION */
	/* `host` is borrowed until closed. */
	int (*open)(const struct page_host *host, struct page_server **ret_page, struct fault *why);
	/* Ends all connections; what is left goes with the loop. NULL: does nothing. */
	void (*close)(struct page_server *page);
};
