/* SPDX-License-Identifier: Apache-2.0 */
/* Guests: processes that join, disconnect, reconnect and end. What they hold is returned when the
 * process ends. */
#include "node/tenants/guest.h"

#include <string.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/memory/book.h"
#include "node/memory/measure.h"
#include "node/memory/native.h"
#include "node/memory/remains.h"
#include "node/memory/watch.h"
#include "node/move/move_guest.h"
#include "node/move/move_sync.h"
#include "node/process.h"
#include "node/state/recorder.h"
#include "node/tenants/guest_identity.h"
#include "node/tenants/page.h"
#include "node/tenants/tenant_show.h"
#include "node/time/gate.h"
#include "node/time/schedule.h"
#include "node/upcalls.h"

/* The page of a guest that has not been connected to this daemon yet. */
static const struct wire_own_page blank;

static const uint64_t AGAIN_NS = 1000000000;
enum { AGAIN_DOUBLED = 6 };

static void on_death_closed(struct loop_watch *watch)
{
	struct guest *g = container_of(watch, struct guest, death);

	close(g->pidfd);
	if (g->memory_fd >= 0)
		close(g->memory_fd);
	page_done(&g->page);
	free(g->program);
	free(g);
}

static void no_longer_expected(struct guest *g)
{
	if (!g->expected)
		return;
	g->expected = false;
	g->tenant->expected_count--;
	book_release(g->tenant);
	for (uint32_t i = 0; i < g->tenant->devices; i++)
		move_due(&g->tenant->device[i]);
}

/* Tells the guests if they are no longer alone, or are alone again. */
static void show_guests(struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++)
		tenant_show(t, i);
}

/* It is no longer among its tenant's guests. */
static void leave_tenant(struct guest *g)
{
	struct tenant *t = g->tenant;

	list_remove(&g->link);
	list_remove(&g->same_pid);
	native_left(g);
	flow_go_on(&g->again);
	t->guest_count--;
	t->daemon->tenants.guest_count--;
	t->unknown_functions += __atomic_load_n(&g->own->unknown_functions, __ATOMIC_RELAXED);
}

/* Returns what it held on the tenant's devices; what it left behind there stays charged. */
static void leave_devices(struct guest *g)
{
	struct tenant *t = g->tenant;
	struct daemon *d = t->daemon;

	move_left(g);
	for (uint32_t i = 0; i < t->devices; i++) {
		uint64_t behind = remains_of(&g->device[i]);

		measure_forget(&g->device[i]);
		ledger_leave(d->book.ledger, take(g->device[i].holder));
		/* It may have been the last that had memory that others left behind. */
		best_effort(remains_look(d, t->device[i].index));
		remains_left(&t->device[i], behind);
		d->device[t->device[i].index].inhabited -= t->guest_count == 0;
		/* Another guest of the tenant may now hold memory that it exported. */
		t->device[i].looked_ns = 0;
	}
	measure_start(d);
}

static void log_leaving(const struct guest *g, const char *reason)
{
	const struct tenant *t = g->tenant;

	log_info("guest.left", "tenant=%u guest=%u pid=%d", t->id, g->id, (int)g->pid);
	if (reason && daemon_may_complain(t->daemon))
		log_warning("guest.closed", "tenant=%u guest=%u pid=%d reason=%s", t->id, g->id,
			    (int)g->pid, log_text(reason).text);
}

/* Its tenant's gates may have waited for it, and others for its memory. */
static void go_on_without(struct guest *g)
{
	struct tenant *t = g->tenant;

	for (uint32_t i = 0; i < t->devices; i++)
		tenant_gate_apply(t, i);
	schedule_guests(t);
	no_longer_expected(g);
	tenant_gates_open_late(t);
	loop_unwatch(&g->death, on_death_closed);
	show_guests(t);
	watch_stirred(t);
	book_pump(t->daemon);
}

void guest_leave(struct guest *g, const char *reason)
{
	struct caller *c = g->caller;
	struct tenant *t = g->tenant;

	/* This may be called again after it has left; its tenant may be gone by then. */
	if (!list_linked(&g->link))
		return;
	book_refresh_guest(g);
	leave_tenant(g);
	g->caller = NULL;
	if (c)
		c->guest = NULL;
	leave_devices(g);
	recorder_guest_gone(g);
	log_leaving(g, reason);
	go_on_without(g);
	/* Last: the last guest ends the tenant, and must have left its accounts by then. */
	if (c)
		caller_close(c);
	tenant_maybe_end(t);
}

static void on_death(struct loop_watch *watch, int events)
{
	(void)events;
	guest_leave(container_of(watch, struct guest, death), NULL);
}

/* Its connection has ended and it looks like another program, but its memory is used still: a
 * reader of it may only have been in the middle of that. A process that pretends to be another
 * program stays charged. Ever more seldom: a look may take 10 ms (base/process_look.h). */
