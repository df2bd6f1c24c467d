/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shares that tenants are entitled to, and how far they are from them, in percentage points of
 * the time.
 */
#pragma once

#include "replay/time_world.h"

/* Computes the shares of tenants that are all busy: share = min(cap, max(guarantee, level x
 * weight)), with `level` such that the shares add up to 1, or to what the caps allow. */
void time_measure_ideal(const struct time_load *loads, uint32_t tenants, double *ret_shares);

/* Windows of `samples` samples: all those that begin at `first` or later and end by `last`. */
struct time_window {
	size_t samples, first, last;
};

/* The largest difference, over all windows, between a tenant's part of what all tenants had and its
 * share. / The same, for the tenant with the largest one. */
double time_measure_tenant_error(const uint64_t *sums, uint32_t tenants, uint32_t tenant,
				 const struct time_window *window, const double *shares);
double time_measure_share_error(const uint64_t *sums, uint32_t tenants,
				const struct time_window *window, const double *shares);
/* The most, and the least, that the tenant had in a window, in percent of the window's length. */
double time_measure_most(const uint64_t *sums, uint32_t tenants, uint32_t tenant,
			 const struct time_window *window, uint64_t sample_ns);
double time_measure_least(const uint64_t *sums, uint32_t tenants, uint32_t tenant,
			  const struct time_window *window, uint64_t sample_ns);
/* Returns the first sample from which on all that the tenants have had since window->first is
 * within `points` of the shares, until window->last. */
size_t time_measure_converged(const uint64_t *sums, uint32_t tenants,
			      const struct time_window *window, const double *shares,
			      double points);
