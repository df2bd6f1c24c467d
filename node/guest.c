/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/process.h"

static struct guest *guest_of(struct peer *peer)
{
	return container_of(peer, struct guest, peer);
}

static void free_guest(struct guest *g)
{
	if (g->pidfd >= 0)
		close(g->pidfd);
	page_done(&g->page);
	free(g);
}

static void on_death_closed(struct loop_watch *watch)
{
	free_guest(container_of(watch, struct guest, death));
}

static void on_freed(struct peer *peer)
{
	loop_unwatch(&guest_of(peer)->death, on_death_closed);
}

static void count(struct guest *g)
{
	list_append(&g->tenant->guests, &g->link);
	if (g->unwelcome) {
		g->tenant->stranger_count++;
		return;
	}
	g->tenant->guest_count++;
	g->tenant->daemon->guest_count++;
}

static void uncount(struct guest *g)
{
	list_remove(&g->link);
	if (g->unwelcome) {
		g->tenant->stranger_count--;
		return;
	}
	g->tenant->guest_count--;
	g->tenant->daemon->guest_count--;
}

void guest_leave(struct guest *g, const char *reason)
{
	struct tenant *t;
	struct daemon *d;

	/* It may be heard of once more after it has left, and its tenant be gone by then. */
	if (!list_linked(&g->link))
		return;
	t = g->tenant;
	d = t->daemon;
	uncount(g);
	peer_close(&g->peer);
	if (g->joined) {
		book_refresh_guest(g);
		t->unknown_functions +=
			__atomic_load_n(&g->own->unknown_functions, __ATOMIC_RELAXED);
		for (uint32_t i = 0; i < t->devices; i++)
			ledger_leave(d->ledger, take(g->device[i].holder));
		g->joined = false;
		restore_guest_gone(g);
		log_info("guest.left", "tenant=%u guest=%u pid=%d", t->id, g->id, (int)g->pid);
	}
	if (reason && daemon_may_complain(d))
		log_warning("guest.closed", "tenant=%u guest=%u pid=%d reason=%s", t->id, g->id,
			    (int)g->pid, log_text(reason).text);
	for (uint32_t i = 0; i < t->devices; i++)
		tenant_gate_check(t, i);
	restore_returned(t, g->pid);
	book_pump(d);
	tenant_maybe_end(t);
}

static void on_gone(struct peer *peer, const char *reason)
{
	guest_leave(guest_of(peer), reason);
}

static void on_death(struct loop_watch *watch, int events)
{
	(void)events;
	guest_leave(container_of(watch, struct guest, death), NULL);
}

/* Refuses, and has no more to do with it. */
static void dismiss(struct guest *g, uint32_t id, uint32_t code, const char *reason)
{
	peer_refuse(&g->peer, id, code, "%s", reason);
	guest_leave(g, reason);
}

void guest_tell_gate(struct guest *g, uint32_t device)
{
	struct wire_message message = {.code = WIRE_gate, .id = peer_new_id(&g->peer)};
	const struct wire_tenant_device *shown = &g->tenant->shown->device[device];

	message.gate.device = device;
	message.gate.state = shown->gate;
	message.gate.epoch = shown->epoch;
	g->device[device].owes_drain = shown->gate != WIRE_GATE_OPEN;
	peer_send(&g->peer, &message);
}

/* A process has one connection: the old one may have ended without our having read of it. */
static void drop_predecessor(struct guest *g)
{
	list_for_each(link, &g->tenant->guests)
	{
		struct guest *other = list_entry(link, struct guest, link);
		struct pollfd hangup = {.fd = other->peer.fd, .events = POLLRDHUP};

		if (other != g && other->pid == g->pid && poll(&hangup, 1, 0) == 1)
			guest_leave(other, NULL);
	}
}

