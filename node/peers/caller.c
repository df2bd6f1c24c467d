/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to a tenant's socket: who calls, and HELLO. words.c handles the later messages. */
#include "node/peers/caller.h"

#include <string.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/kubernetes.h"
#include "node/peers/door.h"
#include "node/peers/flow.h"
#include "node/peers/peer.h"
#include "node/peers/words.h"
#include "node/process.h"
#include "node/tenants/guest.h"
#include "node/tenants/guest_identity.h"
#include "node/tenants/guest_send.h"
#include "node/tenants/page.h"
#include "node/time/gate.h"
#include "node/upcalls.h"
#include "node/users/user.h"

enum {
	UNANSWERED, /* beside the codes of refusals: the connection is closed */
};

static struct caller *caller_of(struct peer *peer)
{
	return container_of(peer, struct caller, peer);
}

static void free_caller(struct caller *c)
{
	if (c->pidfd >= 0)
		close(c->pidfd);
	free(c);
}

static void on_freed(struct peer *peer)
{
	free_caller(caller_of(peer));
}

static void no_longer_silent(struct caller *c)
{
	c->tenant->silent_count -= c->silent;
	c->silent = false;
}

/* The guest, if there is one, is handled separately: it may reconnect. */
static void end(struct caller *c, const char *reason)
{
	struct guest *g = take(c->guest);

	if (!list_linked(&c->link))
		return;
	list_remove(&c->link);
	no_longer_silent(c);
	if (c->unwelcome)
		c->tenant->stranger_count--;
	flows_gave_back(&c->tenant->daemon->flows);
	peer_close(&c->peer);
	if (g) {
		guest_away(g, reason);
		return;
	}
	if (reason && daemon_may_complain(c->tenant->daemon))
		log_warning("caller.closed", "tenant=%u pid=%d reason=%s", c->tenant->id,
			    (int)c->process.pid, log_text(reason).text);
	tenant_maybe_end(c->tenant);
}

void caller_close(struct caller *c)
{
	end(c, NULL);
}

void caller_dismiss(struct caller *c, uint32_t id, uint32_t code, const char *reason)
{
	peer_refuse(&c->peer, id, code, "%s", reason);
	end(c, reason);
}

static void on_gone(struct peer *peer, const char *reason)
{
	end(caller_of(peer), reason);
}

/* Has the tenant a seat for one more process? A few are reserved for it, whatever others do. */
static bool has_seat(const struct tenant *t)
{
	return t->guest_count < DAEMON_GUESTS_SURE ||
	       (t->guest_count < DAEMON_GUESTS_OF_TENANT &&
		t->daemon->tenants.guest_count < DAEMON_GUESTS && user_has_seat(t->user));
}

static void welcome(struct caller *c, uint32_t id, struct guest *g)
{
	struct wire_message answer = {.code = WIRE_welcome, .id = id};
	struct tenant *t = c->tenant;

	answer.welcome = (struct wire_welcome){.major = WIRE_MAJOR,
					       .minor = WIRE_MINOR,
					       .tenant = t->id,
					       .guest = g->id,
					       .devices = t->devices,
					       .on_daemon_loss = t->share.on_daemon_loss,
					       .epoch = t->shown->epoch};
	peer_send_with(&c->peer, &answer, (const int[]){g->page.fd, t->page.fd}, 2);
	page_forget_fd(&g->page);
	for (uint32_t i = 0; i < t->devices; i++) {
		/* It may have to state first what memory it has out. */
		tenant_gate_apply(t, i);
		if (t->shown->device[i].gate != WIRE_GATE_OPEN)
			guest_tell_gate(g, i);
	}
}

static void refuse_version(struct caller *c, uint32_t id, uint32_t major)
{
	char reason[128];

	snprintf(reason, sizeof(reason),
		 "this meted speaks protocol version %d, the guest speaks version %u", WIRE_MAJOR,
		 major);
	caller_dismiss(c, id, WIRE_REFUSED_VERSION, reason);
}

/* Why the process may not join; NULL: it may. */
static const char *obstacle(const struct caller *c, const struct wire_hello *hello,
			    uint32_t *ret_code)
{
	const struct tenant *t = c->tenant;

	*ret_code = WIRE_REFUSED_FULL;
	/* Others may have taken the seat since it was accepted. */
	if (!has_seat(t) && !guest_is_known(t, &c->process))
		return "too many processes are connected";
	/* Without an answer: it comes again in some milliseconds (guest/link/link_step.c). */
	*ret_code = UNANSWERED;
	if (guest_is_unclear(c, hello))
		return "it looks like another program, and the former one's memory is in use still";
	*ret_code = WIRE_REFUSED_IDENTITY;
	if (guest_is_another(c, hello))
		return "another copy of mete's library already serves this process: load only one";
	if (guest_is_elsewhere(t, &c->process))
		return "this process belongs to another tenant: a process has one share";
	return NULL;
}

static void join(struct caller *c, uint32_t id, const struct wire_hello *hello)
{
	struct guest *g;
	int r = guest_join(c, hello, &g);

	if (r == -ESTALE)
		end(c, "it has gone, or its process runs another program");
	else if (r < 0)
		caller_dismiss(c, id, WIRE_REFUSED_FULL, "meted has no room for another process");
	else
		welcome(c, id, g);
}

