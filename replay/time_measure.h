/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tenants were entitled to, and how far from it they were: in points, hundredths of the time.
 */
#pragma once

#include "replay/time_world.h"

/* The shares of tenants that are all busy: by weight, no less than the guarantee, no more than the
 * cap. They sum up to 1, or to what the caps allow. */
void time_measure_ideal(const struct time_load *loads, uint32_t tenants, double *ret_shares);

/* A window of `samples`, and all that begin from `first` on and end by `last`. */
struct time_window {
	size_t samples, first, last;
};

/* The largest difference between a tenant's part of what all had in a window, and its share; of one
 * tenant, and of all. */
double time_measure_tenant_error(const uint64_t *sums, uint32_t tenants, uint32_t tenant,
				 const struct time_window *window, const double *shares);
double time_measure_share_error(const uint64_t *sums, uint32_t tenants,
				const struct time_window *window, const double *shares);
/* The most, and the least, that the tenant had of a window's own length, in hundredths. */
double time_measure_most(const uint64_t *sums, uint32_t tenants, uint32_t tenant,
			 const struct time_window *window, uint64_t sample_ns);
double time_measure_least(const uint64_t *sums, uint32_t tenants, uint32_t tenant,
			  const struct time_window *window, uint64_t sample_ns);
/* The first sample at which what all have had since window->first is within `points`, and stays so
 * until window->last. */
size_t time_measure_converged(const uint64_t *sums, uint32_t tenants,
			      const struct time_window *window, const double *shares,
			      double points);
