/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls that the benchmarks of cost (bench) measure: guest_cost LIBRARY WHAT COUNT calls the
 * driver COUNT times through LIBRARY (the guest, or a driver itself). WHAT: launch, launch-beside
 * (rivals that do not want the device), launch-against (one that waits for it), resolve; alloc-LIVE
 * and large-LIVE allocate and free COUNT times while LIVE other allocations are there, of 4 KiB or
 * of 4 MiB. With "tables-" before WHAT, the driver's private tables are asked for first.
 */
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

static void launch(void *library, unsigned long count)
{
	api_fn_cuLaunchKernel *f = guest_function(library, cuLaunchKernel);

	for (unsigned long i = 0; i < count; i++)
		f((CUfunction)1, 1, 2, 3, 4, 5, 6, 7, (CUstream)8, NULL, NULL);
}

static void resolve(void *library, unsigned long count)
{
	static const char *const names[] = {"cuMemAlloc", "cuLaunchKernel", "cuCtxGetDevice",
					    "cuStreamBeginCapture", "cuGetProcAddress"};
	api_fn_cuGetProcAddress_v2 *f = guest_function(library, cuGetProcAddress_v2);
	CUdriverProcAddressQueryResult status;
	void *address;

	for (unsigned long i = 0; i < count; i++)
		check(f(names[i % ARRAY_SIZE(names)], &address, 12090, 0, &status) == 0);
}

/* The null driver writes no address: the one that stands there counts as its answer. Addresses come
 * and go in an order that has nothing to do with theirs. */
static void allocate(void *library, unsigned long live, uint64_t bytes, unsigned long count)
{
	api_fn_cuMemAlloc_v2 *alloc = guest_function(library, cuMemAlloc_v2);
	api_fn_cuMemFree_v2 *free_ = guest_function(library, cuMemFree_v2);
	unsigned long places = live + 1, oldest = 0, newest = 0;
	const unsigned long step = 7919; /* a prime that divides no number of places used here */
	CUdeviceptr address;

	for (unsigned long i = 0; i < live + count; i++) {
		address = 0x7f0000000000 + newest * bytes;
		newest = (newest + step) % places;
		check(alloc(&address, bytes) == CUDA_SUCCESS);
		if (i < live)
			continue;
		check(free_(0x7f0000000000 + oldest * bytes) == CUDA_SUCCESS);
		oldest = (oldest + step) % places;
	}
}

static void ask_for_tables(void *library)
{
	CUuuid id = {{0}};
	const void *table;

	check(guest_function(library, cuGetExportTable)(&table, &id) == CUDA_SUCCESS);
}

static void call(void *library, const char *what, unsigned long count)
{
	if (strncmp(what, "launch", 6) == 0)
		launch(library, count);
	else if (strncmp(what, "alloc-", 6) == 0)
		allocate(library, strtoul(what + 6, NULL, 10), 4 << 10, count);
	else if (strncmp(what, "large-", 6) == 0)
		allocate(library, strtoul(what + 6, NULL, 10), 4 << 20, count);
	else
		resolve(library, count);
}

/* Until the guest does what it is told: what comes before costs what it likes. */
static void take_turns(struct fake *fake, void *library, const char *what)
{
	struct wire_tenant_turns turns = {.reports = 1, .flight_ns = 100000000};

	if (strcmp(what, "launch-against") == 0)
		turns = (struct wire_tenant_turns){
			.reports = 1, .contended = 1, .flight_ns = 4000000};
	fake_pace(fake, 0, &turns);
	/* Of a driver itself there is no guest to wait for. */
	if (fake->guests)
		check(fake_wait_idle(fake, 0, 1, 60000));
	launch(library, 20000);
}

int main(int argc, char **argv)
{
	static struct fake fake;
	const char *what = argv[2];
	void *library;

	if (argc != 4) {
		fprintf(stderr, "usage: guest_cost LIBRARY "
				"[tables-]launch[-beside|-against]|resolve|alloc-LIVE|large-LIVE "
				"COUNT\n");
		return 2;
	}
	fake_start(&fake, 1, FAKE_GOOD);
	fake.limit_bytes = fake.page->device[0].limit_bytes = 1ull << 40;
	fake.page->device[0].total_bytes = fake.page->device[0].room_bytes = 1ull << 40;
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "guest_cost: %s\n", dlerror());
		return 1;
	}
	check(guest_function(library, cuInit)(0) == CUDA_SUCCESS);
	if (strncmp(what, "tables-", 7) == 0) {
		what += 7;
		ask_for_tables(library);
	}
	if (strncmp(what, "launch-", 7) == 0)
		take_turns(&fake, library, what);
	call(library, what, strtoul(argv[3], NULL, 10));
	fake_stop(&fake);
	return 0;
}
