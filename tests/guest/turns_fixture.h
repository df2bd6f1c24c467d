/* SPDX-License-Identifier: Apache-2.0 */
/* A guest on the law driver whose tenant takes turns, as the fake daemon orders. */
#pragma once

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/drivers/law.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/gate_load.h"
#include "tests/guest/guest_test.h"

enum {
	DEADLOCK_MS = 240000, /* then the test has failed */
	NOT_MS = 20,	      /* a wrong message is waited for so long */
};

static const struct wire_tenant_turns told = {.reports = 1, .contended = 1};
static const struct wire_tenant_turns bounded = {
	.reports = 1, .contended = 1, .flight_ns = 4000000};

static struct fake fake;
static struct law *law;
static void *guest;

static void load_guest(const struct wire_tenant_turns *turns)
{
	void *driver;

	fake_start(&fake, 1, FAKE_GOOD);
	fake_pace(&fake, 0, turns);
	guest = guest_load("law");
	load_find(guest);
	driver = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	check(driver != NULL && dlsym(driver, "law_state") != NULL);
	law = *(struct law **)dlsym(driver, "law_state");
}

static uint32_t word;

static void stream_waits_for_word(CUstream stream)
{
	check(guest_function(guest, cuStreamWaitValue32_v2)(stream, (CUdeviceptr)(uintptr_t)&word,
							    1, 0) == CUDA_SUCCESS);
}

static void write_word(void)
{
	__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
}
