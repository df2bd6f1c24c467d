/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim's share changes while it is used, by the annotations of the pods that use it: what
 * kube-scheduler counted stays, and the rest is theirs within what `most` allows. Pods that share a
 * claim have to agree. A mistake changes nothing, and is an event of the claim's pods.
 */
#include <string.h>

#include "base/text.h"
#include "base/words.h"
#include "plugin/config/portion.h"
#include "plugin/dra/inside.h"
#include "plugin/pods.h"

enum { ENTRIES_MAX = 64 };

struct gathered {
	const struct dra *dra;
	const struct journal_claim *entry;
	struct annotation entries[ENTRIES_MAX];
	const struct pod *by[ENTRIES_MAX]; /* who says so */
	size_t count, pods;
	int result; /* < 0: `why` says what is wrong */
	struct fault *why;
};

static bool uses_itself(const struct pod *pod, const struct claim *claim)
{
	return pods_uses_claim(pod, claim->namespace, claim->name);
}

/* Or a claim that has the same tenant. */
static bool uses(const struct dra *dra, const struct pod *pod, const struct journal_claim *entry)
{
	if (!entry->joint || uses_itself(pod, entry->claim))
		return uses_itself(pod, entry->claim);
	list_for_each(link, (struct list *)&dra->journal.all)
	{
		const struct journal_claim *other = list_entry(link, struct journal_claim, link);

		if (other->tenant == entry->tenant && uses_itself(pod, other->claim))
			return true;
	}
	return false;
}

/* "DOMAIN/..." is the claim's; "CONTAINER.DOMAIN/..." could only be one container's. */
static int judge_key(const char *key, const char *domain, struct fault *why)
{
	const char *found = strstr(key, domain);

	if (!found || found[strlen(domain)] != '/')
		return 0;
	if (found == key)
		return 1;
	if (found[-1] != '.')
		return 0;
	return fault_set(why, -EINVAL, "%s: the containers that use a claim share it; accepted: %s",
			 words_show(key).text, found);
}

static int take_one(struct gathered *g, const struct pod *pod, const cJSON *item)
{
	const char *domain = g->dra->plugin->config->domain;
	int r = judge_key(item->string, domain, g->why);

	if (r <= 0)
		return r;
	for (size_t i = 0; i < g->count; i++) {
		if (strcmp(g->entries[i].key, item->string) != 0)
			continue;
		if (strcmp(g->entries[i].value, item->valuestring) == 0)
			return 0;
		return fault_set(g->why, -EINVAL,
				 "%s: the pods %s and %s use claim %s and say '%s' and '%s'; "
				 "accepted: the same from both",
				 item->string, g->by[i]->name, pod->name, g->entry->claim->name,
				 words_show(g->entries[i].value).text,
				 words_show(item->valuestring).text);
	}
	if (g->count == ENTRIES_MAX)
		return fault_set(g->why, -E2BIG, "the pod has more than %d annotations of %s",
				 ENTRIES_MAX, domain);
	g->by[g->count] = pod;
	g->entries[g->count++] = (struct annotation){item->string, item->valuestring};
	return 0;
}

static void gather(void *owner, const struct pod *pod)
{
	struct gathered *g = owner;
	const cJSON *item;

	if (!uses(g->dra, pod, g->entry))
		return;
	g->pods++;
	cJSON_ArrayForEach(item, pod->annotations)
	{
		if (g->result == 0 && cJSON_IsString(item))
			g->result = take_one(g, pod, item);
	}
}

struct users {
	const struct dra *dra;
	const struct journal_claim *entry;
	void (*seen)(void *owner, const struct pod *pod);
	void *owner;
};

static void see(void *owner, const struct pod *pod)
{
	const struct users *users = owner;

	if (uses(users->dra, pod, users->entry))
		users->seen(users->owner, pod);
}

void dra_each_pod(const struct dra *dra, uint32_t tenant,
		  void (*seen)(void *owner, const struct pod *pod), void *owner)
{
	struct users users = {.dra = dra, .seen = seen, .owner = owner};

	if (!dra || !dra->plugin->pods)
		return;
	list_for_each(link, (struct list *)&dra->journal.all)
	{
		users.entry = list_entry(link, struct journal_claim, link);
		if (users.entry->tenant != tenant)
			continue;
		/* Claims that are joint have the same pods. */
		pods_each(dra->plugin->pods, see, &users);
		return;
	}
}

