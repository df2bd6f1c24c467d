/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a running tenant another share. */
#include <string.h>

#include "base/text.h"
#include "plugin/plugin.h"

uint32_t in_force_differing(const struct in_force *share, char *const texts[SHARE_FIELDS])
{
	uint32_t fields = 0;

	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		if (!text_same(share->texts[i], texts[i]))
			fields |= 1u << i;
	return fields;
}

int in_force_refused(const struct in_force *share, char *const texts[SHARE_FIELDS],
		     struct fault *why)
{
	const struct refusal *refusal = share->refusal;

	if (!refusal->sentence)
		return 0;
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		if (!text_same(refusal->texts[i], texts[i]))
			return 0;
	return fault_set(why, -EINVAL, "%s", refusal->sentence);
}

/* A refusal that cannot be remembered is tried again. */
static void remember(struct refusal *refusal, char *const texts[SHARE_FIELDS], const char *sentence)
{
	bool complete = true;

	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		refusal->texts[i] = texts[i] ? strdup(texts[i]) : NULL;
		complete &= !texts[i] || refusal->texts[i];
	}
	if (complete)
		refusal->sentence = strdup(sentence);
}

/* A mode takes back what the fields were set to that it stands for: those that have a text are set
 * again after it, and those that have none are left to it. */
static uint32_t beside_modes(uint32_t fields, char *const texts[SHARE_FIELDS])
{
	const uint32_t changed = fields;

	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		for (uint32_t j = 0; changed & 1u << i && j < SHARE_FIELDS; j++) {
			if (!share_includes(share_key(i), share_key(j)))
				continue;
			fields = texts[j] ? fields | 1u << j : fields & ~(1u << j);
		}
	return fields;
}

int in_force_set(struct plugin *p, struct in_force *share, char *const texts[SHARE_FIELDS],
		 uint32_t fields, struct fault *why)
{
	const uint32_t named = beside_modes(fields, texts);
	struct host_change changes[SHARE_FIELDS];
	char *copies[SHARE_FIELDS] = {0};
	uint32_t count = 0;
	int r = 0;

	refusal_forget(share->refusal);
	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		copies[i] = texts[i] ? strdup(texts[i]) : NULL;
		if (texts[i] && !copies[i])
			r = fault_set(why, -ENOMEM, "out of memory");
		if (named & 1u << i)
			changes[count++] =
				(struct host_change){share_key(i), texts[i] ? texts[i] : ""};
	}
	if (r == 0)
		r = p->host->set(p->host->daemon, share->tenant, changes, count, why);
	for (uint32_t i = 0; r == 0 && i < SHARE_FIELDS; i++) {
		char *former = share->texts[i];

		if (!((fields | named) & 1u << i))
			continue;
		share->texts[i] = copies[i];
		copies[i] = former;
	}
	entitled_free(copies);
	if (r == -EINVAL)
		remember(share->refusal, texts, why->text);
	return r;
}
