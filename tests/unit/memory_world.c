/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/memory_world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/text.h"
#include "node/peers/flow.h"
#include "node/process.h"
#include "node/state/recorder.h"
#include "node/tenants/guest_send.h"
#include "node/tenants/tenant_show.h"
#include "node/time/drift.h"
#include "node/time/samples.h"
#include "node/upcalls.h"

enum { TIMERS = 16, TENANTS = 16, GUESTS = 32 };

static struct timer {
	struct loop_timer *timer;
	uint64_t at_ns; /* 0: it is not armed */
} timers[TIMERS];

static struct daemon daemon_;
static struct nvml_device info[WORLD_DEVICES];
static struct tenant *tenants[TENANTS];
static struct guest *guests[GUESTS];
static uint32_t tenant_count, guest_count;
static char said[4096], read_[4096];

struct world w;
struct daemon *d = &daemon_;

/* ---- clock and timers ------------------------------------------------------------------------ */

uint64_t loop_now_ns(void)
{
	return w.now_ns;
}

static struct timer *timer_of(const struct loop_timer *timer)
{
	for (int i = 0; i < TIMERS; i++)
		if (timers[i].timer == timer)
			return &timers[i];
	test_fail(__FILE__, __LINE__, "a timer that nobody has made");
}

int loop_timer_init(struct loop *loop, struct loop_timer *timer,
		    void (*due)(struct loop_timer *timer))
{
	(void)loop;
	timer->due = due;
	timer_of(NULL)->timer = timer;
	return 0;
}

void loop_arm(struct loop_timer *timer, uint64_t delay_ns)
{
	timer_of(timer)->at_ns = w.now_ns + delay_ns;
}

void loop_disarm(struct loop_timer *timer)
{
	timer_of(timer)->at_ns = 0;
}

bool loop_is_armed(const struct loop_timer *timer)
{
	return timer_of(timer)->at_ns != 0;
}

void loop_timer_close(struct loop_timer *timer, void (*closed)(struct loop_timer *timer))
{
	(void)closed;
	*timer_of(timer) = (struct timer){0};
}

bool world_is_armed(const struct loop_timer *timer)
{
	return loop_is_armed(timer);
}

uint64_t world_due_ms(const struct loop_timer *timer)
{
	expect(loop_is_armed(timer));
	return (timer_of(timer)->at_ns - w.now_ns) / MS;
}

static struct timer *next_timer(uint64_t until_ns)
{
	struct timer *next = NULL;

	for (int i = 0; i < TIMERS; i++)
		if (timers[i].at_ns && timers[i].at_ns <= until_ns &&
		    (!next || timers[i].at_ns < next->at_ns))
			next = &timers[i];
	return next;
}

void world_pass(uint64_t ms_)
{
	uint64_t until_ns = w.now_ns + ms_ * MS;
	struct timer *next;

	while ((next = next_timer(until_ns)) != NULL) {
		if (next->at_ns > w.now_ns)
			w.now_ns = next->at_ns;
		next->at_ns = 0;
		next->timer->due(next->timer);
	}
	w.now_ns = until_ns;
}

/* ---- the driver ------------------------------------------------------------------------------ */

int loop_work(struct loop *loop, struct loop_work *work, void (*run)(struct loop_work *work),
	      void (*finished)(struct loop_work *work))
{
	(void)loop;
	expect(!work->busy);
	work->busy = 1;
	work->work = run;
	work->finished = finished;
	return 0;
}

bool world_is_asked(void)
{
	return d->measure.work.busy;
}

void world_driver_looks(void)
{
	expect(world_is_asked());
	d->measure.work.work(&d->measure.work);
}

void world_driver_returns(void)
{
	expect(world_is_asked());
	d->measure.work.busy = 0;
	d->measure.work.finished(&d->measure.work);
}

void world_driver_answers(void)
{
	world_driver_looks();
	world_driver_returns();
}

uint32_t world_driver_settles(void)
{
	uint32_t times = 0;

	for (; world_is_asked(); times++) {
		expect(times < 100);
		world_driver_answers();
	}
	return times;
}

uint64_t nvml_used(struct nvml *nvml, uint32_t index)
{
	(void)nvml;
	expect(index < d->devices);
	return w.used[index][w.used_asked[index]++ % 2];
}