/* 0, or there is no room for it. */
static int take_seats(struct guest *g)
{
	struct tenant *t = g->tenant;
	int r = page_make(&g->page, "mete-guest", PAGE_GUEST_WRITES);

	if (r < 0)
		return r;
	g->own = g->page.memory;
	for (uint32_t i = 0; i < t->devices; i++) {
		g->device[i].guest = g;
		g->device[i].holder =
			ledger_join(t->daemon->ledger, t->device[i].account, &g->device[i]);
		if (!g->device[i].holder)
			r = -ENOSPC;
	}
	for (uint32_t i = 0; r < 0 && i < t->devices; i++)
		ledger_leave(t->daemon->ledger, take(g->device[i].holder));
	return r;
}

static void on_hello(struct guest *g, uint32_t id, const struct wire_hello *hello)
{
	struct wire_message answer = {.code = WIRE_welcome, .id = id};
	struct tenant *t = g->tenant;
	struct wire_own_page *own;
	int r;

	if (hello->major != WIRE_MAJOR) {
		char reason[128];

		snprintf(reason, sizeof(reason),
			 "this meted speaks version %d of the protocol, the guest version %u",
			 WIRE_MAJOR, hello->major);
		dismiss(g, id, WIRE_REFUSED_VERSION, reason);
		return;
	}
	drop_predecessor(g);
	r = take_seats(g);
	if (r < 0) {
		dismiss(g, id, WIRE_REFUSED_FULL, "meted has no room for another process");
		return;
	}
	own = g->page.memory;
	own->magic = WIRE_PAGE_MAGIC;
	own->size = sizeof(*own);
	memcpy(g->program, hello->program.text, sizeof(g->program));
	g->joined = true;
	t->joins++;
	g->returning = restore_expects(t, g->pid);
	answer.welcome = (struct wire_welcome){.major = WIRE_MAJOR,
					       .minor = WIRE_MINOR,
					       .tenant = t->id,
					       .guest = g->id,
					       .devices = t->devices,
					       .on_daemon_loss = t->share.on_daemon_loss,
					       .epoch = t->shown->epoch};
	tenant_show(t);
	restore_guest(g);
	log_info("guest.joined", "tenant=%u guest=%u pid=%d program=%s", t->id, g->id, (int)g->pid,
		 log_text(g->program).text);
	peer_send_pages(&g->peer, &answer, (const int[]){g->page.fd, t->page.fd});
	page_forget_fd(&g->page);
	for (uint32_t i = 0; i < t->devices && g->joined; i++) {
		if (t->shown->device[i].gate != WIRE_GATE_OPEN)
			guest_tell_gate(g, i);
	}
}

/* The entry for a device that the guest named, or NULL, and it was told. */
static struct guest_device *device_of(struct guest *g, uint32_t id, uint32_t device)
{
	if (device < g->tenant->devices)
		return &g->device[device];
	peer_refuse(&g->peer, id, WIRE_REFUSED_UNKNOWN, "device %u: this tenant has %u", device,
		    g->tenant->devices);
	return NULL;
}

static void on_inventory(struct guest *g, uint32_t id, const struct wire_inventory *said)
{
	struct daemon *d = g->tenant->daemon;
	struct guest_device *at = device_of(g, id, said->device);
	struct device *device;
	uint64_t contexts, residual;
	int r;

	if (!at)
		return;
	if (at->stated) {
		peer_refuse(&g->peer, id, WIRE_REFUSED_BAD,
			    "the inventory of device %u was stated before, or is no longer wanted",
			    said->device);
		return;
	}
	at->stated = true;
	device = &d->device[g->tenant->device[said->device].index];
	contexts = said->contexts < 1024 ? said->contexts : 1024;
	residual = contexts *
		   (device->context_bytes ? device->context_bytes : d->options.context_bytes);
	r = ledger_adopt(d->ledger, at->holder, said->allocated, said->credit, residual);
	at->measure = contexts != 0;
	measure_start(d);
	log_debug("guest.inventory",
		  "guest=%u device=%u allocated_bytes=%" PRIu64 " credit_bytes=%" PRIu64
		  " contexts=%u void=%d",
		  g->id, said->device, said->allocated, said->credit, said->contexts, r);
	if (r == 0)
		peer_done(&g->peer, id, 0);
	else
		peer_refuse(&g->peer, id, r == LEDGER_OVER ? WIRE_REFUSED_LIMIT : WIRE_REFUSED_FULL,
			    "there is no room for the credit of %s any more: it is void",
			    text_bytes(said->credit).text);
}

