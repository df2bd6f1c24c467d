/* SPDX-License-Identifier: Apache-2.0 */
#include "node/devices/health.h"

#include "base/least.h"
#include "node/daemon.h"
#include "node/devices/nvml.h"
#include "node/devices/nvml_inside.h"
#include "node/memory/measure.h"

static int make_room(struct health_processes *p, uint32_t room)
{
	struct nvml_process *row = realloc(p->row, room * sizeof(*row));

	if (!row)
		return -ENOMEM;
	p->row = row;
	p->room = room;
	return 0;
}

/* The driver may list a process several times, in any order. */
static int by_pid(const void *a, const void *b)
{
	const struct nvml_process *one = a, *other = b;

	return (one->pid > other->pid) - (one->pid < other->pid);
}

/* The table includes guests, and a pod can start many processes: it grows, so that no stranger can
 * hide behind them. */
static int look(struct nvml *nvml, uint32_t device, struct health_processes *p)
{
	int r = p->room ? 0 : make_room(p, HEALTH_PROCESSES);

	p->count = 0;
	if (r == 0)
		r = nvml_processes(nvml, device, p->row, p->room, &p->count);
	while (r == -ENOSPC && p->room < HEALTH_PROCESSES_MAX) {
		r = make_room(p, 2 * p->room);
		if (r == 0)
			r = nvml_processes(nvml, device, p->row, p->room, &p->count);
	}
	if (r < 0)
		p->count = 0;
	else
		qsort(p->row, p->count, sizeof(p->row[0]), by_pid);
	return r;
}

static void run(struct loop_work *work)
{
	struct health_watch *h = container_of(work, struct health_watch, work);
	struct daemon *d = h->daemon;

	if (nvml_events(d->nvml, h->devices, h->event, ARRAY_SIZE(h->event), &h->events) < 0)
		h->events = 0;
	for (uint32_t i = 0; i < h->devices; i++) {
		h->answers[i] = nvml_answers(d->nvml, i);
		nvml_clique(d->nvml, i, h->clique[i]);
	}
	for (uint32_t i = 0; i < h->devices; i++)
		h->processes[i].unknown = look(d->nvml, i, &h->processes[i]) < 0;
}

/* A node that kills strangers must report when it cannot see them: once, until it sees them again.
 */
static void complain(struct health_watch *h, uint32_t device)
{
	bool unknown = h->processes[device].unknown && h->answers[device];

	if (unknown && !h->unknown[device])
		log_warning("processes.unknown",
			    "uuid=%s reason=\"the driver does not list the device's processes, or "
			    "there are more than %d: programs that are no guests are not noticed\"",
			    h->daemon->device[device].info->uuid_text, HEALTH_PROCESSES_MAX);
	h->unknown[device] = unknown;
}

static void on_finished(struct loop_work *work)
{
	struct health_watch *h = container_of(work, struct health_watch, work);

	if (!h->seen)
		return;
	for (uint32_t i = 0; i < h->events; i++)
		h->seen(h->owner, h->event[i].index,
			h->event[i].news == NVML_NEWS_XID ? HOST_XID : HOST_ECC, h->event[i].xid);
	for (uint32_t i = 0; i < h->devices; i++) {
		complain(h, i);
		h->seen(h->owner, i, h->answers[i] ? HOST_ANSWERS : HOST_LOST, 0);
		if (h->answers[i] && nvml_set_clique(h->daemon->nvml, i, h->clique[i]))
			h->seen(h->owner, i, HOST_CLIQUE, 0);
	}
	h->seen(h->owner, 0, HOST_LOOKED, 0);
	loop_arm(&h->timer, h->daemon->options.look_ns);
}

static bool is_guest(const struct daemon *d, uint32_t pid)
{
	list_for_each(at, (struct list *)&d->tenants.all)
	{
		const struct tenant *t = list_entry(at, struct tenant, link);

		list_for_each(link, (struct list *)&t->guests)
		{
			if (list_entry(link, struct guest, link)->pid == (pid_t)pid)
				return true;
		}
	}
	return false;
}

