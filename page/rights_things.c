/* SPDX-License-Identifier: Apache-2.0 */
/* Which pods and claims somebody may get: first all of a namespace, and else one by one. */
#include <string.h>

#include "page/rights_inside.h"

static const uint64_t second_ns = 1000000000;

bool rights_fresh(const struct rights_thing *thing, uint64_t now_ns)
{
	uint64_t most_ns = thing->of->table->looks->host->believed_ns;

	if (thing->said == RIGHTS_NO && most_ns > RIGHTS_REFUSED_S * second_ns)
		most_ns = RIGHTS_REFUSED_S * second_ns;
	return thing->said != RIGHTS_UNSAID && now_ns - thing->said_ns < most_ns;
}

bool rights_hold_good(const struct rights_thing *thing, uint64_t now_ns)
{
	uint64_t most_ns = thing->of->table->looks->host->believed_ns + RIGHTS_BEYOND_S * second_ns;

	return thing->said == RIGHTS_YES && now_ns - thing->said_ns < most_ns;
}

bool rights_failed(const struct rights_thing *thing, uint64_t now_ns)
{
	return thing->failed_ns && now_ns - thing->failed_ns < RIGHTS_AGAIN_S * second_ns;
}

void rights_say(struct rights_thing *thing, enum rights_word word)
{
	if (thing->said == RIGHTS_YES && word != RIGHTS_YES)
		thing->of->edition++;
	thing->said = word;
	thing->said_ns = loop_now_ns();
	thing->failed_ns = 0;
}

static void expire(struct rights_thing *thing, uint64_t now_ns)
{
	if (thing->said == RIGHTS_YES && !rights_hold_good(thing, now_ns))
		rights_say(thing, RIGHTS_UNSAID);
}

void rights_expire(struct rights *rights, uint64_t now_ns)
{
	expire(&rights->who, now_ns);
	expire(&rights->node, now_ns);
	for (uint32_t i = 0; i < rights->things; i++)
		expire(rights->thing[i], now_ns);
}

static void on_told(void *owner, int r, const char *user, const char *name)
{
	struct rights_thing *thing = owner;

	(void)user;
	(void)name;
	thing->asked = NULL;
	if (r < 0)
		thing->failed_ns = loop_now_ns();
	else
		rights_say(thing, r ? RIGHTS_NO : RIGHTS_YES);
	rights_go_on(thing->of);
}

static const struct right kinds[] = {
	[RIGHTS_NODE] = {.group = "",
			 .resource = "nodes",
			 .subresource = "metrics",
			 .of_node = true},
	[RIGHTS_POD] = {.group = "", .resource = "pods", .subresource = ""},
	[RIGHTS_CLAIM] = {.group = "resource.k8s.io",
			  .resource = "resourceclaims",
			  .subresource = ""},
};

static int ask(struct rights_thing *thing)
{
	const struct page_host *host = thing->of->table->looks->host;
	struct right right = kinds[thing->kind];
	char namespace[WIRE_TEXT_MAX + 1] = "";
	const char *slash = thing->name ? strchr(thing->name, '/') : NULL;
	int r;

	if (thing->name)
		snprintf(namespace, sizeof(namespace), "%.*s",
			 slash ? (int)(slash - thing->name) : WIRE_TEXT_MAX, thing->name);
	right.namespace = namespace;
	right.name = slash ? slash + 1 : "";
	r = host->may(host->daemon, thing->of->user, &right, on_told, thing, &thing->asked);
	if (r < 0)
		thing->failed_ns = loop_now_ns();
	return r;
}

static struct rights_thing *find(const struct rights *rights, enum rights_kind kind,
				 const char *name)
{
	for (uint32_t i = 0; i < rights->things; i++)
		if (rights->thing[i]->kind == kind && strcmp(rights->thing[i]->name, name) == 0)
			return rights->thing[i];
	return NULL;
}

static struct rights_thing *find_or_make(struct rights *rights, enum rights_kind kind,
					 const char *name)
{
	struct rights_thing *thing = find(rights, kind, name);

	if (thing || rights->things == RIGHTS_THINGS)
		return thing;
	thing = calloc(1, sizeof(*thing));
	if (!thing)
		return NULL;
	*thing = (struct rights_thing){.of = rights, .kind = kind, .name = strdup(name)};
	if (thing->name)
		return rights->thing[rights->things++] = thing;
	free(thing);
	return NULL;
}

static void drop(struct rights_thing *thing)
{
	const struct page_host *host = thing->of->table->looks->host;

	host->forget(host->daemon, thing->asked);
	free(thing->name);
	free(thing);
}

void rights_drop_things(struct rights *rights)
{
	const struct page_host *host = rights->table->looks->host;

	host->forget(host->daemon, take(rights->node.asked));
	while (rights->things)
		drop(rights->thing[--rights->things]);
}

/* Those whose tenants are gone. */
static void prune(struct rights *rights)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < rights->things; i++)
		if (rights->thing[i]->wanted)
			rights->thing[kept++] = rights->thing[i];
		else
			drop(rights->thing[i]);
	rights->things = kept;
}

/* What has been found of what a viewer may see. */
struct step {
	struct rights *rights;
	uint64_t now_ns;
	uint32_t under_way;
	bool later, failed;
};

/* Whether it is known, and what it is. */
static enum rights_word want(struct step *step, struct rights_thing *thing)
{
	if (!thing) { /* too many, or without memory: they are not seen */
		step->failed = true;
		return RIGHTS_NO;
	}
	if (rights_fresh(thing, step->now_ns))
		return thing->said;
	if (thing->asked || rights_failed(thing, step->now_ns)) {
		step->later |= thing->asked != NULL;
		step->failed |= !thing->asked;
	} else if (step->under_way == RIGHTS_AT_ONCE) {
		step->later = true;
	} else if (ask(thing) < 0) {
		step->failed = true;
	} else {
		step->later = true;
		step->under_way++;
	}
	return RIGHTS_UNSAID;
}

