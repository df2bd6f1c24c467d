/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens that are known, and whose they are. */
#include "page/rights.h"

#include <string.h>

#include "page/rights_inside.h"

static const uint64_t second_ns = 1000000000;

static void on_who(void *owner, int r, const char *user, const char *name)
{
	struct rights *rights = owner;

	rights->who.asked = NULL;
	if (r == 0 && (!rights->user || strcmp(rights->user, user) != 0)) {
		char *new_user = strdup(user), *new_name = strdup(name);

		/* His groups are others: what he might get was said of somebody else. */
		if (rights->user)
			rights->edition++;
		rights_drop_things(rights);
		rights->node = (struct rights_thing){.of = rights};
		free(rights->user);
		free(rights->name);
		rights->user = new_user;
		rights->name = new_name;
		if (!new_user || !new_name) {
			free(take(rights->user));
			free(take(rights->name));
			r = -ENOMEM;
		}
	}
	if (r < 0)
		rights->who.failed_ns = loop_now_ns();
	else
		rights_say(&rights->who, r ? RIGHTS_NO : RIGHTS_YES);
	rights_go_on(rights);
}

static int step(struct rights *rights)
{
	const struct page_host *host = rights->table->looks->host;
	uint64_t now_ns = loop_now_ns();
	struct rights_thing *who = &rights->who;

	rights_expire(rights, now_ns);
	if (!rights_fresh(who, now_ns)) {
		if (who->asked)
			return RIGHTS_LATER;
		if (rights_failed(who, now_ns))
			return -EIO;
		if (host->who(host->daemon, rights->token, host->audience, on_who, rights,
			      &who->asked) == 0)
			return RIGHTS_LATER;
		who->failed_ns = now_ns;
		return -EIO;
	}
	return who->said == RIGHTS_YES ? rights_step_things(rights, now_ns) : RIGHTS_STRANGER;
}

void rights_go_on(struct rights *rights)
{
	uint64_t now_ns = loop_now_ns();
	bool later = step(rights) == RIGHTS_LATER;

	if (!later)
		rights->later_ns = 0;
	else if (!rights->later_ns)
		rights->later_ns = now_ns;
	/* Who has waited for long is refused, though something is still asked: a slow server's
	 * words may be forgotten as fast as they come. */
	if (!later || now_ns - rights->later_ns > RIGHTS_PATIENCE_S * second_ns)
		rights->table->settled(rights->table->owner);
}

static void done(struct rights *rights)
{
	const struct page_host *host;

	if (!rights)
		return;
	host = rights->table->looks->host;
	host->forget(host->daemon, rights->who.asked);
	rights_drop_things(rights);
	explicit_bzero(rights->token, strlen(rights->token));
	free(rights->token);
	free(rights->user);
	free(rights->name);
	free(rights);
}

void rights_open(struct rights_table *table, struct looks *looks, void (*settled)(void *owner),
		 void *owner)
{
	*table = (struct rights_table){
		.looks = looks,
		.settled = settled,
		.owner = owner,
		.paces = {.all = {RIGHTS_BURST, second_ns / RIGHTS_EACH_S},
			  .host = {RIGHTS_HOST_BURST, second_ns / RIGHTS_HOST_EACH_S},
			  .part = {RIGHTS_PART_BURST, second_ns / RIGHTS_PART_EACH_S}}};
}

void rights_close(struct rights_table *table)
{
	for (size_t i = 0; i < RIGHTS_MOST; i++)
		done(take(table->known[i]));
}

/* Takes as long wherever they differ. */
static bool same_token(const char *a, const char *b)
{
	size_t size = strlen(a);
	unsigned different = 0;

	if (size != strlen(b))
		return false;
	for (size_t i = 0; i < size; i++)
		different |= (unsigned char)(a[i] ^ b[i]);
	return !different;
}

static struct rights *find(const struct rights_table *table, const char *token)
{
	for (size_t i = 0; i < RIGHTS_MOST; i++)
		if (table->known[i] && same_token(table->known[i]->token, token))
			return table->known[i];
	return NULL;
}

/* Has somebody as many tokens as this one's owner that were used since? */
static bool is_surplus(const struct rights *rights)
{
	uint32_t n = 0;

	for (size_t i = 0; i < RIGHTS_MOST; i++) {
		const struct rights *other = rights->table->known[i];

		n += other && other->name && other->used_ns >= rights->used_ns &&
		     strcmp(other->name, rights->name) == 0;
	}
	return n > RIGHTS_EACH;
}

/* Whose place may be taken: one's that nobody knows, who sees nothing here, has many others, or has
 * not asked for long. */
static bool is_idle(const struct rights *rights, uint64_t now_ns)
{
	uint64_t most_ns = rights->table->looks->host->believed_ns;

	if (rights->streams || rights->who.asked || rights_asks(rights))
		return false;
	if (most_ns > RIGHTS_IDLE_S * second_ns)
		most_ns = RIGHTS_IDLE_S * second_ns;
	return !rights->user || now_ns - rights->used_ns > most_ns || !rights_any(rights, now_ns) ||
	       is_surplus(rights);
}

