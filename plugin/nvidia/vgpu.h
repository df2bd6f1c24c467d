/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a virtual GPU says, in its PCI configuration space, of the machine that has made it. Pure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	VGPU_CONFIG = 256, /* bytes of the configuration space: only root reads more than 64 */
	VGPU_TEXT = 11,
	VGPU_FOUND = 1,
};

/* That machine's driver: "550.90.05", "r550_90". "": it is not said. */
struct vgpu {
	char driver[VGPU_TEXT], branch[VGPU_TEXT];
};

/* VGPU_FOUND: it is a virtual GPU; 0: it is none. `config` has VGPU_CONFIG bytes. */
must_check int vgpu_read(const uint8_t *config, struct vgpu *ret_vgpu);
