/* SPDX-License-Identifier: Apache-2.0 */
/* Any PCI configuration space: what is read of it ends, and its texts have room. */
#include <stdlib.h>
#include <string.h>

#include "plugin/nvidia/vgpu.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *config = calloc(1, VGPU_CONFIG); /* a sanitizer sees what is beyond it */
	struct vgpu vgpu;
	int r;

	if (!config)
		return 0;
	memcpy(config, data, size < VGPU_CONFIG ? size : VGPU_CONFIG);
	r = vgpu_read(config, &vgpu);
	if ((r != 0 && r != VGPU_FOUND) || strlen(vgpu.driver) >= VGPU_TEXT ||
	    strlen(vgpu.branch) >= VGPU_TEXT || (r == 0 && (*vgpu.driver || *vgpu.branch)))
		abort();
	free(config);
	return 0;
}
