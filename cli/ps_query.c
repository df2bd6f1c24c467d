/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps_query.h"

#include <string.h>

#include <cjson/cJSON.h>

#include "base/text.h"
#include "base/words.h"
#include "cli/ps_filter.h"
#include "cli/ps_json.h"
#include "core/share/share.h"

OWNED_POINTER(cJSON, cJSON_Delete)

#define DEVICE "device."
#define FIELDS "fields."
#define TIME   "time."

/* The keys of the table by the object that has them. */
static const struct {
	const char *object, *key;
} known[] = {
#define KEY(object, key, kind, value, meaning) {#object, #key},
#include "view/ps_keys.def"
#undef KEY
	{"time", "driver_busy"},
	{"time", "drift"},
};

static bool has_key(const char *object, const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].object, object) == 0 && strcmp(known[i].key, key) == 0)
			return true;
	return false;
}

static void each_of(const char *object, const char *prefix,
		    void (*each)(void *owner, const char *key), void *owner)
{
	char key[PS_QUERY_KEY];

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcmp(known[i].object, object) != 0)
			continue;
		snprintf(key, sizeof(key), "%s%s", prefix, known[i].key);
		each(owner, key);
	}
}

void ps_query_each(void (*each)(void *owner, const char *key), void *owner)
{
	static const char *const fields[] = {
#define SHARE(key, kind, normally, accepted) FIELDS #key,
#include "core/share/share.def"
#undef SHARE
	};

	each_of("tenant", "", each, owner);
	each_of("time", TIME, each, owner);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		each(owner, fields[i]);
	each_of("device", DEVICE, each, owner);
}

static bool is_known(const char *key)
{
	if (text_begins(key, DEVICE))
		return has_key("device", key + strlen(DEVICE));
	if (text_begins(key, TIME))
		return has_key("time", key + strlen(TIME));
	if (text_begins(key, FIELDS))
		return share_accepts(key + strlen(FIELDS)) != NULL;
	return has_key("tenant", key);
}

/* The key that was probably meant, as it is to be written; "" if there is none. */
static struct words_shown nearest_key(const char *key)
{
	const char *dot = strchr(key, '.'), *object = "tenant", *nearest;
	const char *names[ARRAY_SIZE(known)], *word;
	struct words_shown said = {""};
	size_t n = 0;

	if (text_begins(key, DEVICE))
		object = "device";
	else if (text_begins(key, TIME))
		object = "time";
	else if (dot)
		return said;
	word = dot ? dot + 1 : key;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].object, object) == 0)
			names[n++] = known[i].key;
	nearest = words_nearest(word, names, n);
	/* Units are what people leave out: used_bytes rather than user. */
	for (size_t i = 0; i < n; i++)
		if (*word && text_begins(names[i], word) && names[i][strlen(word)] == '_')
			nearest = names[i];
	if (nearest)
		snprintf(said.text, sizeof(said.text), "; did you mean '%.*s%s'?",
			 dot ? (int)(dot - key) + 1 : 0, key, nearest);
	return said;
}

static int add_key(struct ps_query *query, const char *key, struct fault *why)
{
	struct words_shown nearest;

	if (query->count == PS_QUERY_KEYS)
		return fault_set(why, -E2BIG, "--query: at most %d keys", PS_QUERY_KEYS);
	if (!is_known(key)) {
		nearest = nearest_key(key);
		return fault_set(why, -EINVAL,
				 "--query '%.60s': no such key%s%s are a tenant's keys of --json "
				 "(name), time.KEY, fields.KEY and device.KEY: see mete-ps(1)",
				 key, nearest.text, *nearest.text ? " Accepted" : "; accepted");
	}
	query->key[query->count++] = key;
	return 0;
}

static int add_all(struct ps_query *query, struct fault *why)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].object, "tenant") == 0)
			r = add_key(query, known[i].key, why);
	return r;
}

int ps_query_read(struct ps_query *query, const char *text, struct fault *why)
{
	char *rest, *one;
	int r = 0;

	*query = (struct ps_query){.text = text ? strdup(text) : NULL};
	if (!text)
		return add_all(query, why);
	if (!query->text)
		return fault_set(why, -ENOMEM, "out of memory");
	rest = query->text;
	while (r == 0 && (one = strsep(&rest, ",")) != NULL) {
		one += strspn(one, " ");
		one[strcspn(one, " ")] = '\0';
		r = add_key(query, one, why);
	}
	query->of_devices = true;
	for (size_t i = 0; i < query->count; i++)
		query->of_devices &= text_begins(query->key[i], DEVICE);
	return r;
}

