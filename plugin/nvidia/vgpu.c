/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of PCI capabilities is PCI's own. NVIDIA's own capability of a virtual GPU has the
 * signature "VF", and then records: a kind, a length that counts both, and data. The record of kind
 * 0 has the driver's version and its branch.
 */
#include "plugin/nvidia/vgpu.h"

#include <stdio.h>

enum {
	STATUS = 0x06,
	STATUS_HAS_LIST = 0x10,
	LIST = 0x34,
	VENDOR_SPECIFIC = 0x09,
	RECORDS = 5, /* in the capability: where the first one begins */
	TEXT = VGPU_TEXT - 1,
};

/* The offset of the vendor's own capability; 0: there is none. A list may lead to itself. */
static size_t find_capability(const uint8_t *config)
{
	size_t at = config[STATUS] & STATUS_HAS_LIST ? config[LIST] : 0;

	for (int steps = 0; at && at <= VGPU_CONFIG - 3 && steps < VGPU_CONFIG; steps++) {
		if (config[at] == VENDOR_SPECIFIC)
			return at;
		if (config[at] == 0xff)
			return 0;
		at = config[at + 1];
	}
	return 0;
}

static void take_record(const uint8_t *text, struct vgpu *ret_vgpu)
{
	snprintf(ret_vgpu->driver, VGPU_TEXT, "%.*s", TEXT, (const char *)text);
	snprintf(ret_vgpu->branch, VGPU_TEXT, "%.*s", TEXT, (const char *)text + TEXT);
}

int vgpu_read(const uint8_t *config, struct vgpu *ret_vgpu)
{
	size_t at = find_capability(config), end, record;

	*ret_vgpu = (struct vgpu){.driver = ""};
	if (!at)
		return 0;
	end = at + config[at + 2];
	if (end > VGPU_CONFIG)
		end = VGPU_CONFIG;
	if (at + RECORDS > end || config[at + 3] != 'V' || config[at + 4] != 'F')
		return 0;
	for (record = at + RECORDS; record + 2 <= end && config[record] != 0;
	     record += config[record + 1])
		if (config[record + 1] < 2)
			return VGPU_FOUND;
	if (record + 2 + (size_t)2 * TEXT <= end)
		take_record(config + record + 2, ret_vgpu);
	return VGPU_FOUND;
}
