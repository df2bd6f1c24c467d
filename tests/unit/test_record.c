/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording driver and the caller, face to face: what guest tests will put a library between.
 */
#include "tests/test.h"

#include "cuda/prototypes.h"
#include "cuda/record.h"

static void *const functions[API_ROWS] = {
#define CUDA_FUNCTION(base, version, stream, symbol, class, reason, returns, parameters,           \
		      arguments)                                                                   \
	(void *)symbol,
#include "cuda/api.def"
#undef CUDA_FUNCTION
};

static unsigned char places[RECORD_ARGUMENTS * RECORD_PLACE_BYTES];

static struct {
	struct record_maker maker;
	enum api_index function;
	size_t calls, differs;
} seen = {.maker = {.places = places}};

CUresult record_call(enum api_index function, const struct record_argument *arguments, size_t count)
{
	seen.function = function;
	seen.calls++;
	seen.differs = record_differs(&seen.maker, arguments, count);
	return CUDA_ERROR_NOT_READY;
}

static void call(unsigned row, uint64_t seed)
{
	record_begin(&seen.maker, seed);
	seen.calls = 0;
	expect_eq(record_callers[row](functions[row], &seen.maker), CUDA_ERROR_NOT_READY);
	expect_eq(seen.calls, 1);
}

TEST(every_function_records_the_arguments_that_it_is_called_with)
{
	for (unsigned large = 0; large < 2; large++) {
		seen.maker.large = large;
		for (unsigned row = 0; row < API_ROWS; row++) {
			call(row, row);
			expect_eq(seen.function, row);
			if (seen.differs)
				test_fail(__FILE__, __LINE__, "%s: argument %zu differs",
					  api_symbol(&api_rows[row]), seen.differs);
		}
	}
	seen.maker.large = false;
}

TEST(no_two_arguments_of_a_call_are_alike)
{
	for (unsigned row = 0; row < API_ROWS; row++) {
		const struct record_maker *m = &seen.maker;

		call(row, 7);
		for (size_t a = 0; a < m->count; a++)
			for (size_t b = a + 1; b < m->count; b++)
				expect(m->made[a].size != m->made[b].size ||
				       memcmp(m->made[a].bytes, m->made[b].bytes, m->made[a].size));
	}
}

TEST(swapped_changed_lost_and_added_arguments_are_differences)
{
	struct record_maker m = {.places = places};
	uint64_t a, b;
	struct record_argument right[3] = {{&a, sizeof(a)}, {&b, sizeof(b)}, {&b, sizeof(b)}};
	struct record_argument swapped[2] = {{&b, sizeof(b)}, {&a, sizeof(a)}};

	record_begin(&m, 1);
	record_make(&m, RECORD_INTEGER, &a, sizeof(a));
	record_make(&m, RECORD_HANDLE, &b, sizeof(b));
	expect_eq(record_differs(&m, right, 2), 0);
	expect_eq(record_differs(&m, swapped, 2), 1);
	expect_eq(record_differs(&m, right, 1), 2);
	expect_eq(record_differs(&m, right, 3), 3);
	b ^= 1ULL << 63;
	expect_eq(record_differs(&m, right, 2), 2);
}

TEST(pointers_lead_to_zeroed_memory_and_small_integers_fit_into_it)
{
	struct record_maker m = {.places = places};
	unsigned count;
	unsigned char *pointer;
	const char *name;

	record_begin(&m, 3);
	record_make(&m, RECORD_INTEGER, &count, sizeof(count));
	record_make(&m, RECORD_POINTER, &pointer, sizeof(pointer));
	record_make(&m, RECORD_STRING, &name, sizeof(name));
	expect(count > 0 && count < 256);
	expect(strlen(name) > 0);
	for (size_t i = 0; i < RECORD_PLACE_BYTES; i++)
		expect_eq(pointer[i], 0);
	pointer[17] = 1;
	record_begin(&m, 4);
	expect_eq(pointer[17], 0);
}