/* Its next word after HELLO and the inventories: it has nothing more to state. */
static void has_stated(struct guest *g)
{
	for (uint32_t i = 0; i < g->tenant->devices; i++)
		g->device[i].stated = true;
	if (g->returning)
		restore_returned(g->tenant, g->pid);
	g->returning = false;
}

static void ask(struct guest *g, struct guest_device *at, const struct ledger_request *request)
{
	struct daemon *d = g->tenant->daemon;

	if (!request->bytes) {
		peer_refuse(&g->peer, (uint32_t)request->id, WIRE_REFUSED_BAD,
			    "0 bytes were asked for");
		return;
	}
	measure_asker(at, request->bytes);
	if (ledger_ask(d->ledger, at->holder, request, loop_now_ns()) != 0)
		peer_refuse(&g->peer, (uint32_t)request->id, WIRE_REFUSED_FULL,
			    "more than %d requests of this process are waiting",
			    DAEMON_ASKS_OF_GUEST);
	book_pump(d);
}

static void on_credit_ask(struct guest *g, uint32_t id, const struct wire_credit_ask *said)
{
	struct guest_device *at = device_of(g, id, said->device);
	struct ledger_request request = {
		.id = id, .bytes = said->bytes, .want = said->want, .may_wait = said->wait != 0};

	if (at)
		ask(g, at, &request);
}

static void on_credit_return(struct guest *g, uint32_t id, const struct wire_credit_return *said)
{
	struct guest_device *at = device_of(g, id, said->device);
	struct daemon *d = g->tenant->daemon;

	if (!at)
		return;
	book_refresh_guest(g);
	if (ledger_return(d->ledger, at->holder, said->bytes, said->recall != 0) == LEDGER_HELD &&
	    daemon_may_complain(d))
		log_warning("guest.overreturn", "guest=%u device=%u bytes=%" PRIu64, g->id,
			    said->device, said->bytes);
	book_pump(d);
}

static void on_residual_ask(struct guest *g, uint32_t id, const struct wire_residual_ask *said)
{
	struct guest_device *at = device_of(g, id, said->device);
	struct daemon *d = g->tenant->daemon;
	struct ledger_request request = {
		.id = id, .bytes = said->bytes, .may_wait = 1, .residual = 1};

	if (!at)
		return;
	if (!request.bytes) {
		struct device *device = &d->device[g->tenant->device[said->device].index];

		request.bytes =
			device->context_bytes ? device->context_bytes : d->options.context_bytes;
	}
	ask(g, at, &request);
}

static void on_residual_settle(struct guest *g, uint32_t id,
			       const struct wire_residual_settle *said)
{
	struct guest_device *at = device_of(g, id, said->device);

	g->settles++;
	if (!at)
		return;
	if (!said->keep && (!said->bytes || __builtin_add_overflow(at->settling_bytes, said->bytes,
								   &at->settling_bytes)))
		at->settling_bytes = UINT64_MAX;
	at->measure = true;
	at->doubts = 0;
	measure_start(g->tenant->daemon);
}

static void on_residual_check(struct guest *g, uint32_t id, const struct wire_residual_check *said)
{
	struct guest_device *at = device_of(g, id, said->device);

	if (!at)
		return;
	if (at->check)
		peer_refuse(&g->peer, id, WIRE_REFUSED_BAD, "device %u: a check is under way",
			    said->device);
	else
		measure_check(at, id);
}

static void on_drained(struct guest *g, const struct wire_drained *said)
{
	struct tenant *t = g->tenant;

	if (said->device >= t->devices || said->epoch != t->shown->device[said->device].epoch)
		return; /* of an earlier close */
	g->device[said->device].owes_drain = false;
	tenant_gate_check(t, said->device);
}

