/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/joint.h"

#include <string.h>

#include "base/text.h"
#include "plugin/config/portion.h"
#include "plugin/dra/inside.h"
#include "plugin/pods.h"

struct search {
	const struct dra *dra;
	const struct claim *claim;
	struct joint *joint;
	/* Who uses the first member beside the claim, for a sentence. */
	const struct pod *pod;
	const char *container;
	struct fault *why;
	int result;
};

static int blame(const struct search *s, const struct claim *other, const char *problem)
{
	return fault_set(s->why, -EINVAL, "container %s of pod %s uses the claims %s and %s%s",
			 s->container, s->pod->name, other->name, s->claim->name, problem);
}

static bool is_member(const struct joint *joint, const struct journal_claim *entry)
{
	for (uint32_t i = 0; i < joint->count; i++)
		if (joint->member[i] == entry)
			return true;
	return false;
}

static int add(struct search *s, struct journal_claim *entry)
{
	if (is_member(s->joint, entry))
		return 0;
	if (s->joint->count == JOINT_CLAIMS)
		return blame(s, entry->claim,
			     ", and they have too many devices for one program; accepted: at "
			     "most 16");
	s->joint->member[s->joint->count++] = entry;
	return 0;
}

/* All that have one tenant with it. */
static int add_all(struct search *s, const struct journal_claim *partner)
{
	int r = 0;

	list_for_each(link, (struct list *)&s->dra->journal.all)
	{
		struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (r == 0 && prepare_is_done(entry) && entry->tenant == partner->tenant)
			r = add(s, entry);
	}
	return r;
}

/* One that is to be prepared again makes the tenant then. */
static const struct journal_claim *find(const struct search *s, const char *name)
{
	list_for_each(link, (struct list *)&s->dra->journal.all)
	{
		const struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (prepare_is_done(entry) && strcmp(entry->claim->name, name) == 0 &&
		    strcmp(entry->claim->namespace, s->claim->namespace) == 0)
			return entry;
	}
	return NULL;
}

static void look_at_container(struct search *s, const struct pod *pod, const cJSON *names)
{
	const cJSON *name;

	cJSON_ArrayForEach(name, names)
	{
		const struct journal_claim *partner =
			cJSON_IsString(name) && strcmp(name->valuestring, s->claim->name) != 0
				? find(s, name->valuestring)
				: NULL;

		if (!partner || s->result < 0)
			continue;
		if (!s->pod) {
			s->pod = pod;
			s->container = names->string;
		}
		s->result = add_all(s, partner);
	}
}

static void look(void *owner, const struct pod *pod)
{
	struct search *s = owner;
	const cJSON *names;

	if (!pods_uses_claim(pod, s->claim->namespace, s->claim->name))
		return;
	cJSON_ArrayForEach(names, pod->claims)
	{
		if (pods_list_has(names, s->claim->name))
			look_at_container(s, pod, names);
	}
}

/* A pod that has a member without the claim may run already. */
static void look_for_strays(void *owner, const struct pod *pod)
{
	struct search *s = owner;

	if (s->result < 0 || pods_uses_claim(pod, s->claim->namespace, s->claim->name))
		return;
	for (uint32_t i = 0; s->result == 0 && i < s->joint->count; i++) {
		const struct claim *member = s->joint->member[i]->claim;

		if (pods_uses_claim(pod, member->namespace, member->name))
			s->result = fault_set(
				s->why, -EINVAL,
				"container %s of pod %s uses the claims %s and %s, which makes "
				"them one share, and pod %s uses %s alone; accepted: claims that "
				"no other pod uses, or one claim for several devices",
				s->container, s->pod->name, member->name, s->claim->name, pod->name,
				member->name);
	}
}

static bool has_device(const struct claim *claim, uint32_t device)
{
	for (uint32_t i = 0; i < claim->devices; i++)
		if (claim->of[i] == device)
			return true;
	return false;
}

/* `one`: the claim, or another member. */
static int check_devices(const struct search *s, const struct claim *one,
			 const struct claim *member)
{
	char problem[160];

	for (uint32_t i = 0; i < one->devices; i++) {
		uint32_t at = one->of[i];

		if (!has_device(member, at))
			continue;
		snprintf(problem, sizeof(problem),
			 ", which are two shares of device %s; accepted: one claim, for the sum "
			 "of both or for several devices",
			 s->dra->plugin->host->device[at].uuid);
		return blame(s, member, problem);
	}
	return 0;
}

/* An amount of bytes as a person writes it. */
static struct text_bytes show(const char *text)
{
	struct text_bytes shown;
	size_t length = text ? strlen(text) : 0;

	if (length && text[length - 1] == 'B' && text[0] >= '0' && text[0] <= '9')
		return text_bytes(strtoull(text, NULL, 10));
	snprintf(shown.text, sizeof(shown.text), "%s", text ? text : "");
	return shown;
}

