/* SPDX-License-Identifier: Apache-2.0 */
/* Gives a running tenant another share. */
#include <string.h>

#include "base/text.h"
#include "plugin/plugin.h"

static int set(struct plugin *p, struct in_force *share, uint32_t field, const char *text,
	       struct fault *why)
{
	char *copy = text ? strdup(text) : NULL;
	int r = text && !copy ? fault_set(why, -ENOMEM, "out of memory") : 0;

	if (r == 0)
		r = p->host->set(p->host->daemon, share->tenant, share_key(field), text ? text : "",
				 why);
	if (r < 0) {
		free(copy);
		return r;
	}
	/* A mode sets other fields, which lose their former values. */
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		if (i == field || share_includes(share_key(field), share_key(i)))
			free(take(share->texts[i]));
	share->texts[field] = copy;
	return 0;
}

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

/* One by one, because the tenant takes them so. A field that does not fit the present values (a
 * guarantee above the cap) is tried again after the others. */
int in_force_set(struct plugin *p, struct in_force *share, char *const texts[SHARE_FIELDS],
		 uint32_t fields, struct fault *why)
{
	uint32_t before;
	int r = 0;

	refusal_forget(share->refusal);
	do {
		before = fields;
		for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
			int e = fields & 1u << i ? set(p, share, i, texts[i], why) : 0;

			if (e < 0)
				r = e;
			else
				fields &= ~(1u << i);
			for (uint32_t j = i + 1; e == 0 && j < SHARE_FIELDS; j++)
				if (!text_same(share->texts[j], texts[j]))
					fields |= 1u << j;
		}
	} while (fields && fields != before);
	if (!fields)
		return 0;
	if (r == -EINVAL)
		remember(share->refusal, texts, why->text);
	return r;
}
