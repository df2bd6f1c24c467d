/* SPDX-License-Identifier: Apache-2.0 */
/* Without an API server, and for static pods, the kubelet is asked now and then which containers
 * still have their ids. */
#include "plugin/kubelet/ids_owner.h"
#include "plugin/plugin.h"

enum { SWEEP_S = 30 };

struct sweep {
	struct resources_ask ask;
	struct plugin *plugin;
	struct binding *copy; /* the binding may be gone by then */
};

static void on_swept(struct resources_ask *ask, const char *problem,
		     const struct resources_found *found, size_t count)
{
	struct sweep *s = container_of(ask, struct sweep, ask);

	(void)found;
	/* Init containers are not listed; the checkpoint knows them. */
	if (!problem && count == 0 &&
	    ids_owner_find(s->plugin, s->copy->resource, ask->ids, ask->count).pods == 0)
		containers_gone(s->plugin, s->copy->key, s->copy->tenant);
	binding_free(s->copy);
	free(s);
}

void sweep_ask(struct plugin *p, const struct binding *b)
{
	struct sweep *s = p->resources ? calloc(1, sizeof(*s)) : NULL;

	if (!s || binding_make(b->resource, (const char *const *)b->ids, b->count, &s->copy) < 0) {
		free(s);
		return;
	}
	s->plugin = p;
	s->copy->tenant = b->tenant;
	s->ask = (struct resources_ask){.answered = on_swept,
					.resource = s->copy->resource,
					.ids = (const char *const *)s->copy->ids,
					.count = s->copy->count};
	resources_want(p->resources, &s->ask);
}

static void on_due(struct loop_timer *timer)
{
	struct plugin *p = container_of(timer, struct plugin, sweep);

	list_for_each(link, &p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		if (!p->api ||
		    (b->is_static && !(p->pods && pods_find(p->pods, b->namespace, b->pod))))
			sweep_ask(p, b);
	}
	loop_arm(&p->sweep, SWEEP_S * 1000000000ull);
}

int sweep_open(struct plugin *p, struct fault *why)
{
	if (!p->sweep.open && loop_timer_init(p->host->loop, &p->sweep, on_due) < 0)
		return fault_set(why, -ENOMEM, "no timer");
	loop_arm(&p->sweep, SWEEP_S * 1000000000ull);
	return 0;
}