static void on_hello(struct caller *c, uint32_t id, const struct wire_hello *hello)
{
	const char *reason;
	uint32_t code;

	if (hello->major != WIRE_MAJOR) {
		refuse_version(c, id, hello->major);
		return;
	}
	no_longer_silent(c);
	reason = obstacle(c, hello, &code);
	if (!reason)
		join(c, id, hello);
	else if (code == UNANSWERED)
		end(c, reason);
	else
		caller_dismiss(c, id, code, reason);
}

static void on_driver_ask(struct caller *c, uint32_t id, uint32_t library)
{
	struct wire_message answer = {.code = WIRE_driver_file, .id = id};
	const struct kubernetes *k = c->tenant->daemon->kubernetes;
	int fd = kubernetes_driver(k, library);

	answer.driver_file.library = library;
	if (fd >= 0)
		peer_send_with(&c->peer, &answer, &fd, 1);
	else if (k && kubernetes_driver(k, WIRE_LIBRARY_CUDA) < 0)
		peer_refuse(&c->peer, id, WIRE_REFUSED_BAD,
			    "this meted has not found the driver yet");
	else
		peer_refuse(&c->peer, id, WIRE_REFUSED_UNKNOWN,
			    "this meted hands out no such library");
}

static void on_message(struct peer *peer, const struct wire_message *m)
{
	struct caller *c = caller_of(peer);

	if (c->unwelcome)
		caller_dismiss(c, m->id, c->unwelcome_code, c->unwelcome);
	else if (m->code == WIRE_driver_ask)
		on_driver_ask(c, m->id, m->driver_ask.library);
	else if (m->code == WIRE_hello && c->guest)
		caller_dismiss(c, m->id, WIRE_REFUSED_BAD, "sent HELLO twice");
	else if (m->code == WIRE_hello)
		on_hello(c, m->id, &m->hello);
	else if (c->guest)
		words_heard(c->guest, m);
	else
		caller_dismiss(c, m->id, WIRE_REFUSED_BAD, "sent a message before HELLO");
}

static void on_unknown(struct peer *peer, uint32_t id, uint32_t code)
{
	peer_refuse(peer, id, WIRE_REFUSED_UNKNOWN, "meted does not know message %u", code);
}

static int admit(struct tenant *t, int fd, const struct peer_identity *who, const char *unwelcome,
		 uint32_t code)
{
	static const struct peer_class class = {on_message, on_unknown, on_gone, on_freed};
	struct caller *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		close(who->pidfd);
		discard_connection(&t->daemon->flows.discarder, fd);
		return -ENOMEM;
	}
	c->tenant = t;
	c->process = process_identify(t->daemon->looks, who->pid);
	c->pidfd = who->pidfd;
	c->unwelcome = unwelcome;
	c->unwelcome_code = code;
	r = peer_init(&c->peer, &t->daemon->loop, &t->flow, fd, &class);
	if (r < 0) {
		free_caller(c);
		return r;
	}
	list_append(&t->callers, &c->link);
	c->silent = !unwelcome;
	t->silent_count += c->silent;
	if (unwelcome)
		t->stranger_count++;
	return 0;
}

/* The refusal that answers its HELLO, or NULL. A guest that is back has a seat already. */
static const char *why_unwelcome(const struct tenant *t, const struct peer_identity *who,
				 uint32_t *ret_code)
{
	const struct daemon *d = t->daemon;
	struct process_identity process;

	*ret_code = WIRE_REFUSED_IDENTITY;
	if ((t->user || !d->options.system) && who->uid != t->owner && who->uid != 0)
		return "this tenant belongs to another user";
	*ret_code = WIRE_REFUSED_FULL;
	if (t->silent_count >= DAEMON_SILENT_OF_TENANT)
		return "too many connections have not sent HELLO";
	if (has_seat(t))
		return NULL;
	process = process_identify(d->looks, who->pid);
	return guest_is_known(t, &process) ? NULL : "too many processes are connected";
}

int caller_accept(struct tenant *t)
{
	struct peer_identity who = {.pidfd = -1};
	struct daemon *d = t->daemon;
	int fd = door_accept(d, t->listen_fd, d->door.guest_fds), r;
	const char *unwelcome = NULL;
	uint32_t code = 0;

	if (fd < 0)
		return fd;
	r = peer_identify(fd, &who);
	if (r == 0)
		unwelcome = why_unwelcome(t, &who, &code);
	/* The tenant is from before this daemon, and this is its user's first process to return. */
	if (r == 0 && t->user && !t->user->known && who.uid == t->user->uid)
		user_learn(t->user, fd);
	if (r == 0 && unwelcome && t->stranger_count >= DAEMON_STRANGERS_OF_TENANT) {
		close(who.pidfd);
		discard_connection(&d->flows.discarder, fd);
		r = -EBUSY;
	} else if (r < 0) {
		discard_connection(&d->flows.discarder, fd);
	} else {
		r = admit(t, fd, &who, unwelcome, code);
	}
	if (r < 0 && daemon_may_complain(d))
		log_warning("guest.turned_away", "tenant=%u pid=%d reason=%s", t->id, (int)who.pid,
			    log_text(strerror(-r)).text);
	return r == -EMFILE ? r : 0;
}
