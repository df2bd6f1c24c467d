/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/claim.h"

#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "base/words.h"
#include "kube/json.h"
#include "plugin/quantity.h"

enum { PERCENT_ALL = 100 };

void claim_free(struct claim *claim)
{
	if (!claim)
		return;
	for (uint32_t i = 0; i < claim->results; i++) {
		free(claim->result[i].request);
		free(claim->result[i].pool);
		free(claim->result[i].device);
		free(claim->result[i].share_id);
		free(claim->result[i].uuid);
	}
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		free(claim->texts[i]);
	free(claim->namespace);
	free(claim->name);
	free(claim);
}

static const cJSON *allocation_of(const cJSON *object)
{
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status");

	return cJSON_GetObjectItemCaseSensitive(status, "allocation");
}

int claim_check(const cJSON *object, const char *uid, struct fault *why)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
	const char *found = json_text(meta, "uid");

	if (!found || strcmp(found, uid) != 0)
		return fault_set(why, -ENOENT,
				 "the claim with UID %s is gone, and another one has its name",
				 words_show(uid).text);
	if (!allocation_of(object))
		return fault_set(why, -ENOENT,
				 "the claim has no devices: kube-scheduler has not "
				 "allocated it, or no longer");
	return 0;
}

/* "resourceclaims "c" not found": a Status that names it. What has no such resource (an older
 * server, a feature that is off, a proxy) names nothing, or answers no Status at all. */
static bool is_not_found(const cJSON *answer, const char *name)
{
	const cJSON *details = cJSON_GetObjectItemCaseSensitive(answer, "details");
	const char *reason = json_text(answer, "reason"), *kind = json_text(details, "kind"),
		   *named = json_text(details, "name");

	return reason && strcmp(reason, "NotFound") == 0 && kind &&
	       strcmp(kind, "resourceclaims") == 0 && named && strcmp(named, name) == 0;
}

/* The scheduler numbers each share that it allocates. */
static bool has_result(const cJSON *list, const struct claim_result *kept)
{
	const cJSON *result;

	cJSON_ArrayForEach(result, list)
	{
		const char *pool = json_text(result, "pool"), *device = json_text(result, "device");

		if (pool && device && strcmp(pool, kept->pool) == 0 &&
		    strcmp(device, kept->device) == 0 &&
		    text_same(json_text(result, "shareID"), kept->share_id))
			return true;
	}
	return false;
}

/* It has been given away, and allocated again: on another node, say. */
static bool is_elsewhere(const cJSON *object, const struct claim *claim)
{
	const cJSON *devices = cJSON_GetObjectItemCaseSensitive(allocation_of(object), "devices");
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(devices, "results");

	for (uint32_t i = 0; i < claim->results; i++)
		if (!has_result(list, &claim->result[i]))
			return true;
	return false;
}

bool claim_is_gone(int status, const cJSON *answer, const struct claim *claim)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(answer, "metadata");
	struct fault why;

	if (status == 404)
		return is_not_found(answer, claim->name);
	return status >= 200 && status < 300 && json_text(meta, "uid") &&
	       (claim_check(answer, claim->uid, &why) < 0 || is_elsewhere(answer, claim));
}

/* What is consumed of each device, in sum. */
struct consumed {
	uint64_t bytes[CLAIM_DEVICES], percent[CLAIM_DEVICES];
};

static int find_device(const struct claim_place *place, const char *name)
{
	for (uint32_t i = 0; i < place->devices; i++) {
		char own[SLICES_NAME];

		slices_device_name(place->device[i].place ? place->device[i].place
							  : place->device[i].uuid,
				   own);
		if (strcmp(own, name) == 0)
			return (int)i;
	}
	return -1;
}

static int read_amount(const cJSON *result, const char *name, uint64_t *ret_amount,
		       struct fault *why)
{
	const cJSON *all = cJSON_GetObjectItemCaseSensitive(result, "consumedCapacity");
	const char *text = json_text(all, name);

	if (!all)
		return fault_set(
			why, -EINVAL,
			"device %s was allocated without counting: this cluster's kube-scheduler "
			"does not know capacities of shared devices; accepted: Kubernetes 1.36, "
			"or the feature gate DRAConsumableCapacity",
			words_show(json_text(result, "device")).text);
	if (!text || quantity_read_up(text, ret_amount) < 0)
		return fault_set(why, -EINVAL,
				 "the consumed %s of device %s is '%s', which is no "
				 "amount",
				 name, words_show(json_text(result, "device")).text,
				 words_show(text ? text : "").text);
	return 0;
}

static void add_device(struct claim *claim, uint32_t index)
{
	for (uint32_t i = 0; i < claim->devices; i++)
		if (claim->of[i] == index)
			return;
	claim->of[claim->devices++] = index;
}

static char *copy_of(const cJSON *tree, const char *key)
{
	const char *text = json_text(tree, key);

	return strdup(text ? text : "");
}

static int keep_result(struct claim *claim, const cJSON *result, uint32_t index)
{
	struct claim_result *kept = &claim->result[claim->results++];

	*kept = (struct claim_result){
		.request = copy_of(result, "request"),
		.pool = copy_of(result, "pool"),
		.device = copy_of(result, "device"),
		.share_id = json_text(result, "shareID") ? copy_of(result, "shareID") : NULL,
		.index = index,
	};
	add_device(claim, index);
	return kept->request && kept->pool && kept->device ? 0 : -ENOMEM;
}

static int check_result(const struct claim_place *place, const cJSON *result, int *ret_index,
			struct fault *why)
{
	const char *device = json_text(result, "device"), *pool = json_text(result, "pool");

