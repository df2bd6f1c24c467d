/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures of meted. It has one loop and one thread; everything is reachable from struct
 * daemon, which main() owns. The parts know each other's structs: they are one program.
 *
 *	book.c     carries out what core/ledger/ledger.h decides; keeps the tenant pages' figures
 *	measure.c  when core/ledger/residual.h's machines measure, and with what
 *	outside.c  memory that no tenant holds
 *	mark.c     other meteds on the same devices
 *	nested.c   tenants within tenants
 *	drift.c	   compares the charged time with the driver's
 *	samples.c  asks the driver who had what of a device whose tenants are alike
 *	watch.c    measures guests that send nothing from time to time
 *	prices.c   estimates what a context takes
 *	tenant.c   tenants: socket, page, life
 *	gate.c     their gates
 *	schedule.c whose turn it is
 *	move.h	   whose memory is on the device; store.h: where the rest is
 *	flow.c     whose connections are served next; their rate limits
 *	caller.c   connections to a tenant's socket, until HELLO
 *	guest.c    guests, that is processes: they join, disconnect, reconnect, end
 *	words.c    guests' messages, and the answers
 *	rows.c     figures for display
 *	admin.c    the CLI's connections
 *	missing.c     waits for a GPU on a Kubernetes node that has none
 *	kubernetes.c  the interface for the Kubernetes part (plugin/)
 *	user.c, terms.c  users of the system's daemon, and the limits for their tenants
 *	policy.c   the administrator's policy for them
 *	reserve.c  devices that `mete pick` gave out
 *	cordon.c   devices that take no new tenants
 *	restore.c  writes the journal's records of all this, and restores it from them
 *	past.c     the state that the journal's records describe
 *	absent.c   tenants in the journal whose devices are missing
 *	record.c   how a record is written
 *	process.c  which process a pid refers to
 *
 * measure.h declares what measures, schedule.h the turns, guest.h guests and their messages.
 */
#pragma once

#include <stdbool.h>

#include "base/file_watch.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/place.h"
#include "core/turns/alike.h"
#include "core/ledger/ledger.h"
#include "core/ledger/residual.h"
#include "core/ledger/residual_price.h"
#include "core/share/share.h"
#include "core/turns/turns.h"
#include "node/state/journal.h"
#include "node/move/move.h"
#include "node/nvml.h"
#include "node/options.h"
#include "node/page.h"
#include "node/peer.h"
#include "node/process.h"
#include "node/move/store.h"
#include "wire/page.h"

enum {
	DAEMON_DEVICES = 64,
	DAEMON_TENANTS = 1024,
	DAEMON_TENANTS_OF_USERS = 768, /* the others are root's */
	DAEMON_USERS = 1024,
	DAEMON_IDS = 256, /* lists of tenants by their ids' remainder */
	DAEMON_GUESTS = 2048,
	DAEMON_BUSY = 256, /* processes on a device whose time is compared with the driver's */
	DAEMON_GUESTS_OF_TENANT = 512,
	DAEMON_GUESTS_SURE = 4, /* reserved for each tenant, whatever the others do */
	DAEMON_SEATS = DAEMON_GUESTS + DAEMON_TENANTS * DAEMON_GUESTS_SURE,
	DAEMON_SILENT_OF_TENANT = 64,	 /* connections that have not sent HELLO */
	DAEMON_FILES_KEPT = 64,		 /* descriptors that guests never get */
	DAEMON_PAUSE_MS = 20,		 /* of a listener that must wait */
	DAEMON_STRANGERS_OF_TENANT = 32, /* connections that are being told why they are refused */
	DAEMON_ASKS = 2048,		 /* waiting ones, in addition to the reserved ones */
	DAEMON_ASKS_SURE = 4, /* reserved for each tenant and device, whatever the others do */
	DAEMON_ASKS_OF_TENANT = 512, /* at most, on a device */
	DAEMON_ASKS_OF_GUEST = 64,
	OUTSIDE_SHOWN = 16,
	OUTSIDE_PROGRAM = 32,
	DAEMON_PRICES = 16, /* models of devices, and versions of the driver that guests see */
};

