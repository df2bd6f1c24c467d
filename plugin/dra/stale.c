/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims that nobody unprepares: the kubelet forgot them (its state was removed), or their pods
 * were deleted by force while it was away. From time to time each prepared claim that no pod of
 * this node uses is looked up, one after the other; one that is gone, has another UID or no longer
 * has these devices is undone. While a pod uses it, it stays as it is.
 */
#include <string.h>

#include "plugin/dra/inside.h"
#include "plugin/pods.h"

static void next(struct dra *dra);

static void on_found(void *owner, int status, unused const char *problem, const cJSON *object)
{
	struct dra *dra = owner;
	struct journal_claim *entry = journal_find(&dra->journal, dra->stale_uid);
	struct fault why;

	dra->stale = NULL;
	/* A server that cannot answer proves nothing; nor does what it said before the claim was
	 * prepared again. */
	if (entry && entry->tenant == dra->stale_tenant &&
	    claim_is_gone(status, object, entry->claim)) {
		log_warning("claim.stale", "claim=%s/%s uid=%s", entry->claim->namespace,
			    entry->claim->name, entry->claim->uid);
		if (prepare_undo(dra, entry, &why) < 0)
			log_warning("claim.left", "reason=%s", log_text(why.text).text);
		else
			serve_changed(dra->plugin);
	}
	next(dra);
}

static void ask(struct dra *dra, struct journal_claim *entry)
{
	char path[700];
	struct api_request request = {.verb = "GET", .path = path};

	snprintf(dra->stale_uid, sizeof(dra->stale_uid), "%s", entry->claim->uid);
	dra->stale_tenant = entry->tenant;
	snprintf(path, sizeof(path), "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s",
		 entry->claim->namespace, entry->claim->name);
	/* Without memory the round ends here; there is another. */
	best_effort(api_ask(dra->plugin->api, &request, on_found, dra, &dra->stale));
}

struct search {
	const struct claim *claim;
	bool found;
};

static void look(void *owner, const struct pod *pod)
{
	struct search *s = owner;

	s->found |= pods_uses_claim(pod, s->claim->namespace, s->claim->name);
}

/* Another claim of its name is another claim: who uses that one does not use this one. */
static bool is_alone(const struct dra *dra, const struct claim *claim)
{
	uint32_t count = 0;

	list_for_each(link, (struct list *)&dra->journal.all)
	{
		const struct claim *other = list_entry(link, struct journal_claim, link)->claim;

		count += strcmp(other->name, claim->name) == 0 &&
			 strcmp(other->namespace, claim->namespace) == 0;
	}
	return count == 1;
}

static bool is_used(const struct dra *dra, const struct claim *claim)
{
	const struct pods *pods = dra->plugin->pods;
	struct search s = {.claim = claim};

	if (!pods || !pods_known(pods) || !is_alone(dra, claim))
		return false;
	pods_each(pods, look, &s);
	return s.found;
}

/* The one after the one that was asked about last, which may be gone. */
static void next(struct dra *dra)
{
	list_for_each(link, &dra->journal.all)
	{
		struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (entry->looked >= dra->rounds)
			continue;
		entry->looked = dra->rounds;
		if (is_used(dra, entry->claim))
			continue;
		ask(dra, entry);
		return;
	}
}

void stale_look(struct dra *dra)
{
	if (dra->stale || !dra->plugin->api)
		return;
	dra->rounds++;
	next(dra);
}

void stale_close(struct dra *dra)
{
	if (dra->stale)
		api_forget(take(dra->stale));
}
