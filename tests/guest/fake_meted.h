/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A daemon for tests of the guest, on a thread of the test's own process: it answers what meted
 * would answer, closes and opens gates, dies and comes back, and misbehaves on demand.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "wire/page.h"
#include "wire/wire.h"

enum {
	FAKE_GUESTS = 16,
};

/* Ways to misbehave. */
enum fake_fault {
	FAKE_GOOD = 0,
	FAKE_UNSEALED,	      /* pages without seals */
	FAKE_SHORT_PAGE,      /* a page that is too small */
	FAKE_OTHER_MAJOR,     /* another version of the protocol */
	FAKE_OTHER_PAGE,      /* a tenant page without its magic */
	FAKE_REFUSES,	      /* REFUSED to HELLO */
	FAKE_NO_DESCRIPTORS,  /* WELCOME without pages */
	FAKE_GARBAGE,	      /* noise before every answer, and answers to nothing */
	FAKE_HANGS_UP,	      /* closes after HELLO */
	FAKE_REFUSES_AT_ONCE, /* sends the reason and closes before HELLO */
	FAKE_MANY_DEVICES,    /* more devices than a page has */
	FAKE_SILENT,	      /* no answer to HELLO */
};

struct fake_guest {
	int fd;
	struct wire_own_page *own;
	uint32_t pid;
	uint64_t allocated, credit;   /* as of its last INVENTORY */
	uint32_t inventories, stated; /* with all of them it is done */
	uint64_t granted[WIRE_DEVICES];
	uint8_t idle[WIRE_DEVICES]; /* it said IDLE, and not WANTS since */
};

struct fake {
	char socket_path[108];
	char folder[64];
	int listener;
	int wake[2];
	int tenant_fd;
	struct wire_tenant_page *page;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct fake_guest guest[FAKE_GUESTS];
	int guests;	     /* connections now */
	uint32_t hellos;     /* ever */
	uint32_t statements; /* that are complete, since it started */
	uint32_t asked;	     /* CREDIT_ASK, ever */
	int hold;	     /* CREDIT_ASK is not answered yet: */
	struct wire_message held;
	int held_fd; /* + 1 */
	uint64_t drained_epoch[WIRE_DEVICES];
	uint32_t drained_guests[WIRE_DEVICES];
	uint64_t granted[WIRE_DEVICES], limit_bytes;
	uint64_t asks, refusals, returned, residual_asks, residual_checks, settles, recalled;
	uint64_t wants, idles; /* heard, ever */
	enum fake_fault fault;
	int devices;
	uint32_t on_loss;
	int shut; /* its gates are closed from the start */
	int ignores_checks;
	int shows_granted;   /* on the page, as of the last PROCESSES_ASK */
	int recalls_at_look; /* so often, all unused credit comes back before that is answered */
	uint32_t look_held;  /* that PROCESSES_ASK's id, until then */
};

/* Starts with `devices` devices, whose UUIDs are 16 times 0x11, 0x12, ... Sets METE_SOCKET. */
void fake_start(struct fake *fake, int devices, enum fake_fault fault);

/* Dies: connections, the socket's file and the pages go. */
void fake_kill(struct fake *fake);

/* Comes back under the same path. */
void fake_restart(struct fake *fake);
void fake_stop(struct fake *fake);

void fake_close_gate(struct fake *fake, int device);
void fake_open_gate(struct fake *fake, int device);

/* Whether every guest acknowledged the last close of the device; waits at most `wait_ms`. */
int fake_wait_drained(struct fake *fake, int device, int wait_ms);

/* The figures of turns that guests are told. */
void fake_pace(struct fake *fake, int device, const struct wire_tenant_turns *pace);

/* Waits at most `wait_ms` until every guest is idle on the device (1), or one is not (0), by what
 * they said; returns whether that came. */
int fake_wait_idle(struct fake *fake, int device, int idle, int wait_ms);

/* How often they said so. */
uint64_t fake_heard_idle(struct fake *fake);
uint64_t fake_heard_wants(struct fake *fake);

/* The first guest's memory cannot come back. */
void fake_hinder(struct fake *fake, const char *by);

/* The next CREDIT_ASK is kept, and answered when this is called with 0. */
void fake_hold(struct fake *fake, int hold);
int fake_holds(struct fake *fake);

/* Threads of all guests that stand at a gate. */
uint64_t fake_waiting(struct fake *fake);

/* Asks the first guest for unused credit; returns what came back. */
uint64_t fake_recall(struct fake *fake, int device, uint64_t bytes);
