/* SPDX-License-Identifier: Apache-2.0 */
/* A guest on the simulator's driver whose tenant takes turns, as the fake daemon orders. */
#pragma once

#include "tests/guest/fake_meted.h"
#include "tests/guest/gate_load.h"
#include "tests/guest/guest_test.h"

static struct fake fake;
static void *guest;

static void load_guest(const struct wire_tenant_turns *turns)
{
	CUuuid uuid;
	void *driver;

	setenv("METE_DRIVER", getenv("METE_TEST_SIM"), 1);
	setenv("METE_SIM_DIR", getenv("METE_TEST_FOLDER"), 1);
	fake_start(&fake, 1, FAKE_GOOD);
	driver = dlopen(getenv("METE_DRIVER"), RTLD_NOW);
	check(driver != NULL && guest_function(driver, cuInit)(0) == CUDA_SUCCESS);
	check(guest_function(driver, cuDeviceGetUuid)(&uuid, 0) == CUDA_SUCCESS);
	memcpy(fake.page->device[0].uuid, &uuid, sizeof(uuid));
	fake_pace(&fake, 0, turns);
	guest = dlopen(getenv("METE_TEST_GUEST"), RTLD_NOW | RTLD_LOCAL);
	check(guest != NULL);
	load_find(guest);
}
