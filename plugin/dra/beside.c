/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process has one share, so a container has one claim of ours. Of a second one it would see no
 * device: its pod does not start, and its events say why. A claim for several devices shows them
 * all.
 */
#include <string.h>

#include "plugin/dra/inside.h"
#include "plugin/pods.h"

struct search {
	const struct dra *dra;
	const struct claim *claim;
	struct fault *why;
	int result;
};

/* A claim that is prepared here. */
static bool is_ours(const struct search *s, const char *name)
{
	list_for_each(link, (struct list *)&s->dra->journal.all)
	{
		const struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (entry->phase != JOURNAL_ENDING && strcmp(entry->claim->name, name) == 0 &&
		    strcmp(entry->claim->namespace, s->claim->namespace) == 0)
			return true;
	}
	return false;
}

static int judge(const struct search *s, const struct pod *pod, const cJSON *names)
{
	const cJSON *name;

	cJSON_ArrayForEach(name, names)
	{
		if (!cJSON_IsString(name) || strcmp(name->valuestring, s->claim->name) == 0 ||
		    !is_ours(s, name->valuestring))
			continue;
		return fault_set(s->why, -EINVAL,
				 "container %s of pod %s uses the claims %s and %s, and would see "
				 "the devices of one of them; accepted: one claim for several "
				 "devices, or the claims in different containers",
				 names->string, pod->name, name->valuestring, s->claim->name);
	}
	return 0;
}

static void look(void *owner, const struct pod *pod)
{
	struct search *s = owner;
	const cJSON *names;

	if (!pods_uses_claim(pod, s->claim->namespace, s->claim->name))
		return;
	cJSON_ArrayForEach(names, pod->claims)
	{
		if (s->result == 0 && pods_list_has(names, s->claim->name))
			s->result = judge(s, pod, names);
	}
}

int beside_check(const struct dra *dra, const struct claim *claim, struct fault *why)
{
	struct search s = {dra, claim, why, 0};

	if (dra->plugin->pods)
		pods_each(dra->plugin->pods, look, &s);
	return s.result;
}
