/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps_filter.h"

#include <string.h>
#include <strings.h>

static const struct {
	const char *name;
	enum ps_filter_key key;
} keys[] = {
	{"user", PS_FILTER_USER},
	{"tenant", PS_FILTER_TENANT},
	{"gpu", PS_FILTER_GPU},
	{"device", PS_FILTER_GPU},
};

const char *ps_filter_word(size_t i, enum ps_filter_key *ret_key)
{
	if (i >= ARRAY_SIZE(keys))
		return NULL;
	*ret_key = keys[i].key;
	return keys[i].name;
}

static int read_word(struct ps_filter *filter, char *text, struct fault *why)
{
	struct ps_filter_word *word = &filter->word[filter->count];
	char *equals = strchr(text, '=');

	if (filter->count == PS_FILTER_WORDS)
		return fault_set(why, -E2BIG, "a filter has at most %d words", PS_FILTER_WORDS);
	*word = (struct ps_filter_word){PS_FILTER_ANY, (unsigned)(text - filter->words)};
	filter->count++;
	if (!equals)
		return 0;
	*equals = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(text, keys[i].name) != 0)
			continue;
		if (!equals[1])
			return fault_set(why, -EINVAL, "filter %s=: its value is missing", text);
		*word = (struct ps_filter_word){keys[i].key,
						(unsigned)(equals + 1 - filter->words)};
		return 0;
	}
	return fault_set(why, -EINVAL,
			 "filter '%.60s=': accepted are user=, tenant=, gpu= and parts of names",
			 text);
}

int ps_filter_read(struct ps_filter *filter, const char *text, struct fault *why)
{
	struct ps_filter made = {.count = 0};
	char *rest = made.words, *one;

	if (strlen(text) >= PS_FILTER_SIZE)
		return fault_set(why, -EINVAL, "a filter has at most %d characters",
				 PS_FILTER_SIZE - 1);
	snprintf(made.text, sizeof(made.text), "%s", text);
	snprintf(made.words, sizeof(made.words), "%s", text);
	while ((one = strsep(&rest, " ,")) != NULL) {
		int r = *one ? read_word(&made, one, why) : 0;

		if (r < 0)
			return r;
	}
	*filter = made;
	return 0;
}

static bool is_number(const char *text, uint64_t number)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	return strcmp(text, digits) == 0;
}

static bool is_device(const char *text, const struct wire_device_row *device)
{
	return is_number(text, device->index) || text_uuid_begins(ps_uuid(device).text, text);
}

static bool fits_any(const char *text, const struct ps_rows *rows,
		     const struct wire_tenant_row *tenant)
{
	return strcasestr(tenant->name.text, text) ||
	       strcasestr(ps_user_of(rows, tenant->owner).text, text) ||
	       strcasestr(ps_tenant_command(rows, tenant).text, text);
}

static bool fits(const struct ps_filter_word *word, const char *text, const struct ps_rows *rows,
		 const struct wire_tenant_row *tenant)
{
	switch (word->key) {
	case PS_FILTER_ANY:
		return fits_any(text, rows, tenant);
	case PS_FILTER_USER:
		return is_number(text, tenant->owner) ||
		       strcmp(text, ps_user_of(rows, tenant->owner).text) == 0;
	case PS_FILTER_TENANT:
		return is_number(text, tenant->tenant) || strcmp(text, tenant->name.text) == 0;
	case PS_FILTER_GPU:
		return is_device(text, ps_device(rows, tenant->device));
	}
	return false;
}

bool ps_filter_tenant(const struct ps_filter *filter, const struct ps_rows *rows,
		      const struct wire_tenant_row *tenant)
{
	for (unsigned i = 0; i < filter->count; i++)
		if (!fits(&filter->word[i], filter->words + filter->word[i].at, rows, tenant))
			return false;
	return true;
}

static bool fits_device(const struct ps_filter *filter, const struct wire_device_row *device)
{
	for (unsigned i = 0; i < filter->count; i++)
		if (filter->word[i].key == PS_FILTER_GPU &&
		    !is_device(filter->words + filter->word[i].at, device))
			return false;
	return true;
}

static bool asks_for_tenants(const struct ps_filter *filter)
{
	for (unsigned i = 0; i < filter->count; i++)
		if (filter->word[i].key != PS_FILTER_GPU)
			return true;
	return false;
}

/* Found by its tenant on the same device, since the filter may name a device. */
static bool fits_process(const struct ps_filter *filter, const struct ps_rows *rows,
			 const struct wire_guest_row *guest)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_tenant_row *tenant = &rows->row[i].tenant_row;

		if (rows->row[i].code == WIRE_tenant_row && tenant->tenant == guest->tenant &&
		    tenant->device == guest->device)
			return ps_filter_tenant(filter, rows, tenant);
	}
	return false;
}

bool ps_shows(const struct ps_rows *rows, const struct wire_message *row)
{
	const struct ps_filter *filter = rows->filter;

	if (!filter || !filter->count)
		return true;
	if (row->code == WIRE_device_row)
		return fits_device(filter, &row->device_row);
	if (row->code == WIRE_tenant_row)
		return ps_filter_tenant(filter, rows, &row->tenant_row);
	if (row->code == WIRE_guest_row)
		return fits_process(filter, rows, &row->guest_row);
	return !asks_for_tenants(filter) &&
	       fits_device(filter, ps_device(rows, row->outside_row.device));
}