struct daemon;
struct tenant;
struct tenant_device;
struct guest;
struct user;
struct policy;
struct mark;

/* The processes that recently had kernels on a device, according to the driver. */
struct device_busy {
	bool wanted;		     /* the worker is to ask for them, */
	bool known;		     /* and has got them */
	bool judged;		     /* core/turns/alike.h waits for them */
	uint64_t asked_us, asked_ns; /* when it asked: wall clock, and the loop's */
	uint32_t count;
	struct nvml_busy rows[DAEMON_BUSY];
};

/* A process on a device that is not a guest there. */
struct outside_process {
	uint32_t pid, user; /* user: -1 if unknown */
	uint64_t started, used;
	char program[OUTSIDE_PROGRAM];
};

struct device {
	const struct nvml_device *info;
	uint64_t reserve_bytes;
	uint32_t registered;	 /* tenants */
	uint64_t promised_bytes; /* the sum of their limits */
	uint32_t inhabited;	 /* tenants that have guests */
	bool cordoned;		 /* it takes no new tenants */
	struct list remains;	 /* of tenants whose processes have left memory behind */
	struct list tenants;
	bool unshown; /* some of them still see an older room, or number of tenants, than these: */
	uint64_t shown_room;
	uint32_t shown_registered;
	uint64_t glanced_ns; /* when book_glance() looked last */
	struct turns_device turns;
	bool shown_governed; /* its tenants' guests know that there are turns */
	struct alike alike;
	bool shown_listens; /* and that `alike` must know when they are idle */
	bool said_unfair;   /* in the log */
	struct residency residency;
	uint32_t members;	  /* of `residency` */
	bool relisten;		  /* which guests must report idleness may have changed */
	uint64_t passed_bytes;	  /* granted by `residency`, but not by the ledger yet */
	uint64_t uncleared_bytes; /* of its part of the store: being cleared */
	uint64_t kept_bytes;	  /* likewise: not given back although it was to be */
	struct list plain;	  /* asks for unmovable memory; room is being made ... */
	uint64_t plain_bytes;	  /* ... of this size */
	struct device_busy busy;
	struct outside_process outside[OUTSIDE_SHOWN]; /* the largest of `outside_all` */
	uint32_t outside_count, outside_all;
	uint64_t outside_ns;	/* when that was seen */
	uint64_t outside_until; /* an answer waits for this measurement */
};

/* A device that `mete pick` reserved, while its connection lives or until a time. A reservation
 * from before this daemon has no connection: it lives as long as the picker's process, which has
 * become its program by then. */
struct reservation {
	const void *owner; /* the connection, or this struct; NULL: none, or timed */
	uint64_t until_ns; /* of a timed one */
	pid_t pid;
	uid_t uid;
	uint64_t started;
	struct daemon *daemon; /* these three only where the owner is this struct */
	struct loop_watch death;
	int pidfd;
};

/* A change of a gate for which an admin waits. */
struct gate_wait {
	struct peer *peer; /* NULL: nobody */
	uint32_t id;
};

/* What became of the test verb's last close of a gate. */
enum gate_test {
	GATE_UNTESTED, /* there was none, or it was opened again */
	GATE_TEST_SHUT,
	GATE_TEST_FAILED, /* it could not be closed, and was not closed since */
};

/* remains.c */
struct remains {
	struct list link; /* of the device, where there are any */
	struct daemon *daemon;
	struct ledger_account *account;
	struct tenant_device *of; /* NULL: a user's, namely ... */
	uid_t user;
	uint32_t index;		      /* of the device */
	struct ledger_holder *holder; /* NULL: nothing is charged */
	uint64_t bytes;
	uint64_t said;	 /* of `bytes`, in the log */
	uint64_t nobody; /* what the last look saw on the device */
	uint64_t after;	 /* looks are measurements from this one on */
	uint32_t looks;
	bool in_flux; /* more looks are needed */
};