/* For events_pod(). */
struct teller {
	struct dra *dra;
	const struct journal_claim *entry;
};

static void tell(void *owner, const struct pod *pod)
{
	const struct teller *teller = owner;

	if (uses(teller->dra, pod, teller->entry))
		events_pod(teller->dra->plugin, pod, "ShareUnchanged", teller->entry->complaint);
}

/* Each sentence once; "": all is well. */
static void complain(struct dra *dra, struct journal_claim *entry, const char *sentence)
{
	struct teller teller = {dra, entry};

	if (text_same(entry->complaint, *sentence ? sentence : NULL))
		return;
	free(entry->complaint);
	entry->complaint = *sentence ? strdup(sentence) : NULL;
	if (!entry->complaint)
		return;
	log_warning("claim.unchanged", "claim=%s/%s reason=%s", entry->claim->namespace,
		    entry->claim->name, log_text(sentence).text);
	pods_each(dra->plugin->pods, tell, &teller);
}

/* The record is written before the tenant has them. If meted is killed in between, nobody knows
 * whether it has, and all are set again; a mode is no part of a claim's share. */
static int put_in_force(struct dra *dra, struct journal_claim *entry,
			char *const texts[SHARE_FIELDS], struct fault *why)
{
	struct in_force share = {entry->tenant, entry->in_force, &entry->refusal};
	uint32_t fields = entry->changing ? IN_FORCE_ALL & ~(1u << PORTION_mode)
					  : in_force_differing(&share, texts);
	const struct host *host = dra->plugin->host;
	struct fault other;
	int r = fields ? in_force_refused(&share, texts, why) : 0;

	if (!fields || r < 0)
		return r;
	entry->changing = true;
	r = journal_write(&dra->journal, entry, host, why);
	if (r < 0)
		return r;
	r = in_force_set(dra->plugin, &share, texts, fields, why);
	entry->changing = false;
	status_changed(dra, entry);
	/* Otherwise all are set again after a restart. */
	best_effort(journal_write(&dra->journal, entry, host, &other));
	return r;
}

static int change(struct dra *dra, struct journal_claim *entry, const struct gathered *g,
		  struct fault *why)
{
	struct claim_device devices[HOST_DEVICES];
	struct config_share portion;
	struct claim_place place;
	char *texts[SHARE_FIELDS];
	int r;

	dra_place(dra, devices, &portion, &place);
	r = claim_adjust(entry->claim, &place, g->entries, g->count, dra->plugin->config->domain,
			 texts, why);
	if (r < 0)
		return r;
	r = put_in_force(dra, entry, texts, why);
	portion_texts_free(texts);
	return r;
}

void adjust_claim(struct dra *dra, struct journal_claim *entry)
{
	const struct plugin *p = dra->plugin;
	struct fault why = {.text = ""};
	struct gathered g = {.dra = dra, .entry = entry, .why = &why};

	/* Who only looks has no share that could change. */
	if (entry->claim->is_admin)
		return;
	/* What an unknown pod said remains in force. */
	if (!p->pods || !pods_known(p->pods) || !prepare_is_done(entry) || !p->config->has_mete)
		return;
	pods_each(p->pods, gather, &g);
	if (!g.pods)
		return;
	if (g.result == 0)
		g.result = change(dra, entry, &g, &why);
	complain(dra, entry, g.result < 0 ? why.text : "");
}

void dra_follow(struct dra *dra)
{
	if (!dra)
		return;
	unseen_look(dra);
	list_for_each(link, &dra->journal.all)
		adjust_claim(dra, list_entry(link, struct journal_claim, link));
}

void dra_pod_changed(struct dra *dra, const struct pod *pod)
{
	if (!dra)
		return;
	unseen_look(dra);
	list_for_each(link, &dra->journal.all)
	{
		struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (uses(dra, pod, entry))
			adjust_claim(dra, entry);
	}
}
