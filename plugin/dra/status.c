/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a claim's status tells of its devices (`status.devices`): that they are ready, and which
 * share of them its containers have, as annotations have changed it. Whoever reads the claim need
 * not ask the node.
 *
 * It is applied (server-side apply): what has not changed is not written, and other drivers'
 * entries stay. A claim is prepared first, and told of when no other waits to be read. Where the
 * rights are missing, everything else goes on.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/least.h"
#include "kube/json.h"
#include "plugin/dra/inside.h"

enum {
	SOON_MS = 100,
	PAUSE_MOST_S = 30,
	REFUSED_S = 600, /* after which somebody may have given us the rights */
};

struct status {
	struct dra *dra;
	struct loop_timer again;
	bool waits; /* for that */
	struct api_asked *asked;
	char uid[CLAIM_UID]; /* of the claim that is being told of, */
	char *text;	     /* and what */
	uint32_t failures;
	char *complaint;
};

static void rest(struct status *s, uint64_t ms)
{
	s->waits = true;
	loop_arm(&s->again, ms * 1000000ull);
}

/* Why the device is not ready; NULL: it is. */
static const char *find_trouble(const struct dra *dra, const struct journal_claim *entry,
				uint32_t device)
{
	const struct host *host = dra->plugin->host;

	if (entry->absent || device >= host->devices)
		return "DeviceMissing";
	return dra->plugin->offer[device].healthy && !host->device[device].gone ? NULL
										: "DeviceUnhealthy";
}

static bool add_condition(cJSON *row, const char *trouble, int64_t since)
{
	cJSON *list = cJSON_AddArrayToObject(row, "conditions"), *one = cJSON_CreateObject();
	time_t at = (time_t)since;
	struct tm parts;
	char text[32];

	if (!list || !cJSON_AddItemToArray(list, one)) {
		cJSON_Delete(one);
		return false;
	}
	gmtime_r(&at, &parts);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
	return cJSON_AddStringToObject(one, "type", "Ready") &&
	       cJSON_AddStringToObject(one, "status", trouble ? "False" : "True") &&
	       cJSON_AddStringToObject(one, "reason", trouble ? trouble : "Prepared") &&
	       cJSON_AddStringToObject(one, "message", "") &&
	       cJSON_AddStringToObject(one, "lastTransitionTime", text);
}

static bool add_part(cJSON *data, const char *name, uint32_t milli)
{
	char text[16];

	snprintf(text, sizeof(text), "%g%%", milli / 10.0);
	return cJSON_AddStringToObject(data, name, text);
}

/* The share as it is in force, defaults included. */
static bool add_data(cJSON *row, const struct journal_claim *entry, uint64_t device_bytes)
{
	static const char *const classes[] = {"interactive", "standard", "batch"};
	cJSON *data = cJSON_AddObjectToObject(row, "data");
	uint64_t bytes = device_bytes;
	struct share share;
	char memory[24];

	if (entry->claim->is_admin)
		return data && cJSON_AddTrueToObject(data, "adminAccess");
	share_init(&share);
	/* They have been accepted before. */
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		if (entry->in_force[i])
			best_effort(share_set(&share, share_key(i), entry->in_force[i]));
	best_effort(share_bytes(&share.memory, device_bytes, &bytes));
	snprintf(memory, sizeof(memory), "%" PRIu64, bytes);
	return data && cJSON_AddStringToObject(data, "memory", memory) &&
	       add_part(data, "guarantee", share.guarantee_milli) &&
	       add_part(data, "cap", share.cap_milli) &&
	       cJSON_AddNumberToObject(data, "weight", share.weight) &&
	       cJSON_AddStringToObject(data, "class", classes[share.class]) &&
	       cJSON_AddStringToObject(data, "swap", share.swap ? "auto" : "off");
}

/* The time of a change outlives meted, as the condition does. */
static void note(const struct status *s, struct journal_claim *entry, uint32_t i, bool is_ready)
{
	struct journal_ready *ready = &entry->ready[i];
	struct fault why;

	if (ready->since && ready->is_not == !is_ready)
		return;
	*ready = (struct journal_ready){.since = time(NULL), .is_not = !is_ready};
	best_effort(journal_write(&s->dra->journal, entry, s->dra->plugin->host, &why));
}

static bool add_device(const struct status *s, cJSON *list, struct journal_claim *entry, uint32_t i)
{
	const struct claim_result *result = &entry->claim->result[i];
	const struct host *host = s->dra->plugin->host;
	const char *trouble = find_trouble(s->dra, entry, result->index);
	uint64_t bytes =
		result->index < host->devices ? host->device[result->index].total_bytes : 0;
	cJSON *row = cJSON_CreateObject();

	if (!cJSON_AddItemToArray(list, row)) {
		cJSON_Delete(row);
		return false;
	}
	note(s, entry, i, !trouble);
	return cJSON_AddStringToObject(row, "driver", s->dra->driver) &&
	       cJSON_AddStringToObject(row, "pool", result->pool) &&
	       cJSON_AddStringToObject(row, "device", result->device) &&
	       (!result->share_id || cJSON_AddStringToObject(row, "shareID", result->share_id)) &&
	       add_condition(row, trouble, entry->ready[i].since) && add_data(row, entry, bytes);
}