struct tenant_device {
	struct list link; /* of the device */
	struct tenant *tenant;
	uint32_t index; /* of the daemon's devices */
	struct ledger_account *account;
	uint64_t most_bytes;	/* what the journal says it may hold; never less than it holds */
	uint64_t highest_limit; /* likewise: the highest that it ever had */
	uint64_t may_bytes;	/* what it may be found with: host_measured; 0: never looked */
	uint32_t in_flux;	/* guests whose residual is being measured, and `remains` */
	uint32_t owed;		/* guests to which a measurement is owed */
	struct remains remains;
	uint64_t looked_ns;  /* when all its guests were last measured */
	struct list held;    /* of the daemon: its asks wait for a measurement, */
	uint64_t held_until; /* namely this one */
	struct gate_wait waiting;
	uint64_t closing_ns;	   /* since when the gate is closing, if it is */
	uint64_t longest_drain_ns; /* so long a close took at most, of those that ended */
	enum gate_test test;
	bool said_beside; /* in the log */
	bool seated;	  /* it takes part in turns: it has guests */
	struct turns_seat seat;
	struct alike_seat alike;
	struct residency_member member; /* where it is `joined` */
	bool joined;
	struct list move_due; /* of the daemon: its guests may have to be told something */
	struct list asks;     /* for movable memory; move_ask.c */
	uint32_t ask_count;
	uint64_t move_refused; /* how many of those were refused */
	uint32_t behind;       /* its memory waits for this tenant, which is stuck; 0: nobody */
	bool busy_known;       /* drift.c */
	uint32_t busy_milli, busy_charged_milli;
};

struct tenant {
	struct list link;    /* of the daemon */
	struct list same_id; /* the same, of those with the same remainder */
	struct daemon *daemon;
	uint32_t id;
	uid_t owner;
	struct user *user;    /* NULL: nothing bounds the owner */
	struct tenant *outer; /* the tenant that encloses it; NULL: none */
	uint32_t nested;      /* tenants within it */
	uint64_t made_ns;
	char *name;		   /* owned, as are the next two */
	char *texts[SHARE_FIELDS]; /* the share as it was written, in share.def's order; NULL:
				      default */
	struct share share;
	struct page page;
	struct wire_tenant_page *shown; /* page.memory */
	char *folder, *socket;
	int listen_fd;
	struct loop_watch listener;
	struct flow_pause pause; /* of the listener, */
	bool resting;		 /* until it is over */
	struct flow flow;
	struct flow_item calls; /* what the listener wants */
	struct list guests, callers;
	struct list processes; /* that keep it, see keeper.h */
	uint32_t guest_count, stranger_count, silent_count, keepers;
	uint32_t expected_count; /* guests from before this daemon that have not stated what they
				    hold */
	bool pods;		 /* made for the Kubernetes part */
	bool away; /* `mete suspend` was asked for: none of its memory may be on a device */
	struct store *store; /* owned; NULL: nobody has asked for it */
	struct turns_tenant turns;
	bool leaving, kept;	    /* kept: by a connection, since this daemon started */
	uint64_t unknown_functions; /* of guests that have left */
	uint64_t joins;		    /* guests, since this daemon started */
	uint32_t devices;
	struct tenant_device device[]; /* `devices` of them */
};

struct guest_device {
	struct guest *guest;
	struct ledger_holder *holder;
	struct residual residual;
	struct move_guest move;
	struct list measure; /* of the daemon: to be measured, or being measured */
	struct list between, open;
	struct list answer; /* likewise: RESIDUAL_CHECK `check_id` must be answered */
	bool excused;	    /* although it could not be measured */
	uint32_t check_id;
	bool in_flux, owed; /* counted in its tenant's */
	bool stated, owes_drain;
	bool idle; /* it sent IDLE, and no WANTS since; schedule.c */
	uint64_t seen_peak;
	uint64_t seen_moved; /* when it was measured last */
};

/* A connection to a tenant's socket. It may end, and its process may reconnect. */
struct caller {
	struct peer peer;
	struct list link; /* of the tenant; not linked: it is ending */
	struct tenant *tenant;
	struct guest *guest; /* NULL: it has not sent HELLO, or a later connection replaced it */
	struct process_identity process;
	int pidfd;
	bool silent;	       /* it was accepted, and has not sent HELLO yet */
	const char *unwelcome; /* the refusal that answers HELLO, whatever it contains; NULL:
				  accepted */
	uint32_t unwelcome_code;
};

