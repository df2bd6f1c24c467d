/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the interpreter runs examples/kernels/matmul.cuu and saxpy.cu: instructions of the
 * kernel's threads per second of this thread's CPU time, best of 5. The result is checked. The
 * figure is the slower of the two.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"
#include "examples/kernels/matmul.ptx.h"
#include "examples/kernels/saxpy.ptx.h"
#include "sim/ptx/ptx.h"

enum { MEMORY = 16 << 20, SIZE = 256, LENGTH = 1 << 20, RUNS = 5 };

static const uint64_t DEVICE = 0x700000000000;

static int find_range(void *context, uint64_t address, struct ptx_range *ret_range)
{
	if (address < DEVICE || address >= DEVICE + MEMORY)
		return 1;
	*ret_range = (struct ptx_range){DEVICE, DEVICE + MEMORY,
					(uint64_t)(uintptr_t)context - DEVICE, true};
	return 0;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
	fprintf(stderr, "ptx-speed: %s\n", what);
	exit(1);
}

static struct ptx_module *load(const char *text)
{
	struct ptx_source source = {.text = text};
	struct ptx_options options = {.capability = 70};
	struct ptx_module *module;
	struct ptx_error error;

	if (ptx_module_new(&source, 1, &options, &module, &error) != 0)
		fail(error.text);
	if (ptx_module_place(module, DEVICE, NULL) != 0)
		fail("the module has variables");
	return module;
}

/* Million instructions of threads per second. */
static double run_once(const struct ptx_kernel *kernel, const struct ptx_launch *launch,
		       float *memory)
{
	struct ptx_environment environment = {.context = memory, .find_range = find_range};
	struct ptx_grid *grid;
	uint64_t instructions;
	double begin;
	int r;

	if (ptx_grid_new(kernel, launch, &environment, &grid) != 0)
		fail("the launch was refused");
	begin = seconds();
	do
		r = ptx_grid_run(grid, 1 << 20);
	while (r == PTX_RUNNING || r == PTX_WAITING);
	begin = seconds() - begin;
	if (r != 0)
		fail("the kernel failed");
	instructions = ptx_grid_report(grid)->thread_instructions;
	ptx_grid_free(grid);
	return (double)instructions / begin * 1e-6;
}

static double saxpy(float *memory)
{
	struct {
		uint32_t n;
		float a;
		uint64_t x, y;
	} params = {LENGTH, 2, DEVICE, DEVICE + LENGTH * sizeof(float)};
	struct ptx_launch launch = {.grid = {LENGTH / 256, 1, 1},
				    .block = {256, 1, 1},
				    .params = &params,
				    .params_bytes = sizeof(params)};
	struct ptx_module *module = load(saxpy_ptx);
	double best = 0;

	for (int run = 0; run < RUNS; run++) {
		double speed;

		for (int i = 0; i < LENGTH; i++)
			memory[i] = (float)i, memory[LENGTH + i] = 1;
		speed = run_once(ptx_module_kernel(module, "saxpy"), &launch, memory);
		best = speed > best ? speed : best;
		for (int i = 0; i < LENGTH; i++)
			if (memory[LENGTH + i] != 2 * (float)i + 1)
				fail("saxpy computed something else");
	}
	ptx_module_free(module);
	return best;
}

static void check_product(const float *a, const float *b, const float *c)
{
	for (int row = 0; row < SIZE; row++) {
		for (int column = 0; column < SIZE; column++) {
			float sum = 0;

			/* Small whole numbers: no rounding anywhere. */
			for (int k = 0; k < SIZE; k++)
				sum += a[row * SIZE + k] * b[k * SIZE + column];
			if (c[row * SIZE + column] != sum)
				fail("matmul computed something else");
		}
	}
}

static double matmul(float *memory)
{
	enum { COUNT = SIZE * SIZE, BYTES = COUNT * 4 };
	struct {
		uint64_t a, b, c;
		uint32_t n;
	} params = {DEVICE, DEVICE + BYTES, DEVICE + 2 * BYTES, SIZE};
	struct ptx_launch launch = {.grid = {SIZE / 16, SIZE / 16, 1},
				    .block = {16, 16, 1},
				    .params = &params,
				    .params_bytes = sizeof(params)};
	struct ptx_module *module = load(matmul_ptx);
	double best = 0;

	for (int i = 0; i < COUNT; i++)
		memory[i] = (float)(i % 7), memory[COUNT + i] = (float)(i % 5);
	for (int run = 0; run < RUNS; run++) {
		double speed;

		memset(memory + 2 * COUNT, 0, BYTES);
		speed = run_once(ptx_module_kernel(module, "matmul"), &launch, memory);
		best = speed > best ? speed : best;
		check_product(memory, memory + COUNT, memory + 2 * COUNT);
	}
	ptx_module_free(module);
	return best;
}

int main(void)
{
	float *memory = aligned_alloc(4096, MEMORY);
	double first, second;

	if (!memory)
		fail("no memory");
	first = matmul(memory);
	second = saxpy(memory);
	free(memory);
	printf("figure: ptx_matmul_million_instructions_per_second %.0f Minstr/s\n", first);
	printf("figure: ptx_saxpy_million_instructions_per_second %.0f Minstr/s\n", second);
	printf("figure: ptx_million_instructions_per_second %.0f Minstr/s\n",
	       first < second ? first : second);
	return 0;
}
