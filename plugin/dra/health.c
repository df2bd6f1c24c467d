/* SPDX-License-Identifier: Apache-2.0 */
/* The devices' health for the kubelet, which shows it in the status of the pods that have them. It
 * forgets what it was told some time ago, so it is told again at each look. */
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "kube/proto/drahealth.pb-c.h"
#include "plugin/dra/inside.h"
#include "plugin/nvidia/parts.h"

enum { FORGETS_S = 60 }; /* several looks of dra.c */

static const char ends[] = "this meted is about to end";

struct watcher {
	struct list link;
	struct grpc_call *call;
};

/* A device of the message. */
struct row {
	Drahealth__DeviceHealth health;
	Drahealth__DeviceIdentifier device;
	char name[SLICES_NAME], text[48];
};

static void fill(const struct dra *dra, uint32_t device, struct row *row)
{
	const struct plugin *p = dra->plugin;
	const struct health *h = &p->health[device];
	const char *place = parts_place_of(p->parts, device);

	drahealth__device_health__init(&row->health);
	drahealth__device_identifier__init(&row->device);
	slices_device_name(place ? place : p->host->device[device].uuid, row->name);
	*row->text = '\0';
	if (p->host->device[device].gone)
		snprintf(row->text, sizeof(row->text), "MIG has divided its GPU in another way");
	else if (h->cause == HEALTH_XID)
		snprintf(row->text, sizeof(row->text), "Xid %llu", (unsigned long long)h->xid);
	else if (h->cause == HEALTH_ECC)
		snprintf(row->text, sizeof(row->text), "an ECC error that was not corrected");
	else if (h->cause == HEALTH_LOST)
		snprintf(row->text, sizeof(row->text), "it is gone from the bus");
	row->device.pool_name = (char *)dra->pool;
	row->device.device_name = row->name;
	row->health.device = &row->device;
	row->health.health = p->offer[device].healthy && !p->host->device[device].gone
				     ? DRAHEALTH__HEALTH__HEALTHY
				     : DRAHEALTH__HEALTH__UNHEALTHY;
	row->health.last_updated_time = time(NULL);
	row->health.health_check_timeout_seconds = FORGETS_S;
	row->health.message = row->text;
}

static int pack(const struct dra *dra, uint8_t **ret_bytes, size_t *ret_size)
{
	Drahealth__NodeWatchResourcesResponse response =
		DRAHEALTH__NODE_WATCH_RESOURCES_RESPONSE__INIT;
	uint32_t n = dra->plugin->host->devices;
	owned(free) struct row *rows = calloc(n + 1, sizeof(*rows));
	Drahealth__DeviceHealth *list[HOST_DEVICES];

	if (!rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		fill(dra, i, &rows[i]);
		list[i] = &rows[i].health;
	}
	response.devices = list;
	response.n_devices = n;
	*ret_size = drahealth__node_watch_resources_response__get_packed_size(&response);
	*ret_bytes = malloc(*ret_size + 1);
	if (!*ret_bytes)
		return -ENOMEM;
	drahealth__node_watch_resources_response__pack(&response, *ret_bytes);
	return 0;
}

static void leave(struct watcher *w)
{
	list_remove(&w->link);
	free(w);
}

void health_tell(struct dra *dra)
{
	owned(free) uint8_t *bytes = NULL;
	size_t size = 0;

	if (list_empty(&dra->watchers))
		return;
	if (pack(dra, &bytes, &size) < 0)
		return; /* at the next look */
	list_for_each(link, &dra->watchers)
	{
		struct watcher *w = list_entry(link, struct watcher, link);

		if (grpc_send(w->call, (struct grpc_bytes){bytes, size}, true) == 0)
			continue;
		grpc_end(w->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		leave(w);
	}
}

void health_watch(struct grpc_call *call, struct grpc_bytes request, void *owner)
{
	struct dra *dra = owner;
	struct watcher *w;

	(void)request;
	if (dra->finishing) {
		grpc_end(call, GRPC_UNAVAILABLE, ends);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		grpc_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	w->call = call;
	grpc_call_keep(call, w);
	list_append(&dra->watchers, &w->link);
	health_tell(dra);
}

void health_watch_gone(struct grpc_call *call, void *owner)
{
	(void)owner;
	leave(grpc_call_kept(call));
}

void health_end(struct dra *dra)
{
	list_for_each(link, &dra->watchers)
	{
		struct watcher *w = list_entry(link, struct watcher, link);

		grpc_end(w->call, GRPC_UNAVAILABLE, ends);
		leave(w);
	}
}

void health_forget(struct dra *dra)
{
	list_for_each(link, &dra->watchers) leave(list_entry(link, struct watcher, link));
}
