/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/rows.h"

#include <string.h>
#include <time.h>

#include "node/daemon.h"
#include "node/devices/mark.h"
#include "node/move/move.h"
#include "node/move/move_ask.h"
#include "node/peers/doing.h"
#include "node/process.h"
#include "node/tenants/guest.h"
#include "node/tenants/keeper.h"
#include "node/time/launches.h"
#include "node/time/pace.h"
#include "node/time/schedule_now.h"
#include "node/time/schedule_row.h"

static void row_picker(const struct reservation *it, struct wire_device_row *ret_row)
{
	if (!reserve_holds(it))
		return;
	ret_row->picker = (uint32_t)it->pid;
	ret_row->picked_by = it->uid;
	ret_row->hold = it->owner ? 0 : it->until_ns - loop_now_ns();
}

void rows_trouble(const struct daemon *d, wire_text *ret_text)
{
	char text[WIRE_TEXT_MAX + 1] = "";

	if (d->measure.late)
		snprintf(text, sizeof(text),
			 "the driver has not answered meted for %llu s: the figures are from "
			 "before that\n",
			 (unsigned long long)((loop_now_ns() - d->measure.began_ns) / 1000000000));
	mark_trouble(d, text, sizeof(text));
	if (d->users.policy_fault[0])
		snprintf(text + strlen(text), sizeof(text) - strlen(text),
			 "the policy was not accepted: %.220s\n", d->users.policy_fault);
	wire_set_text(ret_text, text);
}

void rows_device(struct daemon *d, uint32_t index, struct wire_device_row *ret_row)
{
	const struct device *device = &d->device[index];
	struct ledger_sums sums;

	ledger_device_sums(d->book.ledger, index, &sums);
	*ret_row = (struct wire_device_row){
		.index = index,
		.capacity = device->info->total_bytes,
		.reserve = device->reserve_bytes,
		.allocated = sums.allocated,
		.resident = sums.allocated - sums.evicted,
		/* The bytes that it counts for: see law 10 of core/ledger/ledger.h. */
		.residual = sums.booked + sums.evicted - sums.granted,
		.credit = sums.granted - sums.allocated,
	};
	memcpy(ret_row->uuid.byte, device->info->uuid, sizeof(ret_row->uuid.byte));
	ret_row->outside = sums.outside;
	row_picker(&d->reserve.device[index], ret_row);
	ret_row->cordoned = device->cordoned;
	ret_row->promised = device->promised_bytes;
	wire_set_text(&ret_row->model, device->info->model);
	wire_set_text(&ret_row->name, device->info->uuid_text);
}

static uint64_t unknown_functions(const struct tenant *t)
{
	uint64_t sum = t->unknown_functions;

	list_for_each(link, (struct list *)&t->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		sum += __atomic_load_n(&g->own->unknown_functions, __ATOMIC_RELAXED);
	}
	return sum;
}

/* The process that stands for the tenant: the program of `mete run`, or else a guest. */
static pid_t process_of(const struct tenant *t)
{
	pid_t pid = keeper_first(t);

	if (!pid && !list_empty(&t->guests))
		pid = list_entry(t->guests.next, struct guest, link)->pid;
	return pid;
}

/* It is looked for once: a page shows a thousand tenants every second. */
static uint64_t started_of(struct tenant *t, pid_t pid)
{
	if (t->aged_pid != pid) {
		t->aged_pid = pid;
		t->aged_started = process_started(t->daemon->looks, pid);
	}
	return t->aged_started;
}

/* A tenant that was restored after a restart is at least as old as its process. */
static uint64_t age_ns(struct tenant *t, pid_t pid)
{
	uint64_t age = loop_now_ns() - t->made_ns, now, started;
	struct timespec since_start;

	if (!pid || clock_gettime(CLOCK_BOOTTIME, &since_start) != 0)
		return age;
	now = (uint64_t)since_start.tv_sec * 1000000000 + (uint64_t)since_start.tv_nsec;
	started = started_of(t, pid) * (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK));
	return started && started < now && now - started > age ? now - started : age;
}

void rows_tenant(struct tenant *t, uint32_t device, struct wire_tenant_row *ret_row)
{
	struct tenant_device *at = &t->device[device];
	struct ledger_sums sums;
	uint64_t since;

	ledger_account_sums(at->account, &sums);
	*ret_row = (struct wire_tenant_row){
		.tenant = t->id,
		.device = at->index,
		.guests = sums.holders - (at->remains && at->remains->holder),
		.waiting = sums.waiting,
		.limit = sums.limit,
		.allocated = sums.allocated,
		.resident = sums.allocated - sums.evicted,
		/* The bytes that it counts for: see law 10 of core/ledger/ledger.h. */
		.residual = sums.booked + sums.evicted - sums.granted,
		.credit = sums.granted - sums.allocated,
		.peak = sums.peak,
		.refusals = sums.refused,
		.gate = t->shown->device[device].gate,
		.unknown_functions = unknown_functions(t),
		.joins = t->joins,
		.coupled = at->test == GATE_TEST_FAILED || pace_is_coupled(at),
	};
	ret_row->owner = t->owner;
	ret_row->pid = (uint32_t)process_of(t);
	ret_row->expected = t->expected_count;
	ret_row->age = age_ns(t, (pid_t)ret_row->pid);
	ret_row->outer = t->outer ? t->outer->id : 0;
	if (sums.granted + sums.residual > sums.limit)
		ret_row->over = sums.granted + sums.residual - sums.limit;
	if (ledger_first_ask(at->account, &ret_row->wanted, &since))
		ret_row->wanting = loop_now_ns() - since;
	else if (move_first_ask(at, &ret_row->wanted, &since))
		ret_row->wanting = (schedule_now(t->daemon) - since) * t->daemon->clock_dilation;
	ret_row->waiting += move_asks(at);
	wire_set_text(&ret_row->name, t->name);
	schedule_row(at, ret_row);
	move_row(at, ret_row);
	doing_row(at, ret_row);
	ret_row->launched = launches_ago(t);
}

void rows_guest(struct guest *g, uint32_t device, struct wire_guest_row *ret_row)
{
	struct ledger_sums sums;

	ledger_holder_sums(g->device[device].holder, &sums);
	*ret_row = (struct wire_guest_row){
		.tenant = g->tenant->id,
		.guest = g->id,
		.device = g->tenant->device[device].index,
		.pid = (uint32_t)g->pid,
		.allocated = sums.allocated,
		.residual = sums.residual,
		.credit = sums.granted - sums.allocated,
		.user = g->user,
		.age = loop_now_ns() - g->came_ns,
	};
	wire_set_text(&ret_row->program, guest_program(g));
}
