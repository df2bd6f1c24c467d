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
static void *guest, *driver;

static void load_guest(const struct wire_tenant_turns *turns)
{
	fake_start(&fake, 1, FAKE_GOOD);
	fake_pace(&fake, 0, turns);
	guest = guest_load("law");
	load_find(guest);
	driver = dlopen(getenv("METE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
	check(driver != NULL && dlsym(driver, "law_state") != NULL);
	law = *(struct law **)dlsym(driver, "law_state");
}

static uint32_t word;

static void wait_for_word(void *library, CUstream stream)
{
	check(guest_function(library, cuStreamWaitValue32_v2)(stream, (CUdeviceptr)(uintptr_t)&word,
							      1, 0) == CUDA_SUCCESS);
}

static inline void stream_waits_for_word(CUstream stream)
{
	wait_for_word(guest, stream);
}

/* As a kernel does that reads it again and again: the guest does not know of it. */
__attribute__((__unused__)) static void stream_waits_unseen(CUstream stream)
{
	wait_for_word(driver, stream);
}

static inline void write_word(void)
{
	__atomic_store_n(&word, 1, __ATOMIC_RELEASE);
}