static void ask_again(struct guest *g)
{
	if (process_identify(g->tenant->daemon->looks, g->pid).image == g->process.image)
		return;
	flow_pause(&g->tenant->daemon->flows, &g->again, AGAIN_NS << g->asked_again);
	g->asked_again += g->asked_again < AGAIN_DOUBLED;
}

static void on_again(struct flow_pause *pause)
{
	struct guest *g = container_of(pause, struct guest, again);

	if (guest_was_replaced(g))
		guest_leave(g, NULL);
	else if (!g->caller)
		ask_again(g);
}

void guest_away(struct guest *g, const char *reason)
{
	struct tenant *t = g->tenant;
	struct daemon *d = t->daemon;

	if (process_ended(g->pidfd) || guest_was_replaced(g)) {
		g->caller = NULL;
		guest_leave(g, reason);
		return;
	}
	g->asked_again = 0;
	ask_again(g);
	book_refresh_guest(g);
	g->caller = NULL;
	move_away(g);
	for (uint32_t i = 0; i < t->devices; i++) {
		ledger_hang_up(d->book.ledger, g->device[i].holder);
		measure_tell(&g->device[i], RESIDUAL_HUNG_UP, 0);
	}
	tenant_gates_open_late(t);
	log_info("guest.away", "tenant=%u guest=%u pid=%d", t->id, g->id, (int)g->pid);
	if (reason && daemon_may_complain(d))
		log_warning("guest.closed", "tenant=%u guest=%u pid=%d reason=%s", t->id, g->id,
			    (int)g->pid, log_text(reason).text);
	book_pump(d);
}

const char *guest_program(const struct guest *g)
{
	return g->program ? g->program : "";
}

/* -ENOSPC: there is no room for it. */
static int take_seats(struct guest *g)
{
	struct tenant *t = g->tenant;
	int r = 0;

	for (uint32_t i = 0; i < t->devices; i++) {
		g->device[i].guest = g;
		move_begin(&g->device[i].move);
		g->device[i].holder =
			ledger_join(t->daemon->book.ledger, t->device[i].account, &g->device[i]);
		if (!g->device[i].holder)
			r = -ENOSPC;
	}
	for (uint32_t i = 0; r < 0 && i < t->devices; i++)
		ledger_leave(t->daemon->book.ledger, take(g->device[i].holder));
	return r;
}

/* Takes `pidfd` and `memory_fd`, also on failure. */
static int make(struct tenant *t, const struct process_identity *process, int pidfd, int memory_fd,
		struct guest **ret_guest)
{
	struct daemon *d = t->daemon;
	struct guest *g = calloc(1, sizeof(*g) + t->devices * sizeof(g->device[0]));
	int r;

	if (!g) {
		close(pidfd);
		if (memory_fd >= 0)
			close(memory_fd);
		return -ENOMEM;
	}
	g->tenant = t;
	g->pid = process->pid;
	g->process = *process;
	g->pidfd = pidfd;
	g->user = (uint32_t)process_user(process->pid);
	g->came_ns = loop_now_ns();
	g->page.fd = -1;
	g->own = &blank;
	g->again.over = on_again;
	g->memory_fd = memory_fd;
	r = take_seats(g);
	if (r == 0)
		r = loop_watch(&d->loop, &g->death, pidfd, LOOP_READ, on_death);
	if (r < 0) {
		for (uint32_t i = 0; i < t->devices; i++)
			ledger_leave(d->book.ledger, take(g->device[i].holder));
		if (memory_fd >= 0)
			close(memory_fd);
		close(pidfd);
		free(g);
		return r;
	}
	g->id = ++d->tenants.last_guest;
	list_append(&t->guests, &g->link);
	guest_index(g);
	for (uint32_t i = 0; i < t->devices; i++)
		d->device[t->device[i].index].inhabited += t->guest_count == 0;
	t->guest_count++;
	d->tenants.guest_count++;
	show_guests(t);
	native_joined(g);
	*ret_guest = g;
	return 0;
}

/* The name that a person sees. Without memory for it there is none. */
static void set_program(struct guest *g, const char *program)
{
	free(g->program);
	g->program = strndup(program, WIRE_TEXT_MAX);
	if (g->program)
		text_make_plain(g->program);
}

void guest_expect(struct tenant *t, const struct process_identity *was, uint64_t copy)
{
	struct looks *looks = t->daemon->looks;
	struct process_identity process;
	char program[WIRE_TEXT_MAX + 1];
	struct guest *g;
	int pidfd;

	if (process_open(looks, was->pid, was->started, &pidfd) < 0)
		return;
	process = process_identify(looks, was->pid);
	/* Not known while it executes a program. */
	if (!process.started)
		process.started = was->started;
	/* An older meted let a process belong to several tenants: it stays with the first one. */
	if (guest_is_elsewhere(t, &process)) {
		close(pidfd);
		return;
	}
	/* Without a descriptor for it the process stays charged until it ends. */
	if (make(t, &process, pidfd, guest_open_memory(t->daemon, was->pid), &g) < 0)
		return;
	process = process_identify(looks, was->pid);
	process_name(was->pid, program, sizeof(program));
	set_program(g, program);
	if (process.image && process.image == was->image)
		g->copy = copy;
	g->restored = g->expected = true;
	t->expected_count++;
	schedule_joined(g);
}