static void on_processes_ask(struct guest *g, uint32_t id, const struct wire_processes_ask *said)
{
	struct wire_message row = {.code = WIRE_process_row, .id = id};
	struct wire_message end = {.code = WIRE_end, .id = id};
	struct tenant *t = g->tenant;

	if (!device_of(g, id, said->device))
		return;
	list_for_each(link, &t->guests)
	{
		struct guest *other = list_entry(link, struct guest, link);
		struct ledger_sums sums;

		if (!other->joined)
			continue;
		book_refresh_guest(other);
		ledger_holder_sums(other->device[said->device].holder, &sums);
		row.process_row.pid = (uint32_t)other->pid;
		row.process_row.used = sums.allocated + sums.residual;
		if (!row.process_row.used)
			continue;
		end.end.rows++;
		peer_send(&g->peer, &row);
	}
	peer_send(&g->peer, &end);
}

static void on_message(struct peer *peer, const struct wire_message *m)
{
	struct guest *g = guest_of(peer);

	if (g->unwelcome) {
		dismiss(g, m->id, g->unwelcome_code, g->unwelcome);
		return;
	}
	if (!g->joined && m->code != WIRE_hello) {
		dismiss(g, m->id, WIRE_REFUSED_BAD, "spoke before HELLO");
		return;
	}
	if (m->code != WIRE_hello && m->code != WIRE_inventory)
		has_stated(g);
	switch (m->code) {
	case WIRE_hello:
		if (g->joined)
			dismiss(g, m->id, WIRE_REFUSED_BAD, "said HELLO twice");
		else
			on_hello(g, m->id, &m->hello);
		break;
	case WIRE_inventory:
		on_inventory(g, m->id, &m->inventory);
		break;
	case WIRE_credit_ask:
		on_credit_ask(g, m->id, &m->credit_ask);
		break;
	case WIRE_credit_return:
		on_credit_return(g, m->id, &m->credit_return);
		break;
	case WIRE_residual_ask:
		on_residual_ask(g, m->id, &m->residual_ask);
		break;
	case WIRE_residual_settle:
		on_residual_settle(g, m->id, &m->residual_settle);
		break;
	case WIRE_residual_check:
		on_residual_check(g, m->id, &m->residual_check);
		break;
	case WIRE_drained:
		on_drained(g, &m->drained);
		break;
	case WIRE_processes_ask:
		on_processes_ask(g, m->id, &m->processes_ask);
		break;
	default:
		/* A word of another side: no accident. */
		dismiss(g, m->id, WIRE_REFUSED_BAD, "sent what no guest says");
		break;
	}
}

static void on_unknown(struct peer *peer, uint32_t id, uint32_t code)
{
	peer_refuse(peer, id, WIRE_REFUSED_UNKNOWN, "meted does not know message %u", code);
}

static void explain(struct guest *g, uint32_t device, const struct ledger_action *action)
{
	struct tenant *t = g->tenant;
	struct ledger_sums own, all;
	/* A check asks for one byte; the sums include the module already. */
	const char *what = !action->residual	? "memory"
			   : action->bytes == 1 ? "a module"
						: "a context";
	uint32_t code = WIRE_REFUSED_FULL;
	char reason[WIRE_TEXT_MAX + 1];

	ledger_account_sums(t->device[device].account, &own);
	ledger_device_sums(t->daemon->ledger, t->device[device].index, &all);
	if (action->reason == LEDGER_OVER) {
		code = WIRE_REFUSED_LIMIT;
		snprintf(reason, sizeof(reason),
			 "the limit of %s is reached: %s are in use and %s of %s were asked for",
			 text_bytes(own.limit).text, text_bytes(own.allocated + own.residual).text,
			 text_bytes(action->bytes).text, what);
	} else {
		const char *waited = "";

		if (action->reason == LEDGER_DEADLINE) {
			code = WIRE_REFUSED_DEADLINE;
			waited = ", and was for as long as the share allows to wait";
		}
		snprintf(reason, sizeof(reason),
			 "the device is full%s: of %s, %s are in use and %s of %s were asked for",
			 waited, text_bytes(all.limit).text,
			 text_bytes(all.allocated - all.evicted + all.residual).text,
			 text_bytes(action->bytes).text, what);
	}
	if (!g->complained)
		log_info("memory.refused", "tenant=%u guest=%u pid=%d reason=%s", t->id, g->id,
			 (int)g->pid, log_text(reason).text);
	g->complained = true;
	peer_refuse(&g->peer, (uint32_t)action->id, code, "%s", reason);
}