/* A process, as long as it lives (or until it becomes another program). What it holds on the
 * device does not depend on whether it is connected. A tenant has each process at most once. */
struct guest {
	struct list link; /* of the tenant; not linked: it has left */
	struct tenant *tenant;
	struct caller *caller; /* NULL: it is away */
	uint32_t id;
	pid_t pid;
	struct process_identity process;
	int pidfd;
	struct loop_watch death;
	struct page page;
	const struct wire_own_page *own; /* page.memory: believed within bounds only */
	char *program;			 /* owned; NULL: not known */
	uint32_t user;			 /* -1: not known */
	uint64_t came_ns;
	uint32_t driver_version; /* as it reports */
	uint64_t copy; /* likewise: which copy of the library in its process; 0: not reported */
	bool complained;
	bool stated;   /* it has stated what it holds, and its page covers that, too */
	bool known;    /* it had done so on an earlier connection, and holds what it was granted */
	bool restored; /* it existed before this daemon */
	bool expected; /* likewise, and has not done so yet */
	uint64_t settles;	      /* RESIDUAL_SETTLE messages received on this connection */
	wire_uuid lends;	      /* the name under which it lends memory; zero: it does not */
	struct guest_device device[]; /* its tenant's */
};

struct price {
	const char *model; /* NULL: none */
	uint32_t driver_version;
	struct residual_price price;
};

struct daemon {
	struct loop loop;
	struct options options;
	char place[PLACE_MAX];
	char log_path[PLACE_MAX + 16]; /* the path of our log, if it is our file */
	int lock_fd;
	uint64_t generation;
	uint32_t clock_dilation;

	struct nvml *nvml;
	uint32_t devices;
	struct device device[DAEMON_DEVICES];
	struct reservation reserved[DAEMON_DEVICES];
	struct loop_timer reserve_timer;

	struct ledger *ledger;
	struct loop_timer ledger_timer;
	struct loop_timer show_timer; /* while a tenant has not seen a device's latest room */
	bool showing;		      /* it is armed */

	struct flows flows;
	struct flow admin_flow;
	struct list tenants, by_id[DAEMON_IDS];
	uint32_t tenant_count, guest_count, admin_count, user_count;
	struct list users;
	struct policy *policy;	/* owned */
	bool policy_known;	/* it has been read at least once */
	bool policy_there;	/* its file existed the last time */
	char policy_fault[512]; /* why it could not be read the last time; "": it could */
	struct file_watch policy_watch;
	struct loop_signal policy_signal;
	struct ledger_account *together[DAEMON_DEVICES]; /* of all users */
	uint32_t last_tenant, last_guest;
	int admin_fd;
	struct loop_watch admin_listener;
	struct loop_timer admin_pause;
	int spare_fd;			    /* closed to free a descriptor when there is no other */
	int guest_fds;			    /* guests get no descriptor above this one */
	int told_fd[DAEMON_FILES_KEPT / 4]; /* of who was told so, last; 0: none */
	uint32_t told_most, told_next;
	struct list admins;

	struct journal journal;
	struct loop_timer
		grace;	/* after a start: when to stop waiting for guests that have not come back */
	bool restoring; /* until then */
	struct list absent; /* absent.h */
	uint32_t absent_count;

	struct loop_work measure;
	struct nvml_process *processes; /* the worker's, DAEMON_GUESTS for each device */
	uint32_t process_count[DAEMON_DEVICES];
	bool measured[DAEMON_DEVICES];
	uint64_t nobody[DAEMON_DEVICES]; /* in use, and listed for no process */
	uint64_t measurements;		 /* that have begun */
	uint64_t measured_last;		 /* the last one that has ended */
	bool measures_memory;		 /* the one in progress, or the last one */
	uint64_t measure_began_ns;
	bool outside_wanted; /* of all devices, by the next one */
	struct loop_timer outside_timer;
	bool outside_armed;
	struct list measure_wanted, measure_running;
	struct list measure_between; /* guests to be measured again after a while */
	struct list measure_open;    /* and once more before a request is refused */
	struct list measure_answers;
	struct loop_timer measure_timer; /* while one is under way */
	bool measure_late;		 /* it takes too long, and is no longer waited for */
	struct loop_timer again_timer; /* armed while the last measurement of a guest was inexact */
	uint64_t again_ms;
	struct loop_timer watch_timer; /* armed while there is activity on a shared device */
	bool watching;		       /* it is armed */
	uint32_t watch_left;	       /* measurements, unless something changes */
	struct list held;	       /* tenants' devices */
	struct price prices[DAEMON_PRICES];
	uint32_t next_price;

