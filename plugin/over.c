/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers that have more of a device than their limit, according to the driver. mete's library
 * does not grant that: a process has the driver from elsewhere, whether it is a guest (since it
 * uses mete's NVML, say) or a stranger. A container is judged when two looks in a row find it so,
 * because one that is about to free something is found so, too.
 *
 * `unannounced: kill` ends the guest that has most beyond what it was granted, one at each look.
 * Memory that was granted under a higher limit does not count, nor do the small amounts that
 * launches take by themselves (local memory, the heap of printf).
 */
#include <inttypes.h>

#include "base/text.h"
#include "plugin/plugin.h"

enum { UNASKED_MOST = 64 << 20 };

struct verdict {
	const struct host_measured *row;
	uint64_t bytes; /* with those of strangers */
};

static void tell(struct plugin *p, const struct binding *b, const struct verdict *v)
{
	const char *uuid = p->host->device[v->row->device].uuid;
	struct fault what;

	log_warning("container.over",
		    "pod=%s/%s container=%s tenant=%u uuid=%s bytes=%" PRIu64 " limit=%" PRIu64,
		    b->namespace, b->pod, b->container, b->tenant, uuid, v->bytes, v->row->limit);
	fault_set(&what, 0, "container %s has %s of device %s by measurement, and its limit is %s",
		  b->container, text_size(v->bytes, TEXT_UP).text, uuid,
		  text_size(v->row->limit, TEXT_DOWN).text);
	p->host->happened(p->host->daemon, b->tenant, v->row->device, HAPPENED_OVER, what.text);
	if (!strangers_may_say(p))
		return;
	(void)events_container(p, b, "GPUMemoryOverLimit", what.text);
}

static void end(struct plugin *p, const struct binding *b, const struct verdict *v)
{
	const char *uuid = p->host->device[v->row->device].uuid;
	struct fault what;

	log_warning("process.killed", "pid=%u uid=%s uuid=%s", v->row->pid, b->uid, uuid);
	strangers_kill(v->row->pid, b->uid);
	fault_set(
		&what, 0,
		"process %u has more of device %s than it was granted, and its container has more "
		"than its limit: it was killed (unannounced: kill)",
		v->row->pid, uuid);
	p->host->happened(p->host->daemon, b->tenant, v->row->device, HAPPENED_KILLED, what.text);
	if (!strangers_may_say(p))
		return;
	(void)events_container(p, b, "GPUProcessKilled", what.text);
}

static void on_measured(void *owner, const struct host_measured *row)
{
	struct plugin *p = owner;
	struct binding *b = binding_store_of_tenant(&p->bindings, row->tenant);
	uint64_t bit = 1ull << row->device;
	struct verdict v = {.row = row, .bytes = row->bytes};
	int place = b ? binding_place(b, row->device) : -1;

	if (place < 0)
		return;
	v.bytes += b->unannounced[place];
	if (v.bytes <= row->limit)
		return;
	b->over |= bit;
	if (!over_is(b, row->device))
		return;
	if (!(b->told_over & bit))
		tell(p, b, &v);
	b->told_over |= bit;
	if (row->pid && row->bytes > row->may && row->bytes - row->may > UNASKED_MOST &&
	    strangers_dies(p, b))
		end(p, b, &v);
}

bool over_is(const struct binding *b, uint32_t device)
{
	return b->over & b->was_over & 1ull << device;
}

void over_look(struct plugin *p)
{
	const struct host_reader reader = {.owner = p, .measured = on_measured};

	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		b->was_over = b->over;
		b->over = 0;
	}
	p->host->rows(p->host->daemon, &reader);
	/* Another time is news. */
	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		b->told_over &= b->over;
	}
}
