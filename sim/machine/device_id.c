/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/device_id.h"

static uint64_t mix(uint64_t value)
{
	value += 0x9e3779b97f4a7c15ULL;
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
	return value ^ (value >> 31);
}

void device_make_uuid(const struct settings *settings, uint32_t number, uint8_t ret_uuid[16])
{
	uint64_t hash = mix(settings->seed ^ mix(number));

	for (const char *at = settings->devices[number].model; *at; at++)
		hash = mix(hash ^ (uint8_t)*at);
	for (size_t i = 0; i < 16; i++) {
		if (i == 8)
			hash = mix(hash);
		ret_uuid[i] = (uint8_t)(hash >> (i % 8 * 8));
	}
	ret_uuid[6] = (ret_uuid[6] & 0x0f) | 0x80; /* version 8: made by a rule of its own */
	ret_uuid[8] = (ret_uuid[8] & 0x3f) | 0x80;
}
