/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the tests of the PTX interpreter: device memory as an array, and a kernel's way from text to
 * report in one call.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include "sim/ptx/ptx.h"
#include "tests/test.h"

enum { HARNESS_BYTES = 1 << 22, HARNESS_CAPABILITY = 90 };

static const uint64_t HARNESS_DEVICE = 0x700000000000ull;
/* Where kernels of these tests find what they work on; below lie the module's variables. */
static const uint64_t HARNESS_DATA = 0x700000000000ull + (1 << 20);

struct harness {
	uint8_t *memory;
	struct ptx_module *module;
	struct ptx_report report;
	struct ptx_error error;
	char printed[4096];
	size_t n_printed;
	uint64_t heap_at, now_ns, runs;
	struct ptx_environment env;
};

static struct harness harness;

#ifdef HARNESS_ON_DRIVER
#include "tests/gpu/ptx_on_driver.inc"
#endif

static int harness_range(void *context, uint64_t address, struct ptx_range *ret_range)
{
	(void)context;
	if (address < HARNESS_DEVICE || address >= HARNESS_DEVICE + HARNESS_BYTES)
		return 1;
	*ret_range = (struct ptx_range){HARNESS_DEVICE, HARNESS_DEVICE + HARNESS_BYTES,
					(uint64_t)(uintptr_t)harness.memory - HARNESS_DEVICE, true};
	return 0;
}

static uint64_t harness_now(void *context)
{
	(void)context;
	return harness.now_ns;
}

static uint64_t harness_alloc(void *context, uint64_t bytes)
{
	uint64_t at = harness.heap_at;

	(void)context;
	if (bytes > 1 << 16)
		return 0;
	harness.heap_at += (bytes + 63) & ~63ull;
	return at;
}

static void harness_free(void *context, uint64_t address)
{
	(void)context, (void)address;
}

static void harness_print(void *context, const char *text, size_t bytes)
{
	(void)context;
	if (bytes > sizeof(harness.printed) - 1 - harness.n_printed)
		bytes = sizeof(harness.printed) - 1 - harness.n_printed;
	memcpy(harness.printed + harness.n_printed, text, bytes);
	harness.n_printed += bytes;
}

static unused void *harness_data(void)
{
	return harness.memory + (HARNESS_DATA - HARNESS_DEVICE);
}

static void harness_start(void)
{
	ptx_module_free(harness.module);
	harness.module = NULL;
	if (!harness.memory)
		harness.memory = aligned_alloc(4096, HARNESS_BYTES);
	expect(harness.memory != NULL);
	harness.n_printed = 0;
	memset(harness.printed, 0, sizeof(harness.printed));
	harness.heap_at = HARNESS_DEVICE + (3 << 20);
	harness.env = (struct ptx_environment){.find_range = harness_range,
					       .now_ns = harness_now,
					       .heap_alloc = harness_alloc,
					       .heap_free = harness_free,
					       .print = harness_print};
}

/* METE_PTX_TEXTS names a folder: each text that is loaded or refused is left there, for a look at
 * what NVIDIA's own compiler says to it. */
static void harness_leave(const char *text, int refused)
{
	const char *folder = getenv("METE_PTX_TEXTS");
	static unsigned n;
	char path[512];
	FILE *file;

	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/%s-%u.ptx", folder, refused ? "refused" : "taken", n++);
	file = fopen(path, "w");
	expect(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static unused int harness_try(const char *text)
{
	struct ptx_source source = {.text = text, .name = "test"};
	struct ptx_options options = {.capability = HARNESS_CAPABILITY};

	int r;

	harness_start();
	r = ptx_module_new(&source, 1, &options, &harness.module, &harness.error);
	harness_leave(text, r);
	return r;
}

static unused void harness_place(void)
{
	expect_eq(ptx_module_place(harness.module, HARNESS_DEVICE, harness.memory), 0);
}

static unused void harness_load(const char *text)
{
	int r = harness_try(text);

	if (r)
		test_fail(__FILE__, __LINE__, "load is %d: %s", r, harness.error.text);
	harness_place();
#ifdef HARNESS_ON_DRIVER
	on_driver_load(text);
#endif
}

/* As much as a body needs around it; %in is the data's address, %t the thread's index. */
#define HARNESS_HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define HARNESS_KERNEL(name)                                                                       \
	".visible .entry " name "(.param .u64 p0)\n{\n.reg .u64 %in, %at;\n.reg .u32 %t;\n"        \
	"ld.param.u64 %in, [p0];\nmov.u32 %t, %tid.x;\n"

static unused int harness_launch(const char *name, uint32_t blocks, uint32_t threads,
				 uint32_t dynamic_shared)
{
	const struct ptx_kernel *kernel = ptx_module_kernel(harness.module, name);
	uint64_t params[8] = {HARNESS_DATA, HARNESS_DATA + (1 << 20), 3, 4};
	struct ptx_launch launch = {.grid = {blocks, 1, 1},
				    .block = {threads, 1, 1},
				    .dynamic_shared_bytes = dynamic_shared,
				    .params = params,
				    .params_bytes = sizeof(params)};
	struct ptx_grid *grid;
	int r;

	expect(kernel != NULL);
	r = ptx_grid_new(kernel, &launch, &harness.env, &grid);
	if (r)
		return 100 + r;
	harness.runs = 0;
	do
		r = ptx_grid_run(grid, 10000);
	while ((r == PTX_RUNNING || r == PTX_WAITING) && ++harness.runs < 10000);
	harness.report = *ptx_grid_report(grid);
	ptx_grid_free(grid);
	return r;
}

static unused void harness_run(const char *name, uint32_t blocks, uint32_t threads)
{
	int r = 0;

#ifdef HARNESS_ON_DRIVER
	if (on_driver_ready())
		on_driver_run(name, blocks, threads);
	else
#endif
		r = harness_launch(name, blocks, threads, 0);

	if (r)
		test_fail(__FILE__, __LINE__, "run is %d: fault %d at line %u of %s, address %llx",
			  r, (int)harness.report.fault, harness.report.fault_line,
			  harness.report.fault_function ? harness.report.fault_function : "nothing",
			  (unsigned long long)harness.report.fault_address);
}
