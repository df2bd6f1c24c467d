/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CLI's end of meted's admin socket: one request at a time, blocking.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"
#include "wire/wire.h"

struct admin {
	int fd;	     /* owned; -1: not connected */
	bool stream; /* frames follow one another, to another machine's meted (cli/remote.h) */
	pid_t pid;   /* of the process that listens; 0: not known */
	uint32_t last_id;
	struct wire_admin_welcome daemon; /* the meted at the other end */
};

/* A meted that does not answer is reported as stopped, or as hanging, after this time. One that is
 * only busy gets longer. */
enum { ADMIN_PATIENCE_MS = 2400 };

/* Added to a sentence about a meted that does not answer, except by `mete doctor` itself. */
#define ADMIN_DOCTOR " (`mete doctor` says what to do)"

/* Outcomes of admin_connect(). */
enum {
	ADMIN_ABSENT = 1, /* nobody listens in that folder */
};

/* Connects to the daemon whose folder is `place`: root's if that is PLACE_SYSTEM, else the user's
 * own. -EPERM with a sentence: the folder belongs to another user, or another user's process
 * listens there. */
/* -ETIMEDOUT with a sentence: it does not answer; see admin_state(). */
must_check int admin_connect(struct admin *admin, const char *place, struct fault *why);

/* Connects to this machine's daemon: the system's where there is one, else the user's own.
 * `ret_place` (PLACE_MAX) is the folder that was tried last. */
must_check int admin_connect_any(struct admin *admin, char *ret_place, struct fault *why);

/* The same for a verb on the tenant `who`. -ESRCH with a sentence: no meted is running. */
must_check int admin_connect_for(struct admin *admin, const char *who, struct fault *why);

/* A tenant as a person names it. A number is its id, or may be a name: meted reports it if both
 * exist. */
void admin_name_tenant(const char *who, uint32_t *ret_tenant, wire_text *ret_name);

/* Takes over a connected stream, greets, and gives up after so long without an answer. If that
 * fails the stream is closed. */
must_check int admin_greet_stream(struct admin *admin, int fd, int patience_ms, struct fault *why);
/* How long each later answer may take. */
void admin_be_patient(const struct admin *admin, int patience_ms);

void admin_close(struct admin *admin);

/* The process's state in /proc: 'T' if it is stopped, 'R' if it runs; 0: not known. */
char admin_state(pid_t pid);

/* Prints the daemon's notes for people on standard error, in the verb's name. */
void admin_tell(const struct admin *admin, const char *verb);

/* Sends a request and reads one answer. A REFUSED answer is -EPERM with the daemon's sentence, and
 * stands in *ret_answer. */
must_check int admin_ask(struct admin *admin, struct wire_message *request,
			 struct wire_message *ret_answer, struct fault *why);

/* Sends a request without waiting. One answer follows for each request, in the same order. */
must_check int admin_send(struct admin *admin, struct wire_message *request, struct fault *why);

/* Reads the next row of a list that admin_ask() began. Names in it are plain (base/text.h). */
must_check int admin_next(struct admin *admin, struct wire_message *ret_row, struct fault *why);

static inline void admin_close_owned(struct admin *admin)
{
	admin_close(admin);
}
