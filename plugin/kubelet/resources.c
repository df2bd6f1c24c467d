/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/resources.h"

#include "plugin/kubelet/resources_find.h"

enum {
	WITHIN_S = 5,
	FOUND_MAX = 8,
	PAUSE_MS = 20, /* the kubelet accepts 100 calls a second, and refuses more */
};

struct resources {
	struct grpc_client *client;
	struct grpc_asked *asked;    /* NULL: no call is in progress */
	struct list waiting, served; /* for the next call; of the present one */
	struct loop_timer pause;
	bool pausing, telling;
};

static void start(struct resources *r);

static void tell(struct resources_ask *ask, const char *problem,
		 const struct resources_found *found, size_t count)
{
	list_remove(&ask->link);
	ask->answered(ask, problem, found, count);
}

static void tell_all(struct resources *r, const char *problem)
{
	while (!list_empty(&r->served))
		tell(list_entry(r->served.next, struct resources_ask, link), problem, NULL, 0);
}

static void look_for(const V1__ListPodResourcesResponse *list, struct resources_ask *ask)
{
	struct resources_found found[FOUND_MAX];

	tell(ask, NULL, found,
	     resources_find(list, ask->resource, ask->ids, ask->count, found, FOUND_MAX));
}

static void on_answered(void *owner, enum grpc_status status, const char *message,
			struct grpc_bytes answer)
{
	struct resources *r = owner;
	V1__ListPodResourcesResponse *list = NULL;

	r->asked = NULL;
	r->telling = true; /* a request made inside an answer waits for the next call */
	if (status == GRPC_RESOURCE_EXHAUSTED) {
		/* Too many calls: these requests go on waiting, with newer ones. */
		while (!list_empty(&r->served)) {
			struct list *last = r->served.prev;

			list_remove(last);
			list_prepend(&r->waiting, last);
		}
	} else if (status == GRPC_OK) {
		list = v1__list_pod_resources_response__unpack(NULL, answer.size, answer.data);
		while (list && !list_empty(&r->served))
			look_for(list, list_entry(r->served.next, struct resources_ask, link));
		if (list)
			v1__list_pod_resources_response__free_unpacked(list, NULL);
		tell_all(r, "the kubelet's answer cannot be understood");
	} else {
		tell_all(r, message && *message ? message : "the kubelet does not answer");
	}
	r->telling = false;
	if (status == GRPC_OK) {
		start(r);
	} else if (!list_empty(&r->waiting)) {
		r->pausing = true;
		loop_arm(&r->pause, PAUSE_MS * 1000000ull);
	}
}

static void start(struct resources *r)
{
	if (r->asked || r->pausing || r->telling || list_empty(&r->waiting))
		return;
	while (!list_empty(&r->waiting)) {
		struct list *first = r->waiting.next;

		list_remove(first);
		list_append(&r->served, first);
	}
	if (grpc_ask(r->client, "/v1.PodResourcesLister/List", (struct grpc_bytes){0},
		     WITHIN_S * 1000000000ull, on_answered, r, &r->asked) < 0)
		tell_all(r, "out of memory");
}

static void on_pause_over(struct loop_timer *timer)
{
	struct resources *r = container_of(timer, struct resources, pause);

	r->pausing = false;
	start(r);
}

void resources_want(struct resources *r, struct resources_ask *ask)
{
	list_append(&r->waiting, &ask->link);
	start(r);
}

void resources_forget(struct resources_ask *ask)
{
	list_remove(&ask->link);
}

int resources_open(struct loop *loop, const char *socket, struct resources **ret_resources,
		   struct fault *why)
{
	struct resources *r = calloc(1, sizeof(*r));
	int e;

	if (!r)
		return fault_set(why, -ENOMEM, "out of memory");
	list_init(&r->waiting);
	list_init(&r->served);
	e = loop_timer_init(loop, &r->pause, on_pause_over);
	if (e == 0)
		e = grpc_client_open(loop, socket, &r->client, why);
	else
		fault_set(why, e, "out of memory");
	if (e < 0) {
		resources_close(r);
		return e;
	}
	*ret_resources = r;
	return 0;
}

static void on_closed(struct loop_timer *timer)
{
	struct resources *r = container_of(timer, struct resources, pause);

	free(r);
}

void resources_close(struct resources *r)
{
	if (!r)
		return;
	grpc_client_close(r->client);
	r->telling = true;
	while (!list_empty(&r->waiting))
		tell(list_entry(r->waiting.next, struct resources_ask, link), "meted is stopping",
		     NULL, 0);
	tell_all(r, "meted is stopping");
	if (r->pause.open)
		loop_timer_close(&r->pause, on_closed);
	else
		on_closed(&r->pause);
}
