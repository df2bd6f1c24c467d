/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/ids.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"

/* With the finalizer of splitmix64, so that sums of these hashes are as well distributed
 * as the hashes themselves. */
uint64_t ids_hash(const char *id)
{
	uint64_t h = hash_text(HASH_BEGIN, id);

	h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
	h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
	return h ^ (h >> 31);
}

void ids_key(const char *resource, const char *const *ids, size_t count, char ret_key[IDS_KEY])
{
	uint64_t sum = ids_hash(resource);

	for (size_t i = 0; i < count; i++)
		sum += ids_hash(ids[i]);
	snprintf(ret_key, IDS_KEY, "%016" PRIx64, sum);
}

static bool all_are_in(const char *const *a, const char *const *b, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t j = 0;

		while (j < count && strcmp(a[i], b[j]) != 0)
			j++;
		if (j == count)
			return false;
	}
	return true;
}

bool ids_same(const char *const *a, size_t a_count, const char *const *b, size_t b_count)
{
	/* Checked both ways: a list that has an id twice lacks another. */
	return a_count == b_count && all_are_in(a, b, a_count) && all_are_in(b, a, a_count);
}

/* Accepts one to six digits and nothing else. */
static int number_of(const char *text)
{
	int number = 0, digits = 0;

	for (; *text >= '0' && *text <= '9' && digits < 6; text++, digits++)
		number = number * 10 + (*text - '0');
	return digits && !*text ? number : -1;
}

int ids_number(const char *id, const char *uuid)
{
	size_t length = strlen(uuid);

	if (strncmp(id, uuid, length) != 0 || strncmp(id + length, "::", 2) != 0)
		return -1;
	return number_of(id + length + 2);
}

int ids_slot(const char *id)
{
	return strncmp(id, "slot-", 5) == 0 ? number_of(id + 5) : -1;
}

void ids_of_device(const char *uuid, unsigned number, char ret_id[IDS_BYTES])
{
	snprintf(ret_id, IDS_BYTES, "%s::%u", uuid, number);
}

void ids_of_slot(unsigned number, char ret_id[IDS_BYTES])
{
	snprintf(ret_id, IDS_BYTES, "slot-%03u", number);
}
