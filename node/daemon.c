/* SPDX-License-Identifier: Apache-2.0 */
#include "node/daemon.h"

#include <string.h>

#include "base/text.h"

static const uint64_t second_ns = 1000000000;

enum {
	COMPLAINTS_BURST = 50,
	COMPLAINTS_PER_SECOND = 2,
};

bool daemon_may_complain(struct daemon *d)
{
	uint64_t now = loop_now_ns();
	uint64_t earned = (now - d->complaints.filled_ns) / (second_ns / COMPLAINTS_PER_SECOND);

	if (earned) {
		d->complaints.tokens += earned;
		if (d->complaints.tokens > COMPLAINTS_BURST)
			d->complaints.tokens = COMPLAINTS_BURST;
		d->complaints.filled_ns = now;
	}
	if (!d->complaints.tokens)
		return false;
	d->complaints.tokens--;
	if (!d->complaints.tokens)
		log_warning("daemon.quiet", "too many messages about peers: some are omitted");
	return true;
}

/* As the driver accepts them in CUDA_VISIBLE_DEVICES: whole, or a prefix that is unique. */
static int find_uuid(struct daemon *d, const char *name, uint32_t *ret_index)
{
	int r = -ENOENT;

	for (uint32_t i = 0; i < d->devices; i++) {
		if (d->device[i].info->gone ||
		    !text_uuid_begins(d->device[i].info->uuid_text, name))
			continue;
		if (r == 0)
			return -ENOTUNIQ;
		*ret_index = i;
		r = 0;
	}
	return r;
}

int daemon_find_device(struct daemon *d, const char *name, uint32_t *ret_index)
{
	unsigned long number;
	char *end;

	if (name[0] < '0' || name[0] > '9')
		return find_uuid(d, name, ret_index);
	number = strtoul(name, &end, 10);
	if (*end || strlen(name) >= 4) /* 0711 may begin a UUID */
		return find_uuid(d, name, ret_index);
	if (number >= d->devices || d->device[number].info->gone)
		return -ENOENT;
	*ret_index = (uint32_t)number;
	return 0;
}
