/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/admin_named.h"

#include <string.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/peers/admin_types.h"
#include "node/peers/peer.h"

bool admin_may_change(const struct admin *a, const struct tenant *t)
{
	return !a->user || t->owner == a->uid;
}

/* As many as fit: "1 (train), 4 (train-2)". `name` NULL: of the tenants that it may change. */
static void list_names(const struct admin *a, const char *name, uint32_t id, char *text,
		       size_t size)
{
	size_t n = 0;

	*text = '\0';
	list_for_each(link, (struct list *)&a->daemon->tenants.all)
	{
		const struct tenant *t = list_entry(link, struct tenant, link);
		bool meant =
			name ? t->id == id || strcmp(t->name, name) == 0 : admin_may_change(a, t);

		if (!meant)
			continue;
		if (n + strlen(t->name) + 20 > size) {
			snprintf(text + n, size - n, ", ...");
			return;
		}
		n += (size_t)snprintf(text + n, size - n, "%s%u (%s)", n ? ", " : "", t->id,
				      t->name);
	}
}

struct tenant *admin_named(struct admin *a, uint32_t id, uint32_t tenant, const char *name)
{
	struct tenant *found = NULL;
	char names[160], plain[WIRE_TEXT_MAX + 1];
	uint32_t count = 0;

	snprintf(plain, sizeof(plain), "%s", name);
	text_make_plain(plain);
	list_for_each(link, &a->daemon->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if ((tenant && t->id == tenant) || (*plain && strcmp(t->name, plain) == 0)) {
			found = t;
			count++;
		}
	}
	if (count == 1)
		return found;
	list_names(a, count ? plain : NULL, tenant, names, sizeof(names));
	if (count)
		peer_refuse(&a->peer, id, WIRE_REFUSED_UNKNOWN,
			    "'%.60s' is ambiguous; give its number: %s", plain, names);
	else if (tenant)
		peer_refuse(&a->peer, id, WIRE_REFUSED_UNKNOWN, "there is no tenant %u%s%s", tenant,
			    *names ? "; there are: " : "", names);
	else
		peer_refuse(&a->peer, id, WIRE_REFUSED_UNKNOWN, "there is no tenant '%.60s'%s%s",
			    plain, *names ? "; there are: " : "", names);
	return NULL;
}