/* Reports nothing while the worker is writing the table. */
void health_watch_strangers(const struct health_watch *h, const struct host_reader *reader)
{
	for (uint32_t i = 0; !h->work.busy && h->daemon && i < h->devices; i++)
		for (uint32_t n = 0; n < h->processes[i].count; n++)
			if (!is_guest(h->daemon, h->processes[i].row[n].pid))
				reader->stranger(reader->owner, i, h->processes[i].row[n].pid,
						 h->processes[i].row[n].used_bytes);
}

static uint64_t used_by(const struct health_processes *p, pid_t pid)
{
	uint32_t low = 0, high = p->count;
	uint64_t sum = 0;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (p->row[middle].pid < (uint32_t)pid)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < p->count && p->row[low].pid == (uint32_t)pid; low++)
		sum += p->row[low].used_bytes;
	return sum;
}

/* The bytes that it may be found with: see struct host_measured. */
static uint64_t may_have(struct tenant_device *of, const struct ledger_sums *own, uint64_t bytes)
{
	if (!of->may_bytes)
		of->may_bytes = own->highest_limit;
	of->may_bytes = most(own->limit, least(of->may_bytes, bytes));
	return of->may_bytes;
}

static void measured(const struct health_processes *p, struct tenant_device *of,
		     const struct host_reader *reader)
{
	uint32_t at = tenant_index(of);
	struct host_measured row = {.tenant = of->tenant->id, .device = of->index};
	struct ledger_sums own, has;
	uint64_t worst = 0;

	ledger_account_sums(of->account, &own);
	row.limit = own.limit;
	list_for_each(link, &of->tenant->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);
		uint64_t used = used_by(p, g->pid);

		ledger_holder_sums(g->device[at].holder, &has);
		row.bytes += used;
		/* A program that has the driver from elsewhere sends nothing that would start a
		 * measurement. */
		if (!g->expected && used != g->device[at].residual.used)
			measure_tell(&g->device[at], RESIDUAL_WATCHED, 0);
		if (used > has.granted && used - has.granted > worst) {
			worst = used - has.granted;
			row.pid = (uint32_t)g->pid;
		}
	}
	row.may = may_have(of, &own, row.bytes);
	reader->measured(reader->owner, &row);
}

void health_watch_measured(const struct health_watch *h, const struct host_reader *reader)
{
	if (h->work.busy || !h->daemon)
		return;
	for (uint32_t i = 0; i < h->devices; i++) {
		const struct health_processes *p = &h->processes[i];

		if (p->unknown)
			continue;
		list_for_each(at, &h->daemon->device[i].tenants)
			measured(p, list_entry(at, struct tenant_device, link), reader);
	}
	measure_start(h->daemon);
}

/* A driver that hangs keeps the worker busy. Nothing is reported about its devices then, because
 * nothing is known. */
static void on_due(struct loop_timer *timer)
{
	struct health_watch *h = container_of(timer, struct health_watch, timer);

	/* MIG may make more while the driver is asked. */
	if (!h->work.busy)
		h->devices = h->daemon->devices;
	if (loop_work(&h->daemon->loop, &h->work, run, on_finished) < 0)
		loop_arm(&h->timer, h->daemon->options.look_ns);
}

int health_watch_open(struct health_watch *h, struct daemon *d, host_health *seen, void *owner)
{
	int r = loop_timer_init(&d->loop, &h->timer, on_due);

	if (r < 0)
		return r;
	h->daemon = d;
	h->seen = seen;
	h->owner = owner;
	loop_arm(&h->timer, 0);
	return 0;
}

void health_watch_free(struct health_watch *h)
{
	for (uint32_t i = 0; i < DAEMON_DEVICES; i++)
		free(h->processes[i].row);
}

void health_watch_close(struct health_watch *h)
{
	h->seen = NULL;
	loop_timer_close(&h->timer, NULL);
}