void ps_query_done(struct ps_query *query)
{
	free(query->text);
}

/* The keys' objects: a tenant's own keys are at the top, others in an object of their name. */
static cJSON *object_of(const struct ps_query *query, const struct ps_rows *rows,
			const struct wire_message *row)
{
	uint32_t index = query->of_devices ? row->device_row.index : row->tenant_row.device;
	cJSON *object =
		query->of_devices ? cJSON_CreateObject() : ps_json_tenant(rows, &row->tenant_row);

	/* "device" alone is a key of the tenant, the index; "device." is the prefix of the device's
	 * keys. */
	cJSON_AddItemToObject(object, DEVICE, ps_json_device(rows, ps_device(rows, index)));
	return object;
}

/* NULL: there is no value, for example as the driver gives no figure. */
static const cJSON *value_of(const cJSON *object, const char *key)
{
	const char *dot = strchr(key, '.');

	if (!dot)
		return cJSON_GetObjectItemCaseSensitive(object, key);
	if (text_begins(key, DEVICE))
		object = cJSON_GetObjectItemCaseSensitive(object, DEVICE);
	else
		object = cJSON_GetObjectItemCaseSensitive(
			object, text_begins(key, TIME) ? "time" : "fields");
	return cJSON_GetObjectItemCaseSensitive(object, dot + 1);
}

static void put_text(const char *text, FILE *out)
{
	if (!strpbrk(text, ",\"\n\r")) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++)
		fprintf(out, "%s%c", *text == '"' ? "\"" : "", *text);
	fputc('"', out);
}

/* The names of a list are separated by blanks. */
static void put_list(const cJSON *list, FILE *out)
{
	const cJSON *item;

	cJSON_ArrayForEach(item, list)
		fprintf(out, "%s%s", item == list->child ? "" : " ", cJSON_GetStringValue(item));
}

static void put_value(const cJSON *value, FILE *out)
{
	owned(free) char *printed = NULL;

	if (!value || cJSON_IsNull(value))
		return;
	if (cJSON_IsString(value))
		put_text(cJSON_GetStringValue(value), out);
	else if (cJSON_IsArray(value))
		put_list(value, out);
	else if ((printed = cJSON_PrintUnformatted(value)) != NULL)
		fputs(printed, out);
}

/* Calls the function for each device or each tenant that the filter shows. */
static bool is_wanted(const struct ps_query *query, const struct ps_rows *rows,
		      const struct wire_message *row)
{
	return row->code == (query->of_devices ? WIRE_device_row : WIRE_tenant_row) &&
	       ps_shows(rows, row);
}

void ps_query_csv(const struct ps_query *query, const struct ps_rows *rows, bool header, FILE *out)
{
	for (size_t k = 0; header && k < query->count; k++)
		fprintf(out, "%s%s", k ? "," : "", query->key[k]);
	if (header)
		fputc('\n', out);
	for (size_t i = 0; i < rows->count; i++) {
		owned(cJSON_Delete) cJSON *object = NULL;

		if (!is_wanted(query, rows, &rows->row[i]))
			continue;
		object = object_of(query, rows, &rows->row[i]);
		for (size_t k = 0; k < query->count; k++) {
			if (k)
				fputc(',', out);
			put_value(value_of(object, query->key[k]), out);
		}
		fputc('\n', out);
	}
}

void ps_query_json(const struct ps_query *query, const struct ps_rows *rows, FILE *out)
{
	owned(cJSON_Delete) cJSON *list = cJSON_CreateArray();
	owned(free) char *printed = NULL;

	for (size_t i = 0; i < rows->count; i++) {
		owned(cJSON_Delete) cJSON *object = NULL;
		cJSON *line;

		if (!is_wanted(query, rows, &rows->row[i]))
			continue;
		object = object_of(query, rows, &rows->row[i]);
		line = cJSON_CreateObject();
		for (size_t k = 0; k < query->count; k++) {
			const cJSON *value = value_of(object, query->key[k]);

			cJSON_AddItemToObject(line, query->key[k],
					      value ? cJSON_Duplicate(value, true)
						    : cJSON_CreateNull());
		}
		cJSON_AddItemToArray(list, line);
	}
	printed = cJSON_Print(list);
	fprintf(out, "%s\n", printed ? printed : "[]");
}
