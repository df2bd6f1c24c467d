/* SPDX-License-Identifier: Apache-2.0 */
/* One test in a process of its own, without the pattern in fresh memory. */
#include <stdlib.h>

#include "tests/system/sim/node.h"

static const CUmemAllocationProp plain = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
};
static const CUmemAccessDesc both = {{CU_MEM_LOCATION_TYPE_DEVICE, 0},
				     CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

TEST(thousands_of_blocks_need_no_descriptors)
{
	CUmemGenericAllocationHandle handles[1500];
	CUcontext context;
	CUdeviceptr address;

	/* The pattern would touch all of it. Settings are read by cuInit(). */
	setenv("METE_SIM_PATTERN", "off", 1);
	context = node_context();
	expect_ok(cuMemAddressReserve(&address, ARRAY_SIZE(handles) * 2 * MiB, 0, 0, 0));
	for (size_t i = 0; i < ARRAY_SIZE(handles); i++) {
		expect_ok(cuMemCreate(&handles[i], 2 * MiB, &plain, 0));
		expect_ok(cuMemMap(address + i * 2 * MiB, 2 * MiB, 0, handles[i], 0));
		expect_ok(cuMemSetAccess(address + i * 2 * MiB, 2 * MiB, &both, 1));
		expect_ok(cuMemsetD32_v2(address + i * 2 * MiB, (unsigned)i, 16));
	}
	for (size_t i = 0; i < ARRAY_SIZE(handles); i++) {
		unsigned word;

		expect_ok(cuMemcpyDtoH_v2(&word, address + i * 2 * MiB + 60, 4));
		expect_eq(word, i);
		expect_ok(cuMemRelease(handles[i]));
	}
	expect_ok(cuMemUnmap(address, ARRAY_SIZE(handles) * 2 * MiB));
	expect_ok(cuMemAddressFree(address, ARRAY_SIZE(handles) * 2 * MiB));
	expect_ok(cuCtxDestroy_v2(context));
}
