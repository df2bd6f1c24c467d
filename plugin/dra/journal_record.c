/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kube/json.h"
#include "plugin/config/portion.h"
#include "plugin/dra/journal.h"

static const char *const phases[] = {"begun", "done", "ending"};

struct journal_claim *journal_make(struct claim *claim, const char *kind, const char *cdi_folder)
{
	struct journal_claim *entry = calloc(1, sizeof(*entry));

	if (entry) {
		entry->kind = strdup(kind);
		entry->cdi_folder = strdup(cdi_folder);
	}
	if (!entry || !entry->kind || !entry->cdi_folder) {
		claim_free(claim);
		journal_free(entry);
		return NULL;
	}
	entry->claim = claim;
	return entry;
}

void journal_free(struct journal_claim *entry)
{
	if (!entry)
		return;
	list_remove(&entry->link);
	claim_free(entry->claim);
	free(entry->kind);
	free(entry->cdi_folder);
	portion_texts_free(entry->in_force);
	free(entry->complaint);
	free(entry->told);
	refusal_forget(&entry->refusal);
	free(entry);
}

static bool add_ready(cJSON *item, const struct journal_ready *ready)
{
	return (!ready->since || cJSON_AddNumberToObject(item, "since", (double)ready->since)) &&
	       (!ready->is_not || cJSON_AddTrueToObject(item, "unready"));
}

static bool add_result(cJSON *list, const struct claim_result *result,
		       const struct journal_ready *ready, const char *uuid)
{
	cJSON *item = cJSON_CreateObject();

	if (!cJSON_AddItemToArray(list, item)) {
		cJSON_Delete(item);
		return false;
	}
	return cJSON_AddStringToObject(item, "request", result->request) &&
	       cJSON_AddStringToObject(item, "pool", result->pool) &&
	       cJSON_AddStringToObject(item, "device", result->device) &&
	       cJSON_AddStringToObject(item, "uuid", uuid) && add_ready(item, ready) &&
	       (!result->share_id || cJSON_AddStringToObject(item, "share-id", result->share_id));
}

static bool add_results(cJSON *tree, const struct journal_claim *entry, const struct host *host)
{
	const struct claim *claim = entry->claim;
	cJSON *list = cJSON_AddArrayToObject(tree, "results");
	bool good = list;

	for (uint32_t i = 0; good && i < claim->results; i++) {
		const struct claim_result *result = &claim->result[i];

		good = add_result(list, result, &entry->ready[i],
				  result->index < host->devices ? host->device[result->index].uuid
				  : result->uuid		? result->uuid
								: "");
	}
	return good;
}

static bool add_share(cJSON *tree, const char *name, char *const texts[SHARE_FIELDS])
{
	cJSON *share = cJSON_AddObjectToObject(tree, name);
	bool good = share;

	for (uint32_t i = 0; good && i < SHARE_FIELDS; i++)
		if (texts[i])
			good = cJSON_AddStringToObject(share, share_key(i), texts[i]);
	return good;
}

/* As annotations have made it. */
static bool add_changes(cJSON *tree, const struct journal_claim *entry)
{
	return add_share(tree, "in-force", entry->in_force) &&
	       (!entry->changing || cJSON_AddTrueToObject(tree, "changing"));
}

char *journal_describe(const struct journal_claim *entry, const char *boot, const struct host *host)
{
	owned(cJSON_Delete) cJSON *tree = cJSON_CreateObject();
	const struct claim *claim = entry->claim;

	if (!tree || !cJSON_AddStringToObject(tree, "uid", claim->uid) ||
	    !cJSON_AddStringToObject(tree, "namespace", claim->namespace) ||
	    !cJSON_AddStringToObject(tree, "name", claim->name) ||
	    !cJSON_AddStringToObject(tree, "phase", phases[entry->phase]) ||
	    !cJSON_AddStringToObject(tree, "boot", boot) ||
	    !cJSON_AddStringToObject(tree, "kind", entry->kind) ||
	    !cJSON_AddStringToObject(tree, "cdi-folder", entry->cdi_folder) ||
	    !cJSON_AddNumberToObject(tree, "tenant", entry->tenant) ||
	    (claim->is_admin && !cJSON_AddTrueToObject(tree, "admin")) ||
	    !add_share(tree, "share", claim->texts) || !add_changes(tree, entry) ||
	    !add_results(tree, entry, host))
		return NULL;
	return cJSON_PrintUnformatted(tree);
}

/* *ret_text: NULL if there is no such text. */
static int copy_text(const cJSON *tree, const char *key, char **ret_text)
{
	const char *text = json_text(tree, key);

	*ret_text = text ? strdup(text) : NULL;
	return text && !*ret_text ? -ENOMEM : 0;
}

/* -EINVAL: there is no such text. */
static int copy_needed(const cJSON *tree, const char *key, char **ret_text)
{
	int r = copy_text(tree, key, ret_text);

	return r == 0 && !*ret_text ? -EINVAL : r;
}

/* By the UUID: a part that was made for claims has another name than that (places.h). */
static int find_device(const struct host *host, const char *uuid, const char *name)
{
	int found = host_find(host, uuid);

	if (found >= 0)
		return found;
	for (uint32_t i = 0; i < host->devices; i++) {
		char own[SLICES_NAME];

		slices_device_name(host->device[i].uuid, own);
		if (strcmp(own, name) == 0)
			return (int)i;
	}
	return -1;
}