int nvml_processes(struct nvml *nvml, uint32_t index, struct nvml_process *out, uint32_t room,
		   uint32_t *ret_count)
{
	(void)nvml;
	expect(index < d->devices && room == DAEMON_GUESTS);
	w.asked[index]++;
	*ret_count = 0;
	if (w.fails[index])
		return -EIO;
	for (uint32_t i = 0; i < w.rows; i++)
		if (w.row[i].device == index)
			out[(*ret_count)++] = (struct nvml_process){.pid = w.row[i].pid,
								    .used_bytes = w.row[i].bytes};
	return 0;
}

void world_uses(uint32_t device, uint32_t pid, uint64_t bytes)
{
	uint32_t i = 0;

	while (i < w.rows && (w.row[i].device != device || w.row[i].pid != pid))
		i++;
	expect(i < WORLD_ROWS);
	w.rows += i == w.rows;
	w.row[i] = (struct world_row){.device = device, .pid = pid, .bytes = bytes};
}

static const struct world_row *row_of(pid_t pid)
{
	for (uint32_t i = 0; i < w.rows; i++)
		if (w.row[i].pid == (uint32_t)pid)
			return &w.row[i];
	return NULL;
}

int process_is_over(pid_t pid)
{
	const struct world_row *row = row_of(pid);

	return !row || row->over;
}

uint64_t process_started(struct looks *looks, pid_t pid)
{
	(void)looks;
	return row_of(pid)->started;
}

int64_t process_user(pid_t pid)
{
	return 1000 + pid;
}

void process_name(pid_t pid, char *ret_name, size_t size)
{
	const char *name = row_of(pid)->name;

	w.names_asked++;
	snprintf(ret_name, size, "%s", name ? name : "");
}

/* ---- who is told ----------------------------------------------------------------------------- */

static void say(const char *format, ...) printf_like(1, 2);
static void say(const char *format, ...)
{
	size_t used = strlen(said);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(said + used, sizeof(said) - used, format, arguments);
	va_end(arguments);
}

const char *world_said(void)
{
	memcpy(read_, said, sizeof(read_));
	*said = '\0';
	return read_;
}

void log_write(enum log_level level, const char *event, const char *format, ...)
{
	(void)level;
	(void)format;
	w.late_logged += strcmp(event, "measure.late") == 0;
	w.behind_logged += strcmp(event, "memory.left_behind") == 0;
}

void guest_done(struct guest *g, uint32_t id, uint64_t value)
{
	(void)g;
	say("done %u %llu; ", id, (unsigned long long)value);
}

void guest_refuse(struct guest *g, uint32_t id, uint32_t code, const char *format, ...)
{
	char text[200];
	va_list arguments;

	(void)g;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	say("bad %u %u: %s; ", id, code, text);
}

/* As words.c does it. */
void words_answer(struct guest *g, const struct ledger_action *action)
{
	struct guest_device *at = ledger_owner(action->holder);
	unsigned long long id = action->id, mib = action->bytes / MIB;
	struct ledger_sums has;

	expect(at->guest == g);
	w.shown_at_answer = w.shown[g->tenant->device[at - g->device].index];
	if (action->verb == LEDGER_GRANT) {
		if (action->residual == LEDGER_RESIDUAL)
			measure_tell(at, RESIDUAL_RESERVED, action->bytes);
		ledger_holder_sums(at->holder, &has);
		measure_tell(at, RESIDUAL_GRANTED, has.granted);
		say("grant %llu %llu; ", id, mib);
	} else if (action->verb == LEDGER_REFUSE) {
		say("refuse %llu %u; ", id, action->reason);
	} else {
		say("recall %llu; ", mib);
	}
	if (w.answered)
		w.answered(at);
}

bool user_may_ask(const struct user *u)
{
	(void)u;
	return w.user_asks > 0;
}

void waits_look(struct tenant_device *at)
{
	(void)at;
	w.waits_looked++;
}

void tenant_show(struct tenant *t, uint32_t device)
{
	w.shown[t->device[device].index]++;
}

void tenant_show_room(struct tenant_device *at, uint64_t credit)
{
	w.shown_room[at->index]++;
	w.shown_credit = credit;
}

void recorder_behind(struct tenant *t, uint32_t device)
{
	expect(device < t->devices);
	w.behind++;
}

void recorder_context(const struct guest_device *at)
{
	(void)at;
}

void admin_measured(struct daemon *d_)
{
	(void)d_;
	w.admin_measured++;
}

void flows_gave_back(struct flows *flows)
{
	(void)flows;
	w.gave_back++;
}

void drift_want(struct daemon *d_)
{
	(void)d_;
}

void drift_ask(struct daemon *d_)
{
	(void)d_;
}

