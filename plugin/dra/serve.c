/* SPDX-License-Identifier: Apache-2.0 */
/* The kubelet's calls (k8s.io.kubelet.pkg.apis.dra.v1). Each claim of a call has an answer of its
 * own: one that cannot be prepared keeps no other from starting. */
#include <string.h>

#include "base/words.h"
#include "kube/json.h"
#include "kube/proto/dra.pb-c.h"
#include "plugin/dra/inside.h"
#include "plugin/dra/places.h"
#include "plugin/dra/reading.h"

enum { SOME = 32 }; /* claims that are prepared in a round of the loop */

static const char unprepared[] = "the claim was unprepared meanwhile";

struct asking;

/* A claim of a call. */
struct asked_claim {
	struct asking *asking;
	struct reading reading;
	struct parts_ask places; /* where parts are made for it */
	cJSON *object;		 /* as it was read, meanwhile; owned */
	struct claim *claim;	 /* as it was read, until it is prepared; owned */
	struct unseen_claim unseen;
	struct list making, leaving;
	const char *uid;
	bool waits; /* for one of these */
	bool failed;
	struct fault why;
};

struct asking {
	struct list link;
	struct dra *dra;
	struct grpc_call *call;
	Dra__NodePrepareResourcesRequest *request;
	struct asked_claim *claims;
	size_t left; /* claims without a result, and one more while the call is taken apart */
};

/* It waits for nothing any more. */
static void stop(struct asked_claim *claim)
{
	reading_forget(&claim->reading);
	parts_unwant(&claim->places);
	cJSON_Delete(take(claim->object));
	unseen_forget(&claim->unseen);
	list_remove(&claim->making);
	list_remove(&claim->leaving);
	claim_free(take(claim->claim));
}

static void asking_free(struct asking *a)
{
	list_remove(&a->link);
	for (size_t i = 0; i < a->request->n_claims; i++)
		stop(&a->claims[i]);
	dra__node_prepare_resources_request__free_unpacked(a->request, NULL);
	free(a->claims);
	free(a);
}

enum { CDI_NAME = 160 };

/* A claim's part of the answer. */
struct answer_row {
	Dra__NodePrepareResourcesResponse__ClaimsEntry entry;
	Dra__NodePrepareResourceResponse value;
	Dra__Device device[CLAIM_RESULTS], *devices[CLAIM_RESULTS];
	char cdi[CLAIM_RESULTS][CDI_NAME], request[CLAIM_RESULTS][WORDS_LABEL_MAX + 1];
	char *cdis[CLAIM_RESULTS], *requests[CLAIM_RESULTS];
};

/* A container names the request, and the kubelet compares both: of a list of alternatives
 * ("main/sub") that is "main". */
static void fill_request(const char *request, char name[WORDS_LABEL_MAX + 1])
{
	snprintf(name, WORDS_LABEL_MAX + 1, "%.*s", (int)strcspn(request, "/"), request);
}

static void fill_device(const struct journal_claim *entry, uint32_t index, struct answer_row *row)
{
	const struct claim_result *result = &entry->claim->result[index];
	Dra__Device *device = &row->device[index];

	snprintf(row->cdi[index], CDI_NAME, "%s=%s-%u", entry->kind, entry->claim->uid, index);
	row->cdis[index] = row->cdi[index];
	fill_request(result->request, row->request[index]);
	row->requests[index] = row->request[index];
	dra__device__init(device);
	device->request_names = &row->requests[index];
	device->n_request_names = 1;
	device->pool_name = result->pool;
	device->device_name = result->device;
	device->cdi_device_ids = &row->cdis[index];
	device->n_cdi_device_ids = 1;
	device->share_id = result->share_id ? result->share_id : (char *)"";
}

static void fill_row(const struct dra *dra, struct asked_claim *claim, struct answer_row *row)
{
	const struct journal_claim *entry = journal_find(&dra->journal, claim->uid);

	dra__node_prepare_resources_response__claims_entry__init(&row->entry);
	dra__node_prepare_resource_response__init(&row->value);
	row->entry.key = (char *)claim->uid;
	row->entry.value = &row->value;
	/* Unprepared meanwhile, by another call. */
	if (!claim->failed && !(entry && prepare_is_done(entry))) {
		claim->failed = true;
		fault_set(&claim->why, -EAGAIN, "%s", unprepared);
	}
	if (claim->failed || !entry) {
		row->value.error = claim->why.text;
		return;
	}
	for (uint32_t i = 0; i < entry->claim->results; i++) {
		row->devices[i] = &row->device[i];
		fill_device(entry, i, row);
	}
	row->value.devices = row->devices;
	row->value.n_devices = entry->claim->results;
}

