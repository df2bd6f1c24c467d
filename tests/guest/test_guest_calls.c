/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of the driver, by every route, on the recording driver. This program is linked
 * against libcuda.so.1, and finds the guest under that name.
 *
 *	routes      no function of an enforcing class is reachable but through the guest
 *	arguments   what the caller passes is what the driver gets, in registers and on the stack
 *	actions     each enforcing function does something: submissions wait at a closed gate,
 *	            refused functions never reach the driver, the others return through the guest
 *
 * Prints `escapes` and the other counts for bench/coverage.sh.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "tests/drivers/rows.h"
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

enum {
	DRIVER = 12090,
	WORDS = 22, /* six registers and sixteen words of stack */
	PLACE = 8192,
};

/* Functions with a hook that does not call the driver for the arguments used here, and why. */
static const struct {
	const char *symbol;
	const char *why;
} answered_by_guest[] = {
#include "tests/guest/answered.def"
};

typedef uint32_t any_function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			      uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			      uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			      uint64_t, double, double);

static struct {
	struct fake fake;
	struct record *ring;
	uint32_t *count;
	char *places;
	void *guest, *driver; /* handles */
	char guest_path[512];
	unsigned escapes, routes, called, changed, inert, gated;
} g;

static bool in_guest(const void *address)
{
	Dl_info about, known;

	return dladdr(address, &about) && dladdr(dlsym(g.guest, "cuInit"), &known) &&
	       about.dli_fbase == known.dli_fbase;
}

static void load(void)
{
	char path[512];

	fake_start(&g.fake, 1, FAKE_GOOD);
	snprintf(path, sizeof(path), "%s/libdriver-record.so", getenv("METE_TEST_DRIVERS"));
	setenv("METE_DRIVER", path, 1);
	g.guest = dlopen("libcuda.so.1", RTLD_NOW);
	check(g.guest != NULL);
	check(((CUresult(*)(unsigned))dlsym(g.guest, "cuInit"))(0) == CUDA_SUCCESS);
	g.driver = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	check(g.driver != NULL);
	g.ring = dlsym(g.driver, "record_ring");
	g.count = dlsym(g.driver, "record_count");
	g.places = calloc(WORDS + 1, PLACE);
	check(g.ring && g.count && g.places);
}

static bool is_exported(const struct driver_row *row)
{
	return row->version <= DRIVER;
}

/* One way to a function. */
static void route(const struct driver_row *row, const char *way, const void *address,
		  bool must_be_ours)
{
	g.routes++;
	if (!address) {
		fprintf(stderr, "%s: not found by %s\n", row->symbol, way);
		_exit(1);
	}
	if (row->class != DRIVER_PASS && !in_guest(address)) {
		fprintf(stderr, "escape: %s by %s\n", row->symbol, way);
		g.escapes++;
	}
	if (must_be_ours && row->class != DRIVER_PASS && address != (void *)row->linked) {
		fprintf(stderr, "escape: %s by %s is another function of ours\n", row->symbol, way);
		g.escapes++;
	}
}

static void by_look_up(const struct driver_row *row, api_fn_cuGetProcAddress *v1,
		       api_fn_cuGetProcAddress_v2 *v2)
{
	uint64_t flags = row->stream == DRIVER_PLAIN ? 0 : 2;
	CUdriverProcAddressQueryResult status;
	void *address = NULL;

	check(v1(row->base, &address, row->version, flags) == CUDA_SUCCESS);
	route(row, "cuGetProcAddress", address, true);
	address = NULL;
	check(v2(row->base, &address, row->version, flags, &status) == CUDA_SUCCESS);
	route(row, "cuGetProcAddress_v2", address, true);
	/* As a newer program asks: whatever it gets. */
	for (uint64_t f = 0; f < 3; f++) {
		address = NULL;
		if (v2(row->base, &address, 99990, f, &status) == CUDA_SUCCESS)
			route(row, "cuGetProcAddress_v2 for a newer version", address, false);
	}
}

