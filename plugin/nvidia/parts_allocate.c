/* SPDX-License-Identifier: Apache-2.0 */
/* The kubelet's Allocates that name places: answered when the parts are there. */
#include <string.h>

#include "base/words.h"
#include "kube/proto/deviceplugin.pb-c.h"
#include "mig/place.h"
#include "plugin/nvidia/parts_inside.h"

struct allocate {
	struct parts_ask ask;
	struct grpc_call *call;
	struct serving *serving;
};

static void refuse(struct grpc_call *call, const struct serving *s, const char *problem)
{
	struct fault why;

	fault_set(&why, 0, "invalid allocation request for \"%s\": %s", s->resource, problem);
	log_warning("part.refused", "resource=%s reason=%s", s->resource, log_text(problem).text);
	grpc_end(call, GRPC_UNKNOWN, why.text); /* as NVIDIA's plugin's errors are */
}

static void answer(struct grpc_call *call, struct serving *s, struct parts_ask *ask)
{
	V1beta1__ContainerAllocateRequest said = V1BETA1__CONTAINER_ALLOCATE_REQUEST__INIT;
	char *ids[PARTS_WANTS];

	for (uint32_t i = 0; i < ask->count; i++)
		ids[i] = ask->id[i];
	said.devices_ids = ids;
	said.n_devices_ids = ask->count;
	as_nvidia_allocate(s, call, &said);
	serve_changed(s->plugin);
}

static void on_done(struct parts_ask *ask, const char *problem)
{
	owned(free) struct allocate *a = container_of(ask, struct allocate, ask);

	grpc_call_keep(a->call, NULL);
	if (problem)
		refuse(a->call, a->serving, problem);
	else
		answer(a->call, a->serving, ask);
}

bool parts_await(struct parts *parts, struct serving *s, struct grpc_call *call,
		 const V1beta1__ContainerAllocateRequest *said)
{
	struct allocate *a;
	bool any = false;

	for (size_t i = 0; parts && i < said->n_devices_ids; i++)
		any |= mig_place_is_name(said->devices_ids[i]);
	if (!any || !parts_is_on(parts))
		return false;
	a = said->n_devices_ids <= PARTS_WANTS ? calloc(1, sizeof(*a)) : NULL;
	if (!a) {
		grpc_end(call, GRPC_RESOURCE_EXHAUSTED,
			 "out of memory, or more parts than a container may have");
		return true;
	}
	*a = (struct allocate){
		.ask = {.written_later = true, .done = on_done}, .call = call, .serving = s};
	for (; a->ask.count < said->n_devices_ids; a->ask.count++)
		snprintf(a->ask.id[a->ask.count], IDS_BYTES, "%.63s",
			 said->devices_ids[a->ask.count]);
	grpc_call_keep(call, a);
	parts_want(parts, &a->ask);
	return true;
}

void parts_call_gone(struct grpc_call *call)
{
	owned(free) struct allocate *a = grpc_call_kept(call);

	if (!a)
		return;
	grpc_call_keep(call, NULL);
	parts_unwant(&a->ask);
}

void parts_abandon(struct parts *parts, const struct serving *s)
{
	if (!parts)
		return;
	list_for_each(link, &parts->asks)
	{
		struct parts_ask *ask = list_entry(link, struct parts_ask, link);
		struct allocate *a = container_of(ask, struct allocate, ask);

		if (ask->done != on_done || (s && a->serving != s))
			continue;
		parts_forget(ask);
		grpc_call_keep(a->call, NULL);
		grpc_end(a->call, GRPC_UNAVAILABLE, "meted is stopping");
		free(a);
	}
}