void guest_miss(struct guest *g)
{
	struct tenant *t = g->tenant;

	log_warning("guest.missing", "tenant=%u pid=%d", t->id, (int)g->pid);
	no_longer_expected(g);
	for (uint32_t i = 0; i < t->devices; i++)
		measure_tell(&g->device[i], RESIDUAL_ASKED, 0);
}

/* A new page. The figures of the old one are valid until the guest has stated what it holds now. */
static int give_page(struct guest *g)
{
	struct page page;
	struct wire_own_page *own;
	int r = page_make(&page, "mete-guest", PAGE_GUEST_WRITES);

	if (r < 0)
		return r;
	page_done(&g->page);
	g->page = page;
	own = page.memory;
	own->magic = WIRE_PAGE_MAGIC;
	own->size = sizeof(*own);
	g->own = own;
	g->settles = 0;
	g->known = g->known || g->stated;
	g->stated = false;
	for (uint32_t i = 0; i < g->tenant->devices; i++)
		g->device[i].stated = false;
	return 0;
}

/* A guest of the program that has called. -ESTALE: the process runs another one by now, which calls
 * for itself. */
static int make_of_caller(struct caller *c, struct guest **ret_guest)
{
	owned(close) int memory_fd = -1;

	/* Also before: the kernel lets a reader wait while a process executes a program. */
	if (!guest_still_calls(c))
		return -ESTALE;
	memory_fd = guest_open_memory(c->tenant->daemon, c->process.pid);
	if (memory_fd == -EMFILE || memory_fd == -ENFILE)
		return memory_fd;
	if (memory_fd == -EBUSY || !guest_still_calls(c))
		return -ESTALE;
	return make(c->tenant, &c->process, take_fd(&c->pidfd), take_fd(&memory_fd), ret_guest);
}

/* The guest of this process: the existing one, unless the process runs another program now. Then
 * the former guest leaves after the new one was made, so that it does not end the tenant, but
 * before the journal records the new one, which has the same number there. */
static int find_or_make(struct caller *c, uint64_t copy, struct guest **ret_guest)
{
	struct guest *g = guest_find(c->tenant, &c->process), *former = NULL;
	bool unwritten = false;
	int r;

	if (g && guest_was_replaced(g))
		former = take(g);
	if (!g) {
		r = make_of_caller(c, &g);
		if (r < 0)
			return r;
		unwritten = true;
	}
	if (former)
		guest_leave(former, NULL);
	if (copy && g->copy != copy) {
		g->copy = copy;
		unwritten = true;
	}
	if (unwritten)
		recorder_guest(g);
	*ret_guest = g;
	return 0;
}

/* It joins the enclosing tenants as well, because it uses their shares. */
static void count_join(struct tenant *t)
{
	do {
		t->joins++;
		t = t->outer;
	} while (t);
}

int guest_join(struct caller *c, const struct wire_hello *hello, struct guest **ret_guest)
{
	struct tenant *t = c->tenant;
	struct caller *before;
	struct guest *g;
	int r;

	r = find_or_make(c, hello->copy, &g);
	if (r < 0)
		return r;
	book_refresh_guest(g);
	if (!g->page.memory)
		count_join(t);
	r = give_page(g);
	if (r < 0)
		return r;
	/* A process has one connection. The old one may have ended without our having noticed. */
	before = take(g->caller);
	if (before) {
		before->guest = NULL;
		caller_close(before);
		move_away(g);
		for (uint32_t i = 0; i < t->devices; i++)
			ledger_hang_up(t->daemon->book.ledger, g->device[i].holder);
	}
	g->caller = c;
	c->guest = g;
	schedule_joined(g);
	g->driver_version = hello->driver_version;
	set_program(g, hello->program.text);
	log_info("guest.joined", "tenant=%u guest=%u pid=%d program=%s", t->id, g->id, (int)g->pid,
		 log_text(guest_program(g)).text);
	*ret_guest = g;
	return 0;
}

void guest_stated(struct guest *g)
{
	struct tenant *t = g->tenant;

	if (g->stated)
		return;
	g->stated = true;
	for (uint32_t i = 0; i < t->devices; i++)
		g->device[i].stated = true;
	no_longer_expected(g);
	tenant_gates_open_late(t);
	measure_start(t->daemon);
	book_pump(t->daemon);
}
