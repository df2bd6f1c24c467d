/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "plugin/config/portion.h"
#include "plugin/dra/claim.h"

static uint64_t smallest_device(const struct claim_place *place, const struct claim *claim)
{
	uint64_t smallest = UINT64_MAX;

	for (uint32_t i = 0; i < claim->devices; i++)
		if (place->device[claim->of[i]].total_bytes < smallest)
			smallest = place->device[claim->of[i]].total_bytes;
	return smallest;
}

/* Both have been accepted before. */
static uint64_t memory_of(const char *text, uint64_t device_bytes)
{
	struct share share;
	uint64_t bytes = device_bytes;

	share_init(&share);
	if (share_set(&share, "memory", text ? text : "") != 0 ||
	    share_bytes(&share.memory, device_bytes, &bytes) != 0)
		return device_bytes;
	return bytes;
}

static int check_counted(const struct claim *claim, const struct annotations_share *share,
			 uint64_t device_bytes, const char *domain, struct fault *why)
{
	const char *swap = share->texts[PORTION_swap];
	uint64_t consumed = memory_of(claim->texts[PORTION_memory], device_bytes);
	uint64_t wanted = memory_of(share->texts[PORTION_memory], device_bytes);

	if (share->exclusive)
		return fault_set(why, -EINVAL,
				 "%s/exclusive: a claim without capacities has the whole device; "
				 "accepted: no capacities",
				 domain);
	if (!text_same(share->texts[PORTION_guarantee], claim->texts[PORTION_guarantee]))
		return fault_set(why, -EINVAL,
				 "the guarantee is what the claim consumes of the capacity "
				 "'compute', %s; accepted: %s/weight, %s/class and %s/cap",
				 claim->texts[PORTION_guarantee], domain, domain, domain);
	if (wanted > consumed && !(swap && strcmp(swap, "auto") == 0))
		return fault_set(why, -EINVAL,
				 "%s/memory: %s is more than the claim consumes, %s, and without "
				 "swap nobody could have it back; accepted: less, or 'swap: auto'",
				 domain, text_bytes(wanted).text, text_bytes(consumed).text);
	return 0;
}

static int copy(const struct annotations_share *share, char *ret_texts[SHARE_FIELDS],
		struct fault *why)
{
	int r = portion_texts_copy(share->texts, ret_texts);

	return r < 0 ? fault_set(why, r, "out of memory") : 0;
}

int claim_adjust(const struct claim *claim, const struct claim_place *place,
		 const struct annotation *entries, size_t count, const char *domain,
		 char *ret_texts[SHARE_FIELDS], struct fault *why)
{
	struct config_share own = {0};
	struct annotations_share share;
	struct annotations_input input = {
		.entries = entries,
		.count = count,
		.container = "",
		.domain = domain,
		.portion = &own,
		.most = place->most,
		.device_bytes = smallest_device(place, claim),
		.guarantee_room_milli = 1000,
		.memory_room = UINT64_MAX,
		.memory_room_alone = UINT64_MAX,
	};
	int r;

	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		own.texts[i] = claim->texts[i];
		ret_texts[i] = NULL;
	}
	r = annotations_share(&input, &share, why);
	if (r == 0)
		r = check_counted(claim, &share, input.device_bytes, domain, why);
	return r == 0 ? copy(&share, ret_texts, why) : r;
}