static void answer(struct asking *a)
{
	Dra__NodePrepareResourcesResponse response = DRA__NODE_PREPARE_RESOURCES_RESPONSE__INIT;
	size_t n = a->request->n_claims;
	owned(free) struct answer_row *rows = calloc(n + 1, sizeof(*rows));
	owned(free) Dra__NodePrepareResourcesResponse__ClaimsEntry **list =
		calloc(n + 1, sizeof(struct Dra__NodePrepareResourcesResponse__ClaimsEntry *));

	if (!rows || !list) {
		grpc_end(a->call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
	} else {
		for (size_t i = 0; i < n; i++) {
			fill_row(a->dra, &a->claims[i], &rows[i]);
			list[i] = &rows[i].entry;
		}
		response.claims = list;
		response.n_claims = n;
		serve_answer(a->call, &response.base);
	}
	asking_free(a);
}

static void refuse(struct asked_claim *claim)
{
	const struct plugin *p = claim->asking->dra->plugin;

	claim->failed = true;
	log_warning("claim.refused", "uid=%s reason=%s node=%s", log_text(claim->uid).text,
		    log_text(claim->why.text).text, p->node);
}

static void settle(struct asking *a)
{
	if (--a->left == 0)
		answer(a);
}

static void settle_claim(struct asked_claim *claim)
{
	claim->waits = false;
	list_remove(&claim->leaving);
	settle(claim->asking);
}

/* Another call may have prepared it while this one asked. */
static bool is_prepared(const struct asked_claim *claim)
{
	const struct journal_claim *entry = journal_find(&claim->asking->dra->journal, claim->uid);

	return entry && prepare_is_done(entry);
}

static void on_seen(struct unseen_claim *waits, const char *problem)
{
	struct asked_claim *claim = container_of(waits, struct asked_claim, unseen);
	struct dra *dra = claim->asking->dra;

	if (!problem) {
		list_append(&dra->making, &claim->making);
		loop_arm(&dra->soon, 0);
		return;
	}
	fault_set(&claim->why, -EAGAIN, "the claim's pods cannot be read: %s", problem);
	refuse(claim);
	settle_claim(claim);
}

/* Waits for its pods, if they are not known. */
static int take_claim(struct asked_claim *claim, const cJSON *object)
{
	struct dra *dra = claim->asking->dra;
	int r = prepare_read(dra, object, claim->uid, &claim->claim, &claim->why);

	if (r < 0)
		return r;
	claim->unseen.seen = on_seen;
	r = unseen_wait(dra, &claim->unseen, object);
	if (r < 0)
		return fault_set(&claim->why, r, "out of memory");
	if (r == 0)
		on_seen(&claim->unseen, NULL);
	return 0;
}

static void on_made(struct parts_ask *ask, const char *problem)
{
	struct asked_claim *claim = container_of(ask, struct asked_claim, places);
	owned(cJSON_Delete) cJSON *object = take(claim->object);

	if (problem)
		fault_set(&claim->why, -EBUSY, "the part of the claim is not made: %s", problem);
	if (!is_prepared(claim)) {
		if (!problem && take_claim(claim, object) == 0)
			return;
		refuse(claim);
	}
	settle_claim(claim);
}

/* First come the parts that it needs. */
static int take_read(struct asked_claim *claim, const cJSON *object)
{
	struct dra *dra = claim->asking->dra;

	places_find(dra, object, claim->uid, &claim->places);
	if (!claim->places.count)
		return take_claim(claim, object);
	claim->object = cJSON_Duplicate(object, true);
	if (!claim->object)
		return fault_set(&claim->why, -ENOMEM, "out of memory");
	claim->places.done = on_made;
	parts_want(dra->plugin->parts, &claim->places);
	return 0;
}

static void on_read(struct reading *reading, const char *problem, const cJSON *object)
{
	struct asked_claim *claim = container_of(reading, struct asked_claim, reading);

	if (problem)
		fault_set(&claim->why, -EAGAIN, "the claim cannot be read: %s", problem);
	if (!is_prepared(claim)) {
		if (!problem && take_read(claim, object) == 0)
			return;
		refuse(claim);
	}
	settle_claim(claim);
}

/* A part that has been made for the claim, or that another claim had when this one was read: that
 * one may end before this one is prepared. */
static void each_place(const struct asked_claim *claim,
		       void (*each)(void *owner, const char *device), void *owner)
{
	const struct parts_ask *places = &claim->places;
	const struct claim *read = claim->claim;
	char name[SLICES_NAME];

	for (uint32_t i = 0; places->made && i < places->count; i++) {
		slices_device_name(places->id[i], name);
		each(owner, name);
	}
	for (uint32_t i = 0; read && !read->is_admin && i < read->results; i++)
		each(owner, read->result[i].device);
}

void serve_each_place(const struct dra *dra, void (*each)(void *owner, const char *device),
		      void *owner)
{
	list_for_each(link, (struct list *)&dra->asking)
	{
		const struct asking *a = list_entry(link, struct asking, link);

		for (size_t i = 0; i < a->request->n_claims; i++)
			each_place(&a->claims[i], each, owner);
	}
}

/* A list brings hundreds at once; meanwhile other tenants wait for meted. */
void serve_some(struct dra *dra)
{
	for (int i = 0; i < SOME && !list_empty(&dra->making); i++) {
		struct asked_claim *claim =
			list_entry(dra->making.next, struct asked_claim, making);

		list_remove(&claim->making);
		if (!is_prepared(claim) && prepare_claim(dra, take(claim->claim), &claim->why) < 0)
			refuse(claim);
		settle_claim(claim);
	}
	if (!list_empty(&dra->making))
		loop_arm(&dra->soon, 0);
}

/* Names go into a path, a file's name and a path again. */
static bool is_claim(const Dra__Claim *claim)
{
	return words_is_label(claim->namespace_) && words_is_subdomain(claim->name) &&
	       words_is_label(claim->uid) && strlen(claim->uid) < CLAIM_UID;
}

static void ask(struct asked_claim *claim, const Dra__Claim *said)
{
	struct dra *dra = claim->asking->dra;
	const struct journal_claim *entry = journal_find(&dra->journal, said->uid);

	/* Without its file no container can start, and the runtime would not say why. */
	if (entry && prepare_is_done(entry)) {
		if (prepare_mend(dra, entry, &claim->why) == 0)
			return;
	} else if (!is_claim(said)) {
		fault_set(&claim->why, -EINVAL, "'%s' is not the name of a claim",
			  words_show(said->name).text);
	} else if (!dra->plugin->api) {
		fault_set(&claim->why, -ENOTCONN,
			  "meted has no API server to read the claim from: see kubeconfig in "
			  "mete-config(5)");
	} else {
		claim->reading = (struct reading){.namespace = said->namespace_,
						  .name = said->name,
						  .uid = said->uid,
						  .read = on_read};
		claim->asking->left++;
		claim->waits = true;
		reading_ask(dra, &claim->reading);
		return;
	}
	refuse(claim);
}

static void on_prepare(struct grpc_call *call, struct grpc_bytes bytes, void *owner)
{
	struct asking *a = calloc(1, sizeof(*a));

	if (a)
		a->request =
			dra__node_prepare_resources_request__unpack(NULL, bytes.size, bytes.data);
	if (a && a->request)
		a->claims = calloc(a->request->n_claims + 1, sizeof(*a->claims));
	if (!a || !a->request || !a->claims) {
		grpc_end(call, GRPC_INVALID_ARGUMENT, "accepted: a NodePrepareResourcesRequest");
		if (a && a->request)
			dra__node_prepare_resources_request__free_unpacked(a->request, NULL);
		free(a);
		return;
	}
	a->dra = owner;
	a->call = call;
	a->left = 1;
	grpc_call_keep(call, a);
	list_append(&a->dra->asking, &a->link);
	for (size_t i = 0; i < a->request->n_claims; i++) {
		a->claims[i] = (struct asked_claim){.asking = a, .uid = a->request->claims[i]->uid};
		ask(&a->claims[i], a->request->claims[i]);
	}
	settle(a);
}

/* The kubelet asks again. */
static void on_prepare_gone(struct grpc_call *call, void *owner)
{
	asking_free(grpc_call_kept(call));
	reading_continue(owner);
}

void serve_forget(struct dra *dra)
{
	list_for_each(link, &dra->asking) asking_free(list_entry(link, struct asking, link));
}

struct undone_row {
	Dra__NodeUnprepareResourcesResponse__ClaimsEntry entry;
	Dra__NodeUnprepareResourceResponse value;
	struct fault why;
};

/* Of calls that the kubelet has given up, say, and whose ends come later: it would be prepared for
 * nobody. */
static void find_waiting(const struct dra *dra, const char *uid, struct list *ret_leaving)
{
	list_init(ret_leaving);
	list_for_each(link, (struct list *)&dra->asking)
	{
		const struct asking *a = list_entry(link, struct asking, link);

		for (size_t i = 0; i < a->request->n_claims; i++)
			if (a->claims[i].waits && strcmp(a->claims[i].uid, uid) == 0)
				list_append(ret_leaving, &a->claims[i].leaving);
	}
}

static void withdraw(struct dra *dra, const char *uid)
{
	struct list leaving;

	find_waiting(dra, uid, &leaving);
	/* What follows from one may settle another, which has left the list then. */
	while (!list_empty(&leaving)) {
		struct asked_claim *claim = list_entry(leaving.next, struct asked_claim, leaving);

		stop(claim);
		fault_set(&claim->why, -EAGAIN, "%s", unprepared);
		refuse(claim);
		settle_claim(claim);
		reading_continue(dra);
	}
}

/* A claim that is not known needs nothing. */
static void undo(struct dra *dra, const Dra__Claim *said, struct undone_row *row)
{
	struct journal_claim *entry;

	withdraw(dra, said->uid);
	entry = journal_find(&dra->journal, said->uid);
	dra__node_unprepare_resources_response__claims_entry__init(&row->entry);
	dra__node_unprepare_resource_response__init(&row->value);
	row->entry.key = said->uid;
	row->entry.value = &row->value;
	if (!entry || prepare_undo(dra, entry, &row->why) == 0)
		return;
	row->value.error = row->why.text;
	log_warning("claim.left", "uid=%s reason=%s", log_text(said->uid).text,
		    log_text(row->why.text).text);
}

static void answer_undone(struct dra *dra, struct grpc_call *call,
			  const Dra__NodeUnprepareResourcesRequest *request)
{
	Dra__NodeUnprepareResourcesResponse response = DRA__NODE_UNPREPARE_RESOURCES_RESPONSE__INIT;
	size_t n = request->n_claims;
	owned(free) struct undone_row *rows = calloc(n + 1, sizeof(*rows));
	owned(free) Dra__NodeUnprepareResourcesResponse__ClaimsEntry **list =
		calloc(n + 1, sizeof(struct Dra__NodeUnprepareResourcesResponse__ClaimsEntry *));

	if (!rows || !list) {
		grpc_end(call, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		undo(dra, request->claims[i], &rows[i]);
		list[i] = &rows[i].entry;
	}
	response.claims = list;
	response.n_claims = n;
	serve_answer(call, &response.base);
	/* Their devices may be free for slots now. */
	serve_changed(dra->plugin);
}

static void on_unprepare(struct grpc_call *call, struct grpc_bytes bytes, void *owner)
{
	Dra__NodeUnprepareResourcesRequest *request =
		dra__node_unprepare_resources_request__unpack(NULL, bytes.size, bytes.data);

	if (!request) {
		grpc_end(call, GRPC_INVALID_ARGUMENT, "accepted: a NodeUnprepareResourcesRequest");
		return;
	}
	answer_undone(owner, call, request);
	dra__node_unprepare_resources_request__free_unpacked(request, NULL);
}

#define SERVICE "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"

const struct grpc_method serve_methods[] = {
	{SERVICE "NodePrepareResources", on_prepare, on_prepare_gone},
	{SERVICE "NodeUnprepareResources", on_unprepare, NULL},
	{"/v1.DRAResourceHealth/NodeWatchResources", health_watch, health_watch_gone},
	{"/v1alpha1.DRAResourceHealth/NodeWatchResources", health_watch, health_watch_gone},
};
const size_t serve_method_count = ARRAY_SIZE(serve_methods);
