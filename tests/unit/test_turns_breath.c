/* SPDX-License-Identifier: Apache-2.0 */
/* Drains of kernels that last for long, or for ever, and of which no thread stands at the gate:
 * those who wait have a moment of the device now and then. */
#include "tests/unit/turns_sliced.h"

enum { NEIGHBOURS = 3, GAP_MS = 400 };

static void given_kernels_of(uint64_t ns, unsigned neighbours)
{
	given(false);
	add(EVEN, 100, ns);
	for (unsigned i = 0; i < neighbours; i++)
		add(GREEDY, 100, 1 * MS);
	begin();
}

static uint64_t longest_gap_ms(void)
{
	uint64_t longest = 0;

	for (unsigned i = 1; i < m.programs; i++)
		longest = most(longest, m.program[i].gap_ns);
	return longest / MS;
}

/* They waited for 0.9 s, until it was reported. */
TEST(neighbours_of_a_kernel_that_never_ends_have_the_device_now_and_then)
{
	for (unsigned n = 1; n <= NEIGHBOURS; n++) {
		given_kernels_of(3600000 * MS, n);
		run(3000 * MS);
		expect_eq(m.hung, 1);
		expect(longest_gap_ms() <= GAP_MS);
	}
}

/* Its drains may end while somebody has such a moment: it does not wait for him. */
TEST(a_tenant_with_long_kernels_has_its_part_and_is_not_said_to_await_its_neighbours)
{
	for (uint64_t kernel = 250; kernel <= 850; kernel += 200) {
		for (unsigned n = 1; n <= NEIGHBOURS; n++) {
			given_kernels_of(kernel * MS, n);
			run(5000 * MS);
			forget_what_they_had();
			run(40000 * MS);
			expect_eq(m.hung + m.found, 0);
			expect(longest_gap_ms() <= GAP_MS);
			expect(had(&m.program[0], 40000 * MS) >= 85.0 / (n + 1));
		}
	}
}
