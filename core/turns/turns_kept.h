/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a seat owes, for whoever takes the caller's place (decisions/0216), and for tenants within
 * tenants. Pure.
 */
#pragma once

#include "core/turns/turns.h"

struct turns_kept {
	uint64_t at_ns;			       /* 0: nothing is known */
	uint64_t owed_ns;		       /* what it had beyond its part by its weight */
	uint64_t cap_owed, unpaid, floor_owed; /* thousandths of ns */
	uint64_t owing_ns, watched_until_ns;   /* as those of a seat, and of a tenant */
	uint32_t left;			       /* as those of a tenant: this one and the next */
	bool computes;
	bool ran; /* it wanted to run, and from then on no gate was closed */
};

/* What it owes now. */
void turns_keep(struct turns_seat *seat, struct turns_kept *ret_kept, uint64_t now_ns);
/* A former caller said so: before it joins a device for the first time, and again once all have
 * joined whose processes are still there. */
void turns_kept(struct turns_seat *seat, struct turns_tenant *tenant, const struct turns_kept *kept,
		uint64_t now_ns);
void turns_kept_all(struct turns_seat *seat, const struct turns_kept *kept, uint64_t now_ns);

/* What its cap owes, in thousandths of ns, whether it is on a device, was, or will be. / Of that
 * another one owes a part from now on: 1/`parts`. One that is new has saved up nothing. */
uint64_t turns_cap_owed(struct turns_seat *seat, uint64_t now_ns);
void turns_pass_cap(struct turns_seat *from, struct turns_seat *to, uint32_t parts,
		    uint64_t now_ns);