/* The object to be applied; NULL: out of memory. */
static char *describe(const struct status *s, struct journal_claim *entry)
{
	owned(cJSON_Delete) cJSON *object = cJSON_CreateObject();
	cJSON *meta, *status, *list;
	bool good;

	if (!object || !cJSON_AddStringToObject(object, "apiVersion", "resource.k8s.io/v1") ||
	    !cJSON_AddStringToObject(object, "kind", "ResourceClaim"))
		return NULL;
	meta = cJSON_AddObjectToObject(object, "metadata");
	/* Another claim of this name has another UID, and is left alone. */
	good = meta && cJSON_AddStringToObject(meta, "name", entry->claim->name) &&
	       cJSON_AddStringToObject(meta, "uid", entry->claim->uid);
	status = good ? cJSON_AddObjectToObject(object, "status") : NULL;
	list = status ? cJSON_AddArrayToObject(status, "devices") : NULL;
	good = list;
	for (uint32_t i = 0; good && i < entry->claim->results; i++)
		good = add_device(s, list, entry, i);
	return good ? cJSON_PrintUnformatted(object) : NULL;
}

static void tell_next(struct status *s);

static void complain(struct status *s, const char *sentence)
{
	if (s->complaint && strcmp(s->complaint, sentence) == 0)
		return;
	free(s->complaint);
	s->complaint = strdup(sentence);
	log_warning("claims.untold", "reason=%s", log_text(sentence).text);
}

/* In `... "NAME": SENTENCE` the name is the user's, and may have these letters: "fluid". */
static bool is_about_uid(const char *problem)
{
	const char *name = strchr(problem, '"'), *end = name ? strchr(name + 1, '"') : NULL;

	return strcasestr(end ? end : problem, "uid");
}

/* It is gone, or it is another claim, or no longer has the device; or its parameters were sent with
 * blanks: the server drops them on the way, and takes that for a change. A conflict that is not
 * about the UID is with others who write to the claim just now. */
static bool is_needless(int status, const char *problem)
{
	return status == 404 || status == 422 || (status == 409 && is_about_uid(problem));
}

static void on_told(void *owner, int status, const char *problem, const cJSON *object)
{
	struct status *s = owner;
	struct journal_claim *entry = journal_find(&s->dra->journal, s->uid);
	owned(free) char *text = take(s->text);

	(void)object;
	s->asked = NULL;
	if (!problem || is_needless(status, problem)) {
		s->failures = 0;
		if (!problem)
			free(take(s->complaint));
		if (problem && entry)
			log_info("claim.untold", "claim=%s/%s reason=%s", entry->claim->namespace,
				 entry->claim->name, log_text(problem).text);
		if (entry) {
			free(entry->told);
			entry->told = take(text);
		}
		tell_next(s);
		return;
	}
	complain(s, problem);
	if (entry)
		entry->untold = true;
	if (s->failures < 5)
		s->failures++;
	rest(s, 1000 * (status == 403 ? REFUSED_S : least(PAUSE_MOST_S, 1ull << s->failures)));
}

static bool send_request(struct status *s, const struct journal_claim *entry, const char *text)
{
	char path[700];
	struct api_request request = {.verb = "PATCH",
				      .path = path,
				      .content = "application/apply-patch+yaml",
				      .body = text};

	snprintf(path, sizeof(path),
		 "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s/status"
		 "?fieldManager=meted&force=true",
		 entry->claim->namespace, entry->claim->name);
	snprintf(s->uid, sizeof(s->uid), "%s", entry->claim->uid);
	return api_ask(s->dra->plugin->api, &request, on_told, s, &s->asked) == 0;
}

/* Is it told of now? One that says what it said is not. */
static bool tell(struct status *s, struct journal_claim *entry)
{
	owned(free) char *text = describe(s, entry);

	entry->untold = false;
	if (text && entry->told && strcmp(text, entry->told) == 0)
		return false;
	if (text && send_request(s, entry, text)) {
		s->text = take(text);
		return true;
	}
	entry->untold = true;
	rest(s, 1000);
	return true;
}

static void tell_next(struct status *s)
{
	struct dra *dra = s->dra;

	if (s->asked || s->waits)
		return;
	if (dra->queue.reads || !list_empty(&dra->queue.waiting) || !list_empty(&dra->making)) {
		rest(s, SOON_MS);
		return;
	}
	list_for_each(link, &dra->journal.all)
	{
		struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (entry->untold && entry->phase == JOURNAL_DONE && tell(s, entry))
			return;
	}
}

static void on_again(struct loop_timer *timer)
{
	struct status *s = container_of(timer, struct status, again);

	s->waits = false;
	tell_next(s);
}

void status_changed(struct dra *dra, struct journal_claim *entry)
{
	entry->untold = true;
	/* After the kubelet has its answer. */
	if (dra->status && !dra->status->asked && !dra->status->waits)
		rest(dra->status, SOON_MS);
}

void status_changed_all(struct dra *dra)
{
	list_for_each(link, &dra->journal.all)
		status_changed(dra, list_entry(link, struct journal_claim, link));
}

const char *status_complaint(const struct dra *dra)
{
	return dra->status->complaint;
}

int status_open(struct dra *dra, struct fault *why)
{
	struct status *s = calloc(1, sizeof(*s));

	if (!s || loop_timer_init(dra->plugin->host->loop, &s->again, on_again) < 0) {
		free(s);
		return fault_set(why, -ENOMEM, "no timer");
	}
	s->dra = dra;
	dra->status = s;
	status_changed_all(dra);
	return 0;
}

static void on_again_closed(struct loop_timer *timer)
{
	free(container_of(timer, struct status, again));
}

void status_close(struct dra *dra)
{
	struct status *s = take(dra->status);

	if (!s)
		return;
	if (s->asked)
		api_forget(s->asked);
	free(s->text);
	free(s->complaint);
	loop_timer_close(&s->again, on_again_closed);
}
