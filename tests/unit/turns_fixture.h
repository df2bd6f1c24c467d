/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of shares: tenants on a virtual clock. */
#pragma once

#include "core/turns/turns.h"

#include <math.h>

#include "base/least.h"
#include "replay/time_measure.h"
#include "tests/test.h"

#define US 1000ull
#define MS 1000000ull

enum { TENANTS = 12 };

static struct {
	struct time_load loads[TENANTS];
	struct time_setup setup;
	struct time_outcome out;
} m;

static inline uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

static inline void given(uint32_t tenants, uint64_t length_ns)
{
	memset(&m, 0, sizeof(m));
	time_setup_init(&m.setup);
	m.setup.loads = m.loads;
	m.setup.tenants = tenants;
	m.setup.length_ns = length_ns;
	for (uint32_t i = 0; i < tenants; i++)
		time_load_init(&m.loads[i]);
}

static inline void run(void)
{
	struct fault why;

	expect_eq(time_world_run(&m.setup, &m.out, &why), 0);
}

static inline void done(void)
{
	time_outcome_done(&m.out, m.setup.tenants);
}

/* In hundredths, of all that was charged from the second given on. */
static inline double share_of(uint32_t tenant, size_t from_s)
{
	size_t n = m.setup.tenants, last = (m.out.samples - 1) * n, first = (from_s * 100 - 1) * n;
	double all = 0;

	for (size_t i = 0; i < n; i++)
		all += (double)(m.out.charged[last + i] - m.out.charged[first + i]);
	return 100 * (double)(m.out.charged[last + tenant] - m.out.charged[first + tenant]) / all;
}

static inline void expect_about(double got, double wanted, double within)
{
	if (got < wanted - within || got > wanted + within)
		test_fail(__FILE__, __LINE__, "%.3f, wanted %.3f within %.3f", got, wanted, within);
}
