/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/time_measure.h"

#include <math.h>

enum { BISECTIONS = 100 };

static double share_at(const struct time_load *load, double level, uint32_t tenants)
{
	double share = level * load->share.weight, cap = load->share.cap_milli / 1000.0;

	if (load->share.equal && 1.0 / tenants < cap)
		cap = 1.0 / tenants;
	if (share < load->share.guarantee_milli / 1000.0)
		share = load->share.guarantee_milli / 1000.0;
	return share < cap ? share : cap;
}

void time_measure_ideal(const struct time_load *loads, uint32_t tenants, double *ret_shares)
{
	double low = 0, high = 1;

	for (int i = 0; i < BISECTIONS; i++) {
		double level = (low + high) / 2, sum = 0;

		for (uint32_t k = 0; k < tenants; k++)
			sum += share_at(&loads[k], level, tenants);
		*(sum < 1 ? &low : &high) = level;
	}
	for (uint32_t k = 0; k < tenants; k++)
		ret_shares[k] = share_at(&loads[k], high, tenants);
}

static uint64_t had(const uint64_t *sums, uint32_t tenants, uint32_t tenant, size_t from, size_t to)
{
	return sums[to * tenants + tenant] - sums[from * tenants + tenant];
}

static double error_of(const uint64_t *sums, uint32_t tenants, uint32_t tenant, size_t from,
		       size_t to, const double *shares)
{
	double all = 0, ideal = 0;

	for (uint32_t k = 0; k < tenants; k++) {
		all += (double)had(sums, tenants, k, from, to);
		ideal += shares[k];
	}
	if (all <= 0)
		return 100;
	return 100 *
	       fabs((double)had(sums, tenants, tenant, from, to) / all - shares[tenant] / ideal);
}

double time_measure_tenant_error(const uint64_t *sums, uint32_t tenants, uint32_t tenant,
				 const struct time_window *window, const double *shares)
{
	double worst = 0;

	for (size_t i = window->first; i + window->samples <= window->last; i++)
		worst = fmax(worst,
			     error_of(sums, tenants, tenant, i, i + window->samples, shares));
	return worst;
}

double time_measure_share_error(const uint64_t *sums, uint32_t tenants,
				const struct time_window *window, const double *shares)
{
	double worst = 0;

	for (uint32_t k = 0; k < tenants; k++)
		worst = fmax(worst, time_measure_tenant_error(sums, tenants, k, window, shares));
	return worst;
}

double time_measure_most(const uint64_t *sums, uint32_t tenants, uint32_t tenant,
			 const struct time_window *window, uint64_t sample_ns)
{
	double best = 0, length = (double)(window->samples * sample_ns);

	for (size_t i = window->first; i + window->samples <= window->last; i++)
		best = fmax(best, (double)had(sums, tenants, tenant, i, i + window->samples));
	return 100 * best / length;
}

double time_measure_least(const uint64_t *sums, uint32_t tenants, uint32_t tenant,
			  const struct time_window *window, uint64_t sample_ns)
{
	double length = (double)(window->samples * sample_ns), least = length;

	for (size_t i = window->first; i + window->samples <= window->last; i++)
		least = fmin(least, (double)had(sums, tenants, tenant, i, i + window->samples));
	return 100 * least / length;
}

size_t time_measure_converged(const uint64_t *sums, uint32_t tenants,
			      const struct time_window *window, const double *shares, double points)
{
	size_t from = window->last;

	for (size_t to = window->last; to > window->first; to--) {
		double worst = 0;

		for (uint32_t k = 0; k < tenants; k++)
			worst = fmax(worst, error_of(sums, tenants, k, window->first, to, shares));
		if (worst > points)
			break;
		from = to;
	}
	return from;
}