void drift_seen(struct daemon *d_)
{
	(void)d_;
	w.drifts++;
}

void samples_seen(struct daemon *d_)
{
	(void)d_;
	w.samples++;
}

void lost_look(struct daemon *d_)
{
	(void)d_;
	w.lost_looks++;
}

void move_book_changed(struct daemon *d_)
{
	(void)d_;
	w.moves_looked++;
}

/* ---- the daemon ------------------------------------------------------------------------------ */

void world_begin(uint32_t devices, uint64_t bytes)
{
	memset(d, 0, sizeof(*d));
	memset(&w, 0, sizeof(w));
	memset(info, 0, sizeof(info));
	memset(timers, 0, sizeof(timers));
	tenant_count = guest_count = 0; /* a test that failed has left some */
	*said = '\0';
	w.now_ns = 1000 * MS;
	w.user_asks = 1;
	d->devices = devices;
	d->places = WORLD_DEVICES;
	d->options.context_bytes = 64 * MIB;
	list_init(&d->tenants.all);
	for (uint32_t i = 0; i < WORLD_DEVICES; i++) {
		info[i] = (struct nvml_device){.total_bytes = bytes, .gpu_instance = -1};
		snprintf(info[i].model, sizeof(info[i].model), "model %u", i);
		d->device[i].info = &info[i];
		d->device[i].outside_ns = w.now_ns; /* so that an ask needs no look */
	}
	expect_eq(book_open(d), 0);
	expect_eq(measure_open(d), 0);
	expect_eq(outside_open(d), 0);
	expect_eq(watch_open(d), 0);
}

void world_end(void)
{
	d->stopping = true;
	for (uint32_t i = 0; i < tenant_count; i++)
		for (uint32_t j = 0; j < tenants[i]->devices; j++)
			remains_end_of(&tenants[i]->device[j], NULL);
	for (; guest_count; guest_count--) {
		free((void *)(uintptr_t)guests[guest_count - 1]->own);
		free(guests[guest_count - 1]);
	}
	for (; tenant_count; tenant_count--)
		free(tenants[tenant_count - 1]);
	watch_close(d);
	outside_close(d);
	measure_close(d);
	book_close(d);
	for (int i = 0; i < TIMERS; i++)
		expect(!timers[i].timer);
}

struct tenant *world_tenant(uint64_t limit, uint32_t first, uint32_t devices)
{
	struct tenant *t = calloc(1, sizeof(*t) + devices * sizeof(t->device[0]));

	expect(t && tenant_count < TENANTS);
	tenants[tenant_count++] = t;
	t->daemon = d;
	t->id = ++d->tenants.last_id;
	t->devices = devices;
	t->share.memory.bytes = limit;
	list_init(&t->guests);
	list_append(&d->tenants.all, &t->link);
	d->tenants.count++;
	for (uint32_t i = 0; i < devices; i++) {
		struct device *device = &d->device[first + i];

		t->device[i].tenant = t;
		t->device[i].index = first + i;
		t->device[i].account = ledger_open(d->book.ledger, first + i, limit, 0);
		ledger_watch(t->device[i].account, &t->device[i]);
		list_append(&device->tenants, &t->device[i].link);
		device->registered++;
	}
	return t;
}

struct guest *world_guest(struct tenant *t)
{
	struct guest *g = calloc(1, sizeof(*g) + t->devices * sizeof(g->device[0]));
	struct wire_own_page *own = calloc(1, sizeof(*own));

	expect(g && own && guest_count < GUESTS);
	guests[guest_count++] = g;
	g->tenant = t;
	g->own = own;
	g->pid = 100 + (pid_t)guest_count;
	g->stated = true;
	g->driver_version = 12090;
	for (uint32_t i = 0; i < t->devices; i++) {
		if (list_empty(&t->guests))
			d->device[t->device[i].index].inhabited++;
		g->device[i].guest = g;
		g->device[i].stated = true;
		g->device[i].holder =
			ledger_join(d->book.ledger, t->device[i].account, &g->device[i]);
	}
	list_append(&t->guests, &g->link);
	return g;
}

struct wire_own_page *world_page(struct guest *g)
{
	return (struct wire_own_page *)(uintptr_t)g->own;
}

void world_allocated(struct guest *g, uint32_t i, uint64_t bytes)
{
	world_page(g)->device[i].allocated_bytes = bytes;
	if (world_page(g)->device[i].peak_bytes < bytes)
		world_page(g)->device[i].peak_bytes = bytes;
}