static void want_named(struct step *step, enum rights_kind kind, const char *name)
{
	struct rights_thing *thing = find_or_make(step->rights, kind, name);
	bool first = !thing || !thing->wanted;

	if (thing)
		thing->wanted = true;
	if (first)
		want(step, thing);
}

/* What is known of it stays so while the namespace is asked about. */
static void keep(struct step *step, enum rights_kind kind, const char *name)
{
	struct rights_thing *thing = find(step->rights, kind, name);

	if (thing)
		thing->wanted = true;
}

/* A tenant's name in parts: NAMESPACE/POD/CONTAINER, or NAMESPACE/CLAIM+CLAIM. */
struct parts {
	enum rights_kind kind;
	char namespace[WIRE_TEXT_MAX + 1], text[WIRE_TEXT_MAX + 1];
	char *next; /* in `text`: the rest of the pod's or the claims' names; NULL: none is left */
};

/* False: it is no container's and no claim's. One that was cut could be taken for another one. */
static bool split(const char *tenant, struct parts *ret_parts)
{
	const char *slash = strchr(tenant, '/'), *second = slash ? strchr(slash + 1, '/') : NULL;
	size_t size = strlen(tenant);

	if (!slash || slash == tenant || size >= WIRE_TEXT_MAX ||
	    (second && strchr(second + 1, '/')))
		return false;
	ret_parts->kind = second ? RIGHTS_POD : RIGHTS_CLAIM;
	snprintf(ret_parts->namespace, sizeof(ret_parts->namespace), "%.*s", (int)(slash - tenant),
		 tenant);
	snprintf(ret_parts->text, sizeof(ret_parts->text), "%.*s",
		 second ? (int)(second - slash - 1) : WIRE_TEXT_MAX, slash + 1);
	ret_parts->next = ret_parts->text;
	return *ret_parts->text != '\0';
}

/* The next pod or claim, as NAMESPACE/NAME. */
static bool next_part(struct parts *parts, char *ret_name, size_t room)
{
	char *part = parts->next, *plus;

	if (!part)
		return false;
	plus = parts->kind == RIGHTS_CLAIM ? strchr(part, '+') : NULL;
	if (plus)
		*plus = '\0';
	parts->next = plus ? plus + 1 : NULL;
	snprintf(ret_name, room, "%s/%s", parts->namespace, part);
	return true;
}

static void want_tenant(struct step *step, const char *tenant)
{
	char name[2 * WIRE_TEXT_MAX + 2];
	struct rights_thing *all;
	struct parts parts;
	bool all_known;

	if (!split(tenant, &parts))
		return;
	want_named(step, parts.kind, parts.namespace);
	all = find(step->rights, parts.kind, parts.namespace);
	all_known = all && rights_fresh(all, step->now_ns);
	while (next_part(&parts, name, sizeof(name)))
		if (all_known && all->said == RIGHTS_NO)
			want_named(step, parts.kind, name);
		else if (!all_known)
			keep(step, parts.kind, name);
}

static uint32_t count_asked(const struct rights *rights)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rights->things; i++)
		n += rights->thing[i]->asked != NULL;
	return n;
}

int rights_step_things(struct rights *rights, uint64_t now_ns)
{
	struct looks *looks = rights->table->looks;
	struct step step = {.rights = rights, .now_ns = now_ns, .under_way = count_asked(rights)};
	int r = looks_gather(looks, false);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < rights->things; i++)
		rights->thing[i]->wanted = false;
	if (want(&step, &rights->node) == RIGHTS_NO)
		for (size_t i = 0; i < looks->rows.count; i++) {
			const struct wire_message *row = &looks->rows.row[i];

			if (row->code == WIRE_tenant_row && !row->tenant_row.outer &&
			    row->tenant_row.owner == looks->host->owner)
				want_tenant(&step, row->tenant_row.name.text);
		}
	/* While it is asked whether all is seen, what was known stays so. */
	if (rights_fresh(&rights->node, now_ns))
		prune(rights);
	return step.later ? RIGHTS_LATER : step.failed ? -EIO : 0;
}

bool rights_asks(const struct rights *rights)
{
	return rights->node.asked || count_asked(rights);
}

bool rights_any(const struct rights *rights, uint64_t now_ns)
{
	if (rights_hold_good(&rights->node, now_ns))
		return true;
	for (uint32_t i = 0; i < rights->things; i++)
		if (rights_hold_good(rights->thing[i], now_ns))
			return true;
	return false;
}

bool rights_see_all(const struct rights *rights)
{
	uint64_t now_ns = loop_now_ns();

	return rights_hold_good(&rights->who, now_ns) && rights_hold_good(&rights->node, now_ns);
}

static bool may(const struct rights *rights, enum rights_kind kind, const char *name)
{
	const struct rights_thing *thing = find(rights, kind, name);

	return thing && rights_hold_good(thing, loop_now_ns());
}

bool rights_see(const struct rights *rights, const char *tenant)
{
	char name[2 * WIRE_TEXT_MAX + 2];
	struct parts parts;

	if (!rights_hold_good(&rights->who, loop_now_ns()) || !split(tenant, &parts))
		return false;
	if (may(rights, parts.kind, parts.namespace))
		return true;
	while (next_part(&parts, name, sizeof(name)))
		if (!may(rights, parts.kind, name))
			return false;
	return true;
}
