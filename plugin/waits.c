/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of pods whose tenants have waited for memory for long, hang or are stuck, and one when
 * that is over. They have the sentences of `mete why`, as they are for who may see that tenant
 * alone: whoever may read a namespace's events may not see the tenants of another one.
 */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "core/doing.h"
#include "plugin/dra/dra.h"
#include "plugin/plugin.h"
#include "view/why.h"

enum { MESSAGE_MOST = 1000 }; /* the API server takes 1024 bytes */

static const struct {
	const char *begun, *over, *did;
} kinds[] = {
	[HOST_WAITS_MEMORY] = {"GPUMemoryAwaited", "GPUMemoryArrived", "waited"},
	[HOST_HANGS] = {"GPUWorkHangs", "GPUWorkEnded", "hung"},
	[HOST_STUCK] = {"GPUMemoryStuck", "GPUMemoryMoves", "was stuck"},
};

struct message {
	char text[MESSAGE_MOST + 1];
};

/* A sentence that does not fit is left out. */
static void add(void *owner, const char *sentence)
{
	struct message *message = owner;
	size_t used = strlen(message->text), left = sizeof(message->text) - used;

	if (strlen(sentence) + (used != 0) < left)
		snprintf(message->text + used, left, "%s%s", used ? " " : "", sentence);
}

static void on_device(void *owner, const struct wire_device_row *row)
{
	struct wire_message *added = ps_rows_add(owner);

	if (added)
		*added = (struct wire_message){.code = WIRE_device_row, .device_row = *row};
}

/* The rows that who may see this tenant sees: the devices, and it. */
static const struct wire_tenant_row *see(struct plugin *p, const struct wire_tenant_row *row,
					 struct ps_rows *ret_rows)
{
	const struct host_reader reader = {.owner = ret_rows, .device = on_device};
	struct wire_message *added;

	p->host->rows(p->host->daemon, &reader);
	added = ps_rows_add(ret_rows);
	if (!added)
		return NULL;
	*added = (struct wire_message){.code = WIRE_tenant_row, .tenant_row = *row};
	added->tenant_row.behind = added->tenant_row.outer = 0;
	ret_rows->flat = true;
	return &added->tenant_row;
}

static void explain(struct plugin *p, const struct wire_tenant_row *row, struct message *ret)
{
	owned(ps_rows_free) struct ps_rows rows = {0};
	const struct wire_tenant_row *seen = see(p, row, &rows);

	if (!seen)
		return;
	why_head(&rows, seen, add, ret);
	if (why_waits(seen))
		why_say(&rows, seen, add, ret);
}

/* How a wait has ended. */
struct end {
	const char *reason;
	bool good;
	char rest[80]; /* of the sentence */
};

struct teller {
	struct plugin *plugin;
	const struct host_waiting *news;
	struct end end;
	struct message message;
	bool told;
};

static void begin(struct teller *teller, const struct pod *pod)
{
	struct plugin *p = teller->plugin;
	const struct host_waiting *news = teller->news;

	if (!events_may_begin(p, pod))
		return;
	if (!*teller->message.text)
		explain(p, news->row, &teller->message);
	teller->told |=
		*teller->message.text &&
		events_begin(p, pod, news->tenant, kinds[news->kind].begun, teller->message.text);
}

/* It may have got what it waited for, and another request not: nobody is told that all is well. Who
 * is suspended or has no process any more waits no longer, and has got nothing. */
static struct end end_of(const struct host_waiting *news)
{
	struct end end = {.reason = kinds[news->kind].over, .good = true};
	uint32_t doing = news->row->doing;

	if (news->kind != HOST_WAITS_MEMORY)
		return end;
	if (news->refused) {
		end.reason = "GPUMemoryRefused";
		end.good = false;
		snprintf(end.rest, sizeof(end.rest),
			 ", and %" PRIu64 " of its requests for memory %s refused", news->refused,
			 news->refused == 1 ? "was" : "were");
	} else if (doing == DOING_SUSPENDED || doing == DOING_HALTED) {
		end.reason = "GPUSuspended";
		snprintf(end.rest, sizeof(end.rest), ", and is suspended now");
	} else if (doing == DOING_ABSENT) {
		end.reason = "GPUProgramEnded";
		snprintf(end.rest, sizeof(end.rest), ", and its processes have ended");
	}
	return end;
}

/* The sentence about a wait that is over. */
static void conclude(const struct host_waiting *news, const struct end *end, struct message *ret)
{
	snprintf(ret->text, sizeof(ret->text), "%s %s for %.60s%s.", news->row->name.text,
		 kinds[news->kind].did, ps_duration(news->over_ns).text, end->rest);
}

static void tell(void *owner, const struct pod *pod)
{
	struct teller *teller = owner;
	const struct host_waiting *news = teller->news;

	events_begun(teller->plugin, pod, news->last_ns);
	if (news->over_ns)
		teller->told &=
			events_over(teller->plugin, pod, news->tenant, news->before_ns,
				    teller->end.good, teller->end.reason, teller->message.text);
	else
		begin(teller, pod);
}

static bool on_waits(void *owner, const struct host_waiting *news)
{
	struct plugin *p = owner;
	struct teller teller = {.plugin = p, .news = news};
	const struct binding *b = binding_store_of_tenant(&p->bindings, news->tenant);
	const struct pod *pod;

	if (!p->api || !p->pods)
		return true; /* nobody can be told */
	if (news->over_ns) {
		/* Of a pod that is there no longer nobody is told. */
		if (!pods_known(p->pods))
			return false;
		teller.told = true;
		teller.end = end_of(news);
		conclude(news, &teller.end, &teller.message);
	}
	if (!b) {
		dra_each_pod(p->dra, news->tenant, tell, &teller);
		return teller.told;
	}
	pod = pods_find_uid(p->pods, b->uid);
	if (pod)
		tell(&teller, pod);
	return teller.told;
}

void waits_open(struct plugin *p)
{
	p->host->waits(p->host->daemon, on_waits, p);
}
