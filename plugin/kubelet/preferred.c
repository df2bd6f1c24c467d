/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/preferred.h"

struct state {
	const struct preferred_device *devices;
	enum preferred_way way;
	uint32_t must[PREFERRED_DEVICES];   /* of those that must be in the answer */
	uint32_t picked[PREFERRED_DEVICES]; /* beside these */
	size_t next[PREFERRED_DEVICES];	    /* the first id of the device that was not picked */
};

/* The device with fewer of this container's ids comes first: a container that wants two GPUs gets
 * two. */
static bool is_better(const struct state *s, uint32_t a, uint32_t b)
{
	uint32_t a_taken = s->devices[a].taken, b_taken = s->devices[b].taken;
	uint32_t a_all = s->must[a] + s->picked[a], b_all = s->must[b] + s->picked[b];

	bool theirs = s->way == PREFERRED_DISTRIBUTED || s->way == PREFERRED_PACKED;
	bool pack = s->way == PREFERRED_PACK || s->way == PREFERRED_PACKED;

	if (theirs) {
		a_taken += a_all;
		b_taken += b_all;
	} else if (a_all != b_all) {
		return a_all < b_all;
	}
	if (a_taken != b_taken)
		return pack ? a_taken > b_taken : a_taken < b_taken;
	if (theirs && s->picked[a] != s->picked[b])
		return s->picked[a] < s->picked[b];
	return s->next[a] < s->next[b];
}

/* Each device's ids are gone through once: nodes have thousands. */
static size_t next_of(const struct preferred_id *ids, size_t count, uint32_t device, size_t from)
{
	while (from < count && ids[from].device != device)
		from++;
	return from;
}

size_t preferred_choose(const struct preferred_id *ids, size_t count, size_t must,
			const struct preferred_device *devices, enum preferred_way way, size_t size,
			const char **ret)
{
	struct state s = {.devices = devices, .way = way};
	size_t n = 0;

	for (size_t i = 0; i < must && i < count && n < size; i++) {
		ret[n++] = ids[i].id;
		s.must[ids[i].device]++;
	}
	for (uint32_t i = 0; i < PREFERRED_DEVICES; i++)
		s.next[i] = next_of(ids, count, i, must);
	while (n < size) {
		uint32_t best = PREFERRED_DEVICES;

		for (uint32_t i = 0; i < PREFERRED_DEVICES; i++)
			if (s.next[i] < count &&
			    (best == PREFERRED_DEVICES || is_better(&s, i, best)))
				best = i;
		if (best == PREFERRED_DEVICES)
			break;
		ret[n++] = ids[s.next[best]].id;
		s.picked[best]++;
		s.next[best] = next_of(ids, count, best, s.next[best] + 1);
	}
	return n;
}
