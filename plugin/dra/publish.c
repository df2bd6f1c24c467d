/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the node's ResourceSlices as the devices are. All of them are watched: the kubelet deletes
 * them when it starts, and anybody may edit them. What differs is written again, all slices of the
 * pool with a new generation, one request at a time; while nothing differs, nothing is written.
 *
 * Versions of objects are numbers that grow (Kubernetes 1.35 says so of all its own): an event that
 * is older than the answer to our own request is ignored.
 */
#include "plugin/dra/publish.h"

#include <inttypes.h>
#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "kube/json.h"
#include "plugin/dra/counters.h"
#include "plugin/nvidia/parts.h"

enum {
	PAUSE_MOST_S = 30,
	QUIET_S = 60, /* after which a difference is repaired at once again */
	CONFLICTS = 2,
	OLD_S = 600, /* after which a server that was too old may be a newer one */
};

/* Writing again would not help. */
#define TOO_OLD                                                                                    \
	"the API server drops what makes a device shareable; accepted: Kubernetes 1.36 or newer, " \
	"or "                                                                                      \
	"the feature gate DRAConsumableCapacity"

void publish_rest(struct publish *u, uint64_t ns)
{
	u->again_waits = true;
	loop_arm(&u->again, ns);
}

/* A device that changes hands is news once. */
static void tell_withheld(struct publish *u)
{
	const struct plugin *p = u->dra->plugin;

	for (uint32_t i = 0; i < p->host->devices; i++) {
		const char *reason = dra_withheld(u->dra, i);

		if (reason == u->withheld[i])
			continue;
		u->withheld[i] = reason;
		if (reason)
			log_warning("device.withheld", "uuid=%s reason=%s", p->host->device[i].uuid,
				    log_text(reason).text);
		else
			log_info("device.published", "uuid=%s", p->host->device[i].uuid);
	}
}

static void tell_unplaced(struct publish *u)
{
	const char *unplaced = publish_unplaced(u);

	if (unplaced && unplaced != u->unplaced)
		log_warning("slices.unplaced", "reason=%s", log_text(unplaced).text);
	u->unplaced = unplaced;
}

static void complain(struct publish *u, const char *sentence)
{
	if (u->complaint && strcmp(u->complaint, sentence) == 0)
		return;
	free(u->complaint);
	u->complaint = strdup(sentence);
	log_warning("slices.unwritten", "reason=%s", log_text(sentence).text);
}

/* It is tried again from time to time, and said once. */
static void note_counters(struct publish *u, const cJSON *object)
{
	bool dropped = !counters_are_in(object);

	if (!u->counted)
		return;
	u->dra->server.drops |= dropped;
	if (dropped && !u->uncounted)
		log_warning("slices.uncounted",
			    "reason=\"the API server drops the counters of MIG's parts, "
			    "which are published without: it has the feature gate "
			    "DRAPartitionableDevices off\"");
	u->uncounted = dropped;
}

/* A server whose feature is off drops what it does not know, and a newer one may add what we do not
 * know. To write the same again would be answered in the same way, without end. */
static void note_kept(struct publish *u, const cJSON *object)
{
	const char *at, *more = "";

	/* Those have a sentence and a time of their own. */
	if (u->counted && u->uncounted)
		return;
	at = slices_difference(u->sent, object);
	if (at && strcmp(at, "taints") == 0)
		more = ", and gives out devices that are cordoned or not well: it has the feature "
		       "gate DRADeviceTaints off";
	if (at && !text_same(at, u->unkept))
		log_warning(
			"slices.unkept",
			"field=%s reason=\"the API server drops or adds this field of slices%s\"",
			log_text(at).text, more);
	free(take(u->unkept));
	u->unkept = at ? strdup(at) : NULL;
	known_keep(u, object);
}

static void on_written(void *owner, int status, const char *problem, const cJSON *object)
{
	struct publish *u = owner;

	u->asked = NULL;
	if (!problem) {
		u->failures = 0;
		if (u->sent)
			slices_drop_times(u->times, u->sent);
		known_wrote(u, object);
		note_counters(u, object);
		if (!u->deleting && known_lost_fields(object)) {
			complain(u, TOO_OLD);
			publish_rest(u, OLD_S * 1000000000ull);
			return;
		}
		if (u->sent)
			note_kept(u, object);
		free(take(u->complaint));
		publish_consider(u);
		return;
	}
	/* The watch shows what is there instead. */
	if (status == 404)
		known_forget(u, u->writing);
	/* Once or twice it is a watch that lags behind; again and again it is somebody else's
	 * object that has the name, or somebody who always writes first. */
	if (status != 404 && (status != 409 || u->failures >= CONFLICTS))
		complain(u, problem);
	if (u->failures < 5)
		u->failures++;
	publish_rest(u, least(PAUSE_MOST_S, 1ull << u->failures) * 1000000000ull);
}

