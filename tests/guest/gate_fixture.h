/* SPDX-License-Identifier: Apache-2.0 */
/* A guest on the law driver, whose gates the fake daemon closes and opens. */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "tests/drivers/law.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/gate_load.h"
#include "tests/guest/guest_test.h"

enum {
	DEADLOCK_MS = 240000, /* then the test has failed */
};

static struct fake fake;
static struct law *law;
static void *guest;

static struct wire_tenant_turns turns;

static void load_guest(const char *driver)
{
	void *handle;

	fake_start(&fake, 1, FAKE_GOOD);
	guest = guest_load(driver);
	load_find(guest);
	handle = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	check(handle != NULL && dlsym(handle, "law_state") != NULL);
	law = *(struct law **)dlsym(handle, "law_state");
	fake_pace(&fake, 0, &turns);
}