static void all_routes(void)
{
	void *other = dlopen("libcuda.so", RTLD_NOW);
	api_fn_cuGetProcAddress *v1;
	api_fn_cuGetProcAddress_v2 *v2;
	void *inner1 = NULL, *inner2 = NULL;

	load();
	check(other == g.guest);
	v1 = (api_fn_cuGetProcAddress *)dlsym(g.guest, "cuGetProcAddress");
	v2 = (api_fn_cuGetProcAddress_v2 *)dlsym(g.guest, "cuGetProcAddress_v2");
	/* As NVIDIA's runtime: it goes on with the function to which the name itself leads. */
	check(v1("cuGetProcAddress", &inner1, 11030, 0) == CUDA_SUCCESS && inner1 == (void *)v1);
	check(v2("cuGetProcAddress", &inner2, 12000, 0, NULL) == CUDA_SUCCESS &&
	      inner2 == (void *)v2);
	for (unsigned i = 0; i < driver_row_count; i++) {
		const struct driver_row *row = &driver_rows[i];
		void *versioned;

		if (!is_exported(row)) {
			check(row->linked == NULL && dlsym(g.guest, row->symbol) == NULL);
			continue;
		}
		route(row, "linking", (void *)row->linked, true);
		route(row, "dlsym", dlsym(g.guest, row->symbol), true);
		route(row, "dlsym of libcuda.so", dlsym(other, row->symbol), true);
		route(row, "dlsym of everything", dlsym(RTLD_DEFAULT, row->symbol), true);
		versioned = dlvsym(g.guest, row->symbol, "GLIBC_2.2.5");
		if (versioned)
			route(row, "dlvsym", versioned, true);
		by_look_up(row, v1, v2);
		by_look_up(row, (api_fn_cuGetProcAddress *)inner1,
			   (api_fn_cuGetProcAddress_v2 *)inner2);
	}
	printf("routes: %u\nescapes: %u\n", g.routes, g.escapes);
	fflush(stdout);
	check(g.escapes == 0);
}

TEST(no_function_escapes_by_any_route)
{
	expect_eq(in_child(all_routes, NULL, 0), 0);
}

static bool is_hook(const struct driver_row *row)
{
	return row->hooked || row->class == DRIVER_ALLOC || row->class == DRIVER_FREE ||
	       row->class == DRIVER_QUERY || row->class == DRIVER_CONTEXT ||
	       row->class == DRIVER_RESOLVE || row->class == DRIVER_CAPTURE;
}

static void make_arguments(const struct driver_row *row, uint64_t *words)
{
	size_t declared = strlen(row->shape);

	for (size_t i = 0; i < WORDS; i++) {
		char shape = i < declared ? row->shape[i] : 'p';

		words[i] = (uint64_t)(uintptr_t)(g.places + i * PLACE);
		/* A hook may believe a number; a trampoline does not look. */
		if (is_hook(row) && (shape == 'i' || shape == 's'))
			words[i] = 3 + i;
	}
	memset(g.places, 0, (size_t)WORDS * PLACE);
}

static uint32_t call(const struct driver_row *row, const uint64_t *w)
{
	return ((any_function *)row->linked)(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8],
					     w[9], w[10], w[11], w[12], w[13], w[14], w[15], w[16],
					     w[17], w[18], w[19], w[20], w[21], 1.5, 2.5);
}

static const struct record *recorded(unsigned index, uint32_t since)
{
	uint32_t now = __atomic_load_n(g.count, __ATOMIC_SEQ_CST);

	if (now - since > RECORDS)
		since = now - RECORDS;
	for (; since != now; since++)
		if ((uint32_t)g.ring[since % RECORDS].index == index)
			return &g.ring[since % RECORDS];
	return NULL;
}

static uint64_t word_of(const struct record *r, size_t i)
{
	return i < 6 ? r->registers[i] : r->stack[i - 6];
}

/* Structs by value are on the stack, and the arguments after them move up. */
static size_t word_index(const struct driver_row *row, size_t argument)
{
	size_t index = 0;

	if (row->shape[argument] == 'S')
		return 6;
	for (size_t i = 0; i < argument; i++)
		index += row->shape[i] != 'S';
	return index;
}

/* A trampoline passes everything on, whatever the prototype; a hook what its prototype names. */
static bool arguments_differ(const struct driver_row *row, const struct record *r,
			     const uint64_t *words)
{
	size_t declared = strlen(row->shape);

	for (size_t i = 0; i < (is_hook(row) ? declared : WORDS); i++) {
		size_t at = is_hook(row) ? word_index(row, i) : i;
		uint64_t mask = UINT64_MAX;

		if (is_hook(row) && row->widths[i] == '4')
			mask = 0xffffffffu;
		if (is_hook(row) && row->widths[i] < '4')
			mask = row->widths[i] == '1' ? 0xff : 0xffff;
		if ((word_of(r, at) & mask) != (words[at] & mask))
			return true;
	}
	if (is_hook(row))
		return false;
	/* 1.5 and 2.5. */
	return r->xmm[0] != 0x3ff8000000000000 || r->xmm[1] != 0x4004000000000000;
}