static void send_request(struct publish *u, const char *verb, const char *name, const char *body)
{
	char path[400];
	struct api_request request = {.verb = verb, .path = path, .body = body};

	snprintf(path, sizeof(path), "/apis/resource.k8s.io/v1/resourceslices%s%s",
		 strcmp(verb, "POST") == 0 ? "" : "/", strcmp(verb, "POST") == 0 ? "" : name);
	snprintf(u->writing, sizeof(u->writing), "%s", name);
	u->deleting = strcmp(verb, "DELETE") == 0;
	u->gone_version = 0;
	cJSON_Delete(take(u->sent));
	if (api_ask(u->dra->plugin->api, &request, on_written, u, &u->asked) < 0) {
		publish_rest(u, 1000000000);
		return;
	}
	u->writes++;
}

/* The found object's version goes along, so that nothing newer is overwritten. */
static void write_slice(struct publish *u, cJSON *slice, const struct publish_known *found)
{
	cJSON *meta = cJSON_GetObjectItemCaseSensitive(slice, "metadata");
	owned(free) char *body = NULL;
	char version[24];

	snprintf(version, sizeof(version), "%" PRIu64, found ? found->version : 0);
	if (found && !cJSON_AddStringToObject(meta, "resourceVersion", version))
		return;
	slices_put_times(u->times, slice);
	body = cJSON_PrintUnformatted(slice);
	u->counted = counters_are_in(slice);
	if (!body) {
		publish_rest(u, 1000000000);
		return;
	}
	send_request(u, found ? "PUT" : "POST", json_text(meta, "name"), body);
	u->sent = cJSON_Duplicate(slice, true);
}

/* Are the devices not what they were at the last round? */
static bool is_news(struct publish *u)
{
	owned(cJSON_Delete) cJSON *wanted = publish_wanted(u, 0);
	char *text = wanted ? cJSON_PrintUnformatted(wanted) : NULL;
	bool same = text && u->wanted && strcmp(text, u->wanted) == 0;

	if (!text)
		return false;
	free(u->wanted);
	u->wanted = text;
	return !same;
}

/* Somebody may undo what we write, again and again: a repair has a time before which it does not
 * begin. */
static bool may_repair(struct publish *u)
{
	uint64_t now = loop_now_ns();

	if (now < u->not_before_ns) {
		/* Not publish_rest(): news do not wait. */
		loop_arm(&u->again, u->not_before_ns - now);
		return false;
	}
	u->pause_s = now - u->not_before_ns > QUIET_S * 1000000000ull
			     ? 1
			     : (uint32_t)least(PAUSE_MOST_S, 2 * u->pause_s);
	u->not_before_ns = now + u->pause_s * 1000000000ull;
	return true;
}

/* Behind the last one, which somebody else has written, comes the first: the slices that have it
 * are written, too. */
static int64_t next_generation(const struct publish *u)
{
	int64_t next = known_newest(u) + 1;

	return next < PUBLISH_GENERATIONS ? next : 1;
}

/* A new round, if its time has come. */
static bool begin(struct publish *u)
{
	if (!is_news(u) && !may_repair(u))
		return false;
	u->generation = next_generation(u);
	u->in_round = true;
	log_info("slices.differ", "pool=%s generation=%" PRId64, u->dra->pool, u->generation);
	return true;
}

static void write_next(struct publish *u, cJSON *wanted)
{
	const char *other = known_extra(u, wanted);
	cJSON *slice;

	cJSON_ArrayForEach(slice, wanted)
	{
		const struct publish_known *found = known_of(u, slice);

		if (found && found->generation == u->generation && known_is(u, found, slice))
			continue;
		write_slice(u, slice, found);
		return;
	}
	u->counted = false;
	if (other)
		send_request(u, "DELETE", other, NULL);
	else
		u->in_round = false;
}

/* What is said of parts depends on the server's version. */
static bool awaits_version(const struct publish *u)
{
	const struct host *host = u->dra->plugin->host;

	if (u->dra->server.answered)
		return false;
	for (uint32_t i = 0; i < host->devices; i++)
		if (host->device[i].gpu_instance >= 0)
			return true;
	return parts_is_on(u->dra->plugin->parts);
}

static bool may_write(const struct publish *u)
{
	return register_is_known(u->dra) && u->listed && *u->node_uid && !u->asked &&
	       !u->again_waits && !awaits_version(u);
}

bool publish_is_empty(const struct publish *u)
{
	return u && u->listed && !u->asked && list_empty(&u->known);
}

void publish_consider(struct publish *u)
{
	owned(cJSON_Delete) cJSON *wanted = NULL;

	if (!u)
		return;
	tell_withheld(u);
	tell_unplaced(u);
	if (!*u->node_uid)
		publish_find_node(u);
	if (!may_write(u))
		return;
	wanted = publish_wanted(u, u->generation);
	if (!wanted) {
		publish_rest(u, 1000000000);
		return;
	}
	slices_forget_times(&u->times, wanted);
	if (known_agrees(u, wanted)) {
		u->in_round = false;
		return;
	}
	if (!u->in_round) {
		if (!begin(u))
			return;
		cJSON_Delete(wanted);
		wanted = publish_wanted(u, u->generation);
	}
	if (wanted)
		write_next(u, wanted);
}