	struct turns turns;
	struct loop_alarm turns_alarm;
	bool scheduling; /* the machines' actions are being fetched */
	struct stores stores;
	uint64_t quota_bytes;		     /* of the store, for one tenant */
	struct list move_due, segment_waits; /* tenants' devices; move_store.c's */
	struct list in_want;		     /* guests' devices; likewise */
	struct loop_timer move_timer;
	bool move_looking;	      /* it is armed */
	struct loop_timer gate_timer; /* while a gate is closing */
	bool gating;		      /* it is armed */

	struct mark *marks;	       /* of each device */
	struct kubernetes *kubernetes; /* NULL: not configured */
	struct loop_timer watchdog;
	struct loop_signal terminate, interrupt;
	uint64_t complaint_tokens, complaint_ns;
	bool stopping;

	char *missing;	     /* why there are no GPUs, if meted waits for them (missing.c) */
	bool missing_driver; /* the driver could not be opened */
	bool again;	     /* GPUs have appeared: meted restarts */
	struct loop_timer look_again;
	uint64_t look_again_s;
};

/* missing.c */
/* Replaces everything else that is opened at start. -errno: its file does not ask for this, or
 * cannot be read. */
must_check int missing_open(struct daemon *d, struct fault *why);
void missing_close(struct daemon *d);
/* Executes the same program with the same arguments in our place. -errno: that failed. */
must_check int missing_again(char **argv);

/* daemon.c */
must_check int daemon_listen(const char *path, unsigned mode, uid_t owner, int *ret_fd,
			     struct fault *why);
/* The limit on descriptors, and the spare one. */
void daemon_open_files(struct daemon *d);
/* Accepts a connection whose descriptor is at most `most`; -EAGAIN; or another error. -EMFILE:
 * the caller was told, if possible; the listener should pause for a while. */
must_check int daemon_accept(struct daemon *d, int listen_fd, int most);
/* Something has left: a user's daemon exits with its last tenant. */
void daemon_maybe_end(struct daemon *d);
/* Whether another line about a peer's misbehaviour may be logged; such lines must not fill the
 * log. */
bool daemon_may_complain(struct daemon *d);
/* The id of one of the daemon's devices by UUID, prefix of a UUID, or index; -ENOENT; -ENOTUNIQ:
 * several UUIDs have that prefix. */
must_check int daemon_find_device(struct daemon *d, const char *name, uint32_t *ret_index);

/* book.c */
must_check int book_open(struct daemon *d, struct fault *why);
void book_close(struct daemon *d);
/* Carries out the ledger's actions and publishes the new figures: changed figures of a tenant at
 * once, a device's room to all its tenants soon. Call it after every event. */
void book_pump(struct daemon *d);
/* What a device has free. */
uint64_t book_room(const struct daemon *d, uint32_t device);
/* What its guests were granted but do not use. */
uint64_t book_credit(const struct daemon *d, uint32_t device);
/* Updates the reports of all guests of a device, for display; at a limited rate, however many
 * ask. */
void book_glance(struct daemon *d, uint32_t device);
/* Reads what the guests' pages report as allocated. */
void book_refresh_guest(struct guest *g);
void book_refresh_all(struct daemon *d);

/* leftover.c: removes the folders of tenants that neither live nor are absent. Call it only after
 * all are back. */
void leftover_remove(struct daemon *d);

/* tenant.c */
struct tenant_spec {
	uint32_t id; /* 0: a new one */
	uid_t owner;
	const char *name;
	const char *texts[SHARE_FIELDS]; /* share.def's order; NULL: default */
	struct tenant *outer;		 /* NULL: none */
	uint32_t devices;
	uint32_t device[WIRE_DEVICES];
};
/* The share that its texts describe. -EINVAL: one of them is not accepted. */
must_check int tenant_spec_share(const struct tenant_spec *spec, struct share *ret_share);
must_check int tenant_make(struct daemon *d, const struct tenant_spec *spec,
			   struct tenant **ret_tenant, struct fault *why);