void guest_answer(struct guest *g, const struct ledger_action *action)
{
	struct guest_device *at = ledger_owner(action->holder);
	uint32_t device = (uint32_t)(at - g->device);
	struct wire_message message = {.id = (uint32_t)action->id};
	struct ledger_sums has;

	switch (action->verb) {
	case LEDGER_GRANT:
		if (action->residual) {
			peer_done(&g->peer, message.id, action->bytes);
			return;
		}
		ledger_holder_sums(at->holder, &has);
		if (has.granted > at->most_granted)
			at->most_granted = has.granted;
		message.code = WIRE_credit_grant;
		message.credit_grant.device = device;
		message.credit_grant.bytes = action->bytes;
		break;
	case LEDGER_REFUSE:
		explain(g, device, action);
		return;
	case LEDGER_RECALL:
		message.code = WIRE_credit_recall;
		message.id = peer_new_id(&g->peer);
		message.credit_recall.device = device;
		message.credit_recall.bytes = action->bytes;
		break;
	}
	peer_send(&g->peer, &message);
}

static int admit(struct tenant *t, int fd, const struct peer_identity *who, const char *unwelcome,
		 uint32_t code)
{
	static const struct peer_class class = {on_message, on_unknown, on_gone, on_freed};
	struct daemon *d = t->daemon;
	struct guest *g = calloc(1, sizeof(*g));
	int r;

	if (!g) {
		close(who->pidfd);
		close(fd);
		return -ENOMEM;
	}
	g->tenant = t;
	g->id = ++d->last_guest;
	g->pid = who->pid;
	g->pidfd = who->pidfd;
	g->page.fd = -1;
	g->unwelcome = unwelcome;
	g->unwelcome_code = code;
	g->started = process_started(g->pid);
	r = loop_watch(&d->loop, &g->death, g->pidfd, LOOP_READ, on_death);
	if (r < 0) {
		free_guest(g);
		close(fd);
		return r;
	}
	r = peer_init(&g->peer, &d->loop, fd, &class);
	if (r < 0) {
		loop_unwatch(&g->death, on_death_closed);
		return r;
	}
	count(g);
	return 0;
}

void guest_accept(struct tenant *t)
{
	struct peer_identity who = {.pidfd = -1};
	struct daemon *d = t->daemon;
	int fd = daemon_accept(d, t->listen_fd), r;
	const char *unwelcome = NULL;
	uint32_t code = WIRE_REFUSED_IDENTITY;

	if (fd < 0)
		return;
	r = peer_identify(fd, &who);
	if (r == 0 && !d->options.system && who.uid != t->owner && who.uid != 0) {
		unwelcome = "this tenant belongs to another user";
	} else if (r == 0 &&
		   (t->guest_count >= DAEMON_GUESTS_OF_TENANT || d->guest_count >= DAEMON_GUESTS)) {
		unwelcome = "too many processes are connected";
		code = WIRE_REFUSED_FULL;
	}
	if (r == 0 && unwelcome && t->stranger_count >= DAEMON_STRANGERS_OF_TENANT) {
		close(who.pidfd);
		close(fd);
		r = -EBUSY;
	} else if (r < 0) {
		close(fd);
	} else {
		r = admit(t, fd, &who, unwelcome, code);
	}
	if (r < 0 && daemon_may_complain(d))
		log_warning("guest.turned_away", "tenant=%u pid=%d reason=%s", t->id, (int)who.pid,
			    log_text(strerror(-r)).text);
}