static void add_device(struct journal_claim *entry, int index)
{
	struct claim *claim = entry->claim;

	if (index < 0) {
		entry->missings++;
		return;
	}
	for (uint32_t i = 0; i < claim->devices; i++)
		if (claim->of[i] == (uint32_t)index)
			return;
	claim->of[claim->devices++] = (uint32_t)index;
}

static void read_ready(const cJSON *item, struct journal_ready *ready)
{
	const cJSON *since = cJSON_GetObjectItemCaseSensitive(item, "since");

	if (cJSON_IsNumber(since) && since->valuedouble > 0 && since->valuedouble < 1e12)
		ready->since = (int64_t)since->valuedouble;
	ready->is_not = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(item, "unready"));
}

static int read_result(struct journal_claim *entry, const cJSON *item, const struct host *host)
{
	struct claim *claim = entry->claim;
	struct claim_result *result = &claim->result[claim->results];
	int index, r;

	if (claim->results == CLAIM_RESULTS)
		return -EINVAL;
	claim->results++;
	r = copy_needed(item, "request", &result->request);
	if (r == 0)
		r = copy_needed(item, "pool", &result->pool);
	if (r == 0)
		r = copy_needed(item, "device", &result->device);
	if (r == 0)
		r = copy_text(item, "share-id", &result->share_id);
	if (r < 0)
		return r;
	read_ready(item, &entry->ready[claim->results - 1]);
	index = find_device(host, json_text(item, "uuid"), result->device);
	result->index = index < 0 ? UINT32_MAX : (uint32_t)index;
	add_device(entry, index);
	return index < 0 ? copy_text(item, "uuid", &result->uuid) : 0;
}

static int read_phase(const cJSON *tree, enum journal_phase *ret_phase)
{
	const char *text = json_text(tree, "phase");

	for (size_t i = 0; text && i < ARRAY_SIZE(phases); i++)
		if (strcmp(text, phases[i]) == 0) {
			*ret_phase = (enum journal_phase)i;
			return 0;
		}
	return -EINVAL;
}

static int read_entry(struct journal_claim *entry, const cJSON *tree, const struct host *host)
{
	const cJSON *share = cJSON_GetObjectItemCaseSensitive(tree, "share"), *item;
	const cJSON *tenant = cJSON_GetObjectItemCaseSensitive(tree, "tenant");
	const cJSON *now = cJSON_GetObjectItemCaseSensitive(tree, "in-force"); /* newer metes' */

	if (read_phase(tree, &entry->phase) < 0 || !cJSON_IsNumber(tenant) ||
	    tenant->valuedouble < 0 || tenant->valuedouble > UINT32_MAX)
		return -EINVAL;
	entry->tenant = (uint32_t)tenant->valuedouble;
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		if (copy_text(share, share_key(i), &entry->claim->texts[i]) < 0 ||
		    copy_text(now ? now : share, share_key(i), &entry->in_force[i]) < 0)
			return -ENOMEM;
	entry->claim->is_admin = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(tree, "admin"));
	entry->changing = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(tree, "changing"));
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(tree, "results"))
	{
		int r = read_result(entry, item, host);

		if (r < 0)
			return r;
	}
	return entry->claim->results ? 0 : -EINVAL;
}

static int read_names(const cJSON *tree, const char *uid, struct claim **ret_claim)
{
	owned(claim_free) struct claim *claim = calloc(1, sizeof(*claim));
	int r;

	if (!claim)
		return -ENOMEM;
	snprintf(claim->uid, sizeof(claim->uid), "%s", uid);
	r = copy_needed(tree, "namespace", &claim->namespace);
	if (r == 0)
		r = copy_needed(tree, "name", &claim->name);
	if (r == 0)
		*ret_claim = take(claim);
	return r;
}

/* cJSON does not say why there is no tree; malloc() says whether it was memory. */
static int parse_tree(const char *text, size_t size, cJSON **ret_tree)
{
	errno = 0;
	*ret_tree = cJSON_ParseWithLength(text, size);
	if (*ret_tree)
		return 0;
	return errno == ENOMEM ? -ENOMEM : -EINVAL;
}

int journal_parse(const char *uid, const char *text, size_t size, const struct host *host,
		  char ret_boot[40], struct journal_claim **ret_entry)
{
	owned(cJSON_Delete) cJSON *tree = NULL;
	owned(journal_free) struct journal_claim *entry = NULL;
	const char *own, *boot, *kind, *folder;
	struct claim *claim = NULL;
	int r = parse_tree(text, size, &tree);

	if (r < 0)
		return r;
	own = json_text(tree, "uid");
	boot = json_text(tree, "boot");
	kind = json_text(tree, "kind");
	folder = json_text(tree, "cdi-folder");
	if (!own || strcmp(own, uid) != 0 || !boot || !kind || !folder)
		return -EINVAL;
	r = read_names(tree, uid, &claim);
	if (r < 0)
		return r;
	entry = journal_make(claim, kind, folder);
	r = entry ? read_entry(entry, tree, host) : -ENOMEM;
	if (r < 0)
		return r;
	snprintf(ret_boot, 40, "%s", boot);
	*ret_entry = take(entry);
	return 0;
}