struct tenant *tenant_find(struct daemon *d, uint32_t id);
struct tenant *tenant_find_by_name(struct daemon *d, const char *name);
/* The path of a tenant's folder that a former daemon made; -ENOENT. */
must_check int tenant_find_folder(const struct daemon *d, uint32_t id, char *ret_folder,
				  size_t size);
/* Ends the tenant if nothing keeps it. */
void tenant_maybe_end(struct tenant *t);
void tenant_end(struct tenant *t);
/* The tenant lives until its keeper releases it: keepers-- and tenant_maybe_end(), or
 * tenant_retire(). */
void tenant_keep(struct tenant *t);
/* Its keeper releases it, and no process can join any more: it ends when its processes have
 * ended. */
void tenant_retire(struct tenant *t);
/* The index by which the tenant and its guests know the device. */
static inline uint32_t tenant_index(const struct tenant_device *at)
{
	return (uint32_t)(at - at->tenant->device);
}

/* Publishes the figures of one of its devices; tenant_show_share() publishes the rest of its
 * share. */
void tenant_show(struct tenant *t, uint32_t device);
/* Of these figures only what the device's other tenants change; `credit`: book_credit(). */
void tenant_show_room(struct tenant_device *at, uint64_t credit);
void tenant_show_share(struct tenant *t);

/* rows.c: the displayed figures of a device, and of a tenant on one of its devices. Call
 * book_refresh_all() first. */
void rows_device(struct daemon *d, uint32_t index, struct wire_device_row *ret_row);
void rows_tenant(struct tenant *t, uint32_t device, struct wire_tenant_row *ret_row);
/* Problems that callers should know of, one per line. */
void rows_trouble(const struct daemon *d, wire_text *ret_text);

/* admin.c */
/* Whether there may be more connections to accept. */
bool admin_accept(struct daemon *d);
/* A measurement has ended, or takes too long. */
void admin_measured(struct daemon *d);
void admin_close_all(struct daemon *d);

/* reserve.c */
#define RESERVE_MOST_NS (86400ull * 1000000000)
must_check int reserve_open(struct daemon *d);
/* -EBUSY: it is taken. `hold_ns` 0: until reserve_drop(). */
struct reserve_asker {
	const void *owner;
	pid_t pid;
	uid_t uid;
};
must_check int reserve_take(struct daemon *d, uint32_t device, const struct reserve_asker *asker,
			    uint64_t hold_ns, struct fault *why);
void reserve_drop(struct daemon *d, const void *owner);
/* Processes that have ended hold nothing, even if what keeps their reservations (the process that
 * `mete pick` leaves behind) has not noticed yet. */
void reserve_release_ended(struct daemon *d);
/* A reservation from the journal: it is valid if the process lives, or the time is not over. */
void reserve_return(struct daemon *d, uint32_t device, const struct reservation *was);
bool reserve_holds(const struct reservation *it);
bool reserve_any(const struct daemon *d);
void reserve_close(struct daemon *d);

/* restore.c: each writes one record, or does nothing if there is no journal. */
must_check int restore_open(struct daemon *d, struct fault *why);
void restore_tenant(struct tenant *t);
void restore_tenant_gone(struct daemon *d, uint32_t id);
void restore_guest(struct guest *g);
/* A tenant holds more on a device than the journal says; call it before the grant is sent. */
void restore_held(struct tenant *t, uint32_t device, uint64_t held_bytes,
		  const struct ledger_sums *sums);
/* What the tenant's processes have left behind there has changed. */
void restore_behind(struct tenant *t, uint32_t device);
void restore_guest_gone(struct guest *g);
/* A device was reserved by `mete pick`, or returned. */
void restore_reserved(struct daemon *d, uint32_t device);
/* A device was cordoned, or is not any more. */
void restore_cordon(struct daemon *d, uint32_t device);
/* If no guests are expected any more, asks are answered from now on. book_pump() follows. */
void restore_release(struct tenant *t);