static const char *answered(const struct driver_row *row)
{
	for (size_t i = 0; i < ARRAY_SIZE(answered_by_guest); i++)
		if (answered_by_guest[i].symbol &&
		    strcmp(answered_by_guest[i].symbol, row->symbol) == 0)
			return answered_by_guest[i].why;
	return NULL;
}

static bool is_refused(const struct driver_row *row)
{
	return row->class == DRIVER_REFUSE;
}

static void call_one(unsigned index)
{
	const struct driver_row *row = &driver_rows[index];
	uint32_t before = __atomic_load_n(g.count, __ATOMIC_SEQ_CST);
	const struct record *r;
	uint64_t words[WORDS];
	uint32_t answer;
	bool through;

	make_arguments(row, words);
	answer = call(row, words);
	g.called++;
	r = recorded(index, before);
	if (is_refused(row)) {
		check(answer == CUDA_ERROR_NOT_SUPPORTED && !r);
		return;
	}
	if (!r) {
		if (answered(row))
			return;
		fprintf(stderr, "%s never reached the driver: answered %u\n", row->symbol, answer);
		g.changed++;
		return;
	}
	if (arguments_differ(row, r, words)) {
		if (answered(row))
			return;
		fprintf(stderr, "%s: other arguments arrived\n", row->symbol);
		g.changed++;
	}
	through = in_guest((void *)(uintptr_t)r->return_address);
	/* A hook may end in a jump to the driver; tests of their own show that each acts. */
	if (!is_hook(row) && through == (row->class == DRIVER_PASS)) {
		fprintf(stderr, "%s (class %d) %s\n", row->symbol, (int)row->class,
			through ? "has a detour" : "does not act");
		g.inert++;
	}
}

static void all_arguments(void)
{
	load();
	/* Twice: the first call of a function goes through the stub that resolves it. */
	for (int round = 0; round < 2; round++)
		for (unsigned i = 0; i < driver_row_count; i++)
			if (is_exported(&driver_rows[i]))
				call_one(i);
	printf("calls: %u\nchanged: %u\ninert: %u\n", g.called, g.changed, g.inert);
	fflush(stdout);
	check(g.changed == 0);
	check(g.inert == 0);
}

TEST(every_argument_arrives_and_every_enforcing_function_acts)
{
	expect_eq(in_child(all_arguments, NULL, 0), 0);
}

static atomic_uint turn, done;

static void *caller(void *argument)
{
	uint64_t words[WORDS];

	(void)argument;
	for (unsigned i = 0; i < driver_row_count; i++) {
		if (driver_rows[i].class != DRIVER_LAUNCH || !is_exported(&driver_rows[i]))
			continue;
		while (turn != i + 1)
			sched_yield();
		make_arguments(&driver_rows[i], words);
		call(&driver_rows[i], words);
		done = i + 1;
	}
	return NULL;
}

/* Each submission stands at the closed gate and reaches the driver when it opens. */
static void all_gated(void)
{
	pthread_t thread;
	uint32_t before;

	load();
	check(pthread_create(&thread, NULL, caller, NULL) == 0);
	for (unsigned i = 0; i < driver_row_count; i++) {
		if (driver_rows[i].class != DRIVER_LAUNCH || !is_exported(&driver_rows[i]))
			continue;
		fake_close_gate(&g.fake, 0);
		check(fake_wait_drained(&g.fake, 0, 240000));
		before = __atomic_load_n(g.count, __ATOMIC_SEQ_CST);
		turn = i + 1;
		while (fake_waiting(&g.fake) == 0)
			sched_yield();
		check(recorded(i, before) == NULL && done != i + 1);
		fake_open_gate(&g.fake, 0);
		while (done != i + 1)
			sched_yield();
		check(recorded(i, before) != NULL);
		g.gated++;
	}
	pthread_join(thread, NULL);
	printf("gated: %u\n", g.gated);
	fflush(stdout);
}

TEST(every_submission_waits_at_a_closed_gate)
{
	expect_eq(in_child(all_gated, NULL, 0), 0);
}