static int check_share(const struct search *s, const struct claim *member)
{
	char problem[240];

	if (member->is_admin != s->claim->is_admin)
		return blame(s, member,
			     ", one with adminAccess and one without; accepted: the claims in "
			     "different containers");
	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		if (text_same(member->texts[i], s->claim->texts[i]))
			continue;
		snprintf(problem, sizeof(problem),
			 ", whose %s differs ('%s' and '%s'); accepted: the same of each device "
			 "that a container has, or the claims in different containers",
			 share_key(i), show(member->texts[i]).text, show(s->claim->texts[i]).text);
		return blame(s, member, problem);
	}
	return 0;
}

int joint_find(const struct dra *dra, const struct claim *claim, struct joint *ret_joint,
	       struct fault *why)
{
	struct search s = {.dra = dra, .claim = claim, .joint = ret_joint, .why = why};

	*ret_joint = (struct joint){.count = 0};
	if (!dra->plugin->pods)
		return 0;
	pods_each(dra->plugin->pods, look, &s);
	for (uint32_t i = 0; s.result == 0 && i < ret_joint->count; i++) {
		const struct claim *member = ret_joint->member[i]->claim;

		s.result = check_devices(&s, claim, member);
		/* They were of different tenants until now: nobody has compared them. */
		for (uint32_t k = 0; s.result == 0 && k < i; k++)
			s.result = check_devices(&s, ret_joint->member[k]->claim, member);
		if (s.result == 0)
			s.result = check_share(&s, member);
	}
	if (s.result == 0 && ret_joint->count)
		pods_each(dra->plugin->pods, look_for_strays, &s);
	return s.result;
}

static uint32_t add_devices(const struct claim *claim, uint32_t of[HOST_DEVICES], uint32_t count)
{
	for (uint32_t i = 0; i < claim->devices && count < HOST_DEVICES; i++)
		of[count++] = claim->of[i];
	return count;
}

uint32_t joint_devices(const struct dra *dra, const struct journal_claim *entry,
		       uint32_t of[HOST_DEVICES])
{
	uint32_t count = add_devices(entry->claim, of, 0);

	list_for_each(link, (struct list *)&dra->journal.all)
	{
		const struct journal_claim *other = list_entry(link, struct journal_claim, link);

		if (other != entry && entry->tenant && other->tenant == entry->tenant)
			count = add_devices(other->claim, of, count);
	}
	return count;
}

static void put(struct journal_claim *member, uint32_t tenant, const char *folder)
{
	member->tenant = tenant;
	member->joint = true;
	snprintf(member->folder, sizeof(member->folder), "%s", folder);
}

static int write_member(struct dra *dra, struct journal_claim *member, struct fault *why)
{
	int r = prepare_write_cdi(dra, member, why);

	return r < 0 ? r : journal_write(&dra->journal, member, dra->plugin->host, why);
}

int joint_move(struct dra *dra, struct joint *joint, struct journal_claim *entry, struct fault *why)
{
	int r = 0;

	entry->joint = joint->count;
	for (uint32_t i = 0; i < joint->count; i++) {
		struct journal_claim *member = joint->member[i];

		joint->was[i].tenant = member->tenant;
		snprintf(joint->was[i].folder, HOST_FOLDER_MAX, "%s", member->folder);
		put(member, entry->tenant, entry->folder);
	}
	for (uint32_t i = 0; r == 0 && i < joint->count; i++) {
		r = journal_take(joint->member[i]);
		r = r < 0 ? fault_set(why, r, "out of memory")
			  : write_member(dra, joint->member[i], why);
	}
	return r;
}

void joint_back(struct dra *dra, struct joint *joint)
{
	struct fault why;

	for (uint32_t i = 0; i < joint->count; i++)
		if (joint->was[i].tenant)
			put(joint->member[i], joint->was[i].tenant, joint->was[i].folder);
	for (uint32_t i = 0; i < joint->count; i++) {
		if (!joint->was[i].tenant)
			continue;
		/* Its former tenant has what annotations made of it: all is set again. */
		joint->member[i]->changing = true;
		if (write_member(dra, joint->member[i], &why) < 0)
			log_warning("claim.left", "reason=%s", log_text(why.text).text);
		adjust_claim(dra, joint->member[i]);
	}
}

void joint_settle(struct dra *dra, const struct joint *joint)
{
	const struct host *host = dra->plugin->host;

	for (uint32_t i = 0; i < joint->count; i++) {
		bool is_ended = false;

		for (uint32_t k = 0; k < i; k++)
			is_ended |= joint->was[k].tenant == joint->was[i].tenant;
		if (!is_ended)
			host->end(host->daemon, joint->was[i].tenant);
		adjust_claim(dra, joint->member[i]);
	}
}