static bool is_before(const struct rights *a, const struct rights *b)
{
	return !a->user != !b->user ? !a->user : a->used_ns < b->used_ns;
}

static struct rights **place(struct rights_table *table, bool stranger, uint64_t now_ns)
{
	struct rights **found = NULL;

	for (size_t i = 0; i < RIGHTS_MOST; i++) {
		struct rights *rights = table->known[i];

		if (!rights && !stranger)
			return &table->known[i];
		if (!rights || !is_idle(rights, now_ns) || (stranger && rights->user))
			continue;
		if (!found || is_before(rights, *found))
			found = &table->known[i];
	}
	return found;
}

/* Whose owner is not known, and is not being asked about. */
static uint32_t count_strangers(const struct rights_table *table)
{
	uint32_t n = 0;

	for (size_t i = 0; i < RIGHTS_MOST; i++) {
		const struct rights *rights = table->known[i];

		n += rights && !rights->user && !rights->who.asked;
	}
	return n;
}

/* Are there places for what one more asks, of all and of his? */
static bool may_ask(const struct rights_table *table, const struct http_asker *asker)
{
	uint32_t all = 0, host = 0, part = 0;

	for (size_t i = 0; i < RIGHTS_MOST; i++) {
		const struct rights *rights = table->known[i];
		bool same;

		if (!rights || rights->user || !rights->who.asked)
			continue;
		same = http_host_same(&rights->asker.host, &asker->host);
		all++;
		host += same;
		part += same && asker->part && rights->asker.part == asker->part;
	}
	return all < RIGHTS_NEW && host < RIGHTS_NEW_HOST && part < RIGHTS_NEW_PART;
}

static int make(struct rights_table *table, const char *token, const struct http_asker *asker,
		uint64_t now_ns, struct rights **ret_rights)
{
	/* Whoever says tokens that nobody knows has few of the places. */
	bool stranger = count_strangers(table) >= RIGHTS_STRANGERS;
	struct rights **at = place(table, stranger, now_ns);
	struct rights *rights;

	if (!at || !may_ask(table, asker) || !http_paces_take(&table->paces, asker, now_ns))
		return -EBUSY;
	rights = calloc(1, sizeof(*rights));
	if (!rights)
		return -ENOMEM;
	rights->table = table;
	rights->asker = *asker;
	rights->id = ++table->last_id;
	rights->who.of = rights->node.of = rights;
	rights->token = strdup(token);
	if (!rights->token) {
		free(rights);
		return -ENOMEM;
	}
	done(*at);
	*ret_rights = *at = rights;
	return 0;
}

int rights_enter(struct rights_table *table, const char *token, const struct http_asker *asker,
		 uint64_t waited_ns, struct sight *ret_sight)
{
	uint64_t now_ns = loop_now_ns();
	struct rights *rights;
	int r = 0;

	if (strlen(token) > RIGHTS_TOKEN_MOST)
		return RIGHTS_STRANGER;
	rights = find(table, token);
	if (!rights)
		r = make(table, token, asker, now_ns, &rights);
	if (r < 0)
		return r;
	rights->used_ns = now_ns;
	r = step(rights);
	if (r == RIGHTS_LATER && waited_ns > RIGHTS_PATIENCE_S * second_ns)
		return -EIO;
	if (r != 0)
		return r;
	if (!rights_any(rights, loop_now_ns()))
		return RIGHTS_NOTHING;
	*ret_sight = (struct sight){.uid = table->looks->host->owner,
				    .rights = rights,
				    .id = rights->id,
				    .edition = rights->edition};
	return 0;
}

static struct rights *of(const struct rights_table *table, const struct sight *sight)
{
	for (size_t i = 0; sight->rights && i < RIGHTS_MOST; i++)
		if (table->known[i] == sight->rights && table->known[i]->id == sight->id)
			return table->known[i];
	return NULL;
}

void rights_hold(struct rights_table *table, const struct sight *sight)
{
	struct rights *rights = of(table, sight);

	if (rights)
		rights->streams++;
}

void rights_leave(struct rights_table *table, const struct sight *sight)
{
	struct rights *rights = of(table, sight);

	if (rights)
		rights->streams--;
}

bool rights_last(struct rights_table *table, const struct sight *sight)
{
	struct rights *rights = of(table, sight);

	if (!sight->rights)
		return true;
	if (!rights)
		return false;
	rights->used_ns = loop_now_ns();
	best_effort(step(rights));
	return rights->edition == sight->edition && rights_hold_good(&rights->who, loop_now_ns());
}

const char *rights_name(const struct rights *rights)
{
	return rights->name ? rights->name : "";
}