	if (!device || !pool || strcmp(pool, place->pool) != 0)
		return fault_set(why, -EINVAL, "the claim's device is of pool '%s'; accepted: %s",
				 words_show(pool ? pool : "").text, place->pool);
	*ret_index = find_device(place, device);
	if (*ret_index < 0)
		return fault_set(why, -ENODEV,
				 "device %s is not on this node, or is not given out by claims",
				 words_show(device).text);
	return 0;
}

static bool has_admin_access(const cJSON *result)
{
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result, "adminAccess"));
}

/* What is consumed of the device, and of others by this claim. */
static int consume(const struct claim *claim, const cJSON *result, int index,
		   struct consumed *consumed, struct fault *why)
{
	uint64_t bytes = 0, percent = 0;
	int r;

	/* Kubernetes wants room for it as for others, and counts nothing afterwards. */
	if (claim->is_admin)
		return 0;
	r = read_amount(result, "memory", &bytes, why);
	if (r == 0)
		r = read_amount(result, "compute", &percent, why);
	if (r < 0)
		return r;
	/* Two shares of one device are one larger share of it. A sum ends at all there is. */
	consumed->bytes[index] = bytes < UINT64_MAX - consumed->bytes[index]
					 ? consumed->bytes[index] + bytes
					 : UINT64_MAX;
	consumed->percent[index] = least(PERCENT_ALL, consumed->percent[index] + percent);
	return 0;
}

static int take_result(struct claim *claim, const struct claim_place *place, const cJSON *result,
		       struct consumed *consumed, struct fault *why)
{
	int index = -1, r;

	if (claim->results == CLAIM_RESULTS)
		return fault_set(why, -EINVAL, "the claim has more than %d devices", CLAIM_RESULTS);
	if (!claim->results)
		claim->is_admin = has_admin_access(result);
	else if (claim->is_admin != has_admin_access(result))
		return fault_set(why, -EINVAL,
				 "the claim has devices with adminAccess and others without; "
				 "accepted: a claim for each");
	r = check_result(place, result, &index, why);
	if (r == 0)
		r = consume(claim, result, index, consumed, why);
	if (r < 0)
		return r;
	r = keep_result(claim, result, (uint32_t)index);
	return r < 0 ? fault_set(why, r, "out of memory") : 0;
}

static int read_results(struct claim *claim, const struct claim_place *place,
			const cJSON *allocation, struct consumed *consumed, struct fault *why)
{
	const cJSON *devices = cJSON_GetObjectItemCaseSensitive(allocation, "devices");
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(devices, "results"), *result;

	cJSON_ArrayForEach(result, list)
	{
		const char *driver = json_text(result, "driver");
		int r;

		if (!driver || strcmp(driver, place->driver) != 0)
			continue;
		r = take_result(claim, place, result, consumed, why);
		if (r < 0)
			return r;
	}
	return claim->results ? 0
			      : fault_set(why, -EINVAL, "the claim has no device of driver %s",
					  place->driver);
}

/* UINT64_MAX: all of it, which need not be whole mebibytes. */
static uint64_t limit_of(const struct claim_place *place, uint32_t device, uint64_t bytes)
{
	return bytes >= slices_memory(place->device[device].total_bytes) ? UINT64_MAX : bytes;
}

/* A share says the same of all of its devices. */
static int find_common(const struct claim *claim, const struct claim_place *place,
		       const struct consumed *consumed, uint64_t *ret_bytes, uint32_t *ret_percent,
		       struct fault *why)
{
	uint32_t first = claim->of[0];

	*ret_bytes = limit_of(place, first, consumed->bytes[first]);
	*ret_percent = (uint32_t)most(1, consumed->percent[first]);
	for (uint32_t i = 1; i < claim->devices; i++) {
		uint32_t at = claim->of[i];

		/* Not text_size(): a GiB's hundredths may be the same of both. */
		if (limit_of(place, at, consumed->bytes[at]) != *ret_bytes ||
		    most(1, consumed->percent[at]) != *ret_percent)
			return fault_set(why, -EINVAL,
					 "the claim has %lluMiB and %llu%% of one device, and "
					 "%lluMiB and %llu%% of another; accepted: the same of "
					 "each device of a claim",
					 (unsigned long long)consumed->bytes[first] >> 20,
					 (unsigned long long)consumed->percent[first],
					 (unsigned long long)consumed->bytes[at] >> 20,
					 (unsigned long long)consumed->percent[at]);
	}
	return 0;
}

static int read_all(struct claim *claim, const cJSON *object, const struct claim_place *place,
		    struct fault *why)
{
	struct consumed consumed = {.bytes = {0}};
	uint64_t bytes = 0;
	uint32_t percent = 0;
	int r = read_results(claim, place, allocation_of(object), &consumed, why);

	if (r == 0 && claim->is_admin)
		return claim_look(allocation_of(object), place, claim, why);
	if (r == 0)
		r = find_common(claim, place, &consumed, &bytes, &percent, why);
	return r < 0 ? r : claim_share(allocation_of(object), place, bytes, percent, claim, why);
}

int claim_read(const cJSON *object, const struct claim_place *place, struct claim **ret_claim,
	       struct fault *why)
{
	owned(claim_free) struct claim *claim = calloc(1, sizeof(*claim));
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
	int r;

	if (!claim)
		return fault_set(why, -ENOMEM, "out of memory");
	claim->namespace = copy_of(meta, "namespace");
	claim->name = copy_of(meta, "name");
	if (!claim->namespace || !claim->name)
		return fault_set(why, -ENOMEM, "out of memory");
	snprintf(claim->uid, sizeof(claim->uid), "%s",
		 json_text(meta, "uid") ? json_text(meta, "uid") : "");
	r = read_all(claim, object, place, why);
	if (r < 0)
		return r;
	*ret_claim = take(claim);
	return 0;
}
