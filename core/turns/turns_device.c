/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a device is open or governed. This depends on the tenants present, not on those
 * that want to run now, so that it does not change with every pause of a program (decisions/0072).
 */
#include "core/turns/turns_machine.h"

void turns_device_add_share(struct turns_seat *s, int sign)
{
	const struct turns_share *share = &s->tenant->share;
	struct turns_device *d = s->device;
	uint32_t one = (uint32_t)sign;
	uint64_t weight = share->weight;

	d->weights += weight * (uint64_t)(int64_t)sign;
	d->weights_squared += weight * weight * (uint64_t)(int64_t)sign;
	d->guarantees += share->guarantee_milli * (uint64_t)(int64_t)sign;
	d->classes[share->class] += one;
	d->capped += share->cap_milli < MILLI ? one : 0;
	d->equal += share->equal ? one : 0;
	d->uneven += s->uneven ? one : 0;
	d->weighted += share->weighted ? one : 0;
}

/* All n numbers are equal iff n * (sum of squares) == (sum)^2. */
static bool are_alike(const struct turns_device *d)
{
	bool same_class = d->classes[0] == d->tenants || d->classes[1] == d->tenants ||
			  d->classes[2] == d->tenants;

	return !d->capped && !d->barred && !d->guarantees && !d->uneven && !d->equal &&
	       !d->weighted && same_class &&
	       d->weights_squared * d->tenants == d->weights * d->weights;
}

bool turns_alike(const struct turns_device *d)
{
	return d->tenants > 1 && !d->at_once && are_alike(d);
}

static bool makes_no_difference(const struct turns_device *d)
{
	if (d->at_once)
		return !d->barred;
	if (d->tenants <= 1)
		return !d->capped && !d->barred;
	return !d->unfair && are_alike(d);
}

/* It was open: tenants with open gates may have work in flight. */
static void govern_seat(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	s->settled_ns = s->floor_at_ns = now_ns;
	s->virtual_ns = s->device->clock + turns_seat_virtual(s, s->owed_ns);
	if (s->gate != TURNS_OPENED)
		return;
	/* Time on an open device is not a rest: what it is owed is not cut. */
	s->rested = false;
	if (t->state == TURNS_LINED || t->state == TURNS_READY) {
		turns_tenant_withdraw(t, now_ns);
		turns_seat_start_closing(s, true, now_ns);
		turns_tenant_enter(t, now_ns);
	} else if (s->device->tenants == 1 && t->state == TURNS_IDLE && !t->suspended &&
		   turns_tenant_governed(t) == 1) {
		s->device->holder = s;
		s->idle = t->idle = t->paused = false;
		s->wanted_ns = now_ns;
		t->wants = true;
		turns_seat_entitle(s, true, now_ns);
		turns_seat_activate(s, now_ns);
		turns_tenant_begin(t, now_ns);
	} else if (t->state == TURNS_RUNNING) {
		t->forced = true;
		turns_seat_start_closing(s, true, now_ns);
		turns_tenant_judge(t, now_ns);
	} else if (!turns_seat_start_closing(s, true, now_ns)) {
		/* It was just opened, and its guests were not told yet: they will not report
		 * whether they want to run. */
		t->wants |= s->asks;
		turns_tenant_enter(t, now_ns);
	}
}

static void free_seat(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_tenant *t = s->tenant;

	turns_tenant_detach(s, now_ns);
	s->gate = TURNS_OPENED;
	turns_seat_todo(s, 0);
	turns_tenant_fix(t, now_ns);
}

void turns_device_reckon(struct turns_device *d, uint64_t now_ns)
{
	bool governed = !makes_no_difference(d);

	if (governed == d->governed)
		return;
	list_for_each(link, &d->seats) turns_settle(SEAT_OF_DEVICE(link), now_ns);
	turns_device_floors(d, now_ns);
	d->governed = governed;
	if (governed) {
		/* No seat is served before all are closing. */
		d->strays++;
		list_for_each(link, &d->seats) govern_seat(SEAT_OF_DEVICE(link), now_ns);
		d->strays--;
		turns_device_serve(d, now_ns);
		return;
	}
	/* Nobody waits at a closed gate here, and a tenant on no governed device cannot be let
	 * in. */
	list_for_each(link, &d->seats) turns_await_forget(SEAT_OF_DEVICE(link));
	list_for_each(link, &d->seats) free_seat(SEAT_OF_DEVICE(link), now_ns);
}

void turns_at_once(struct turns_device *d, bool at_once, uint64_t now_ns)
{
	if (d->at_once == at_once)
		return;
	d->at_once = at_once;
	turns_device_reckon(d, now_ns);
}

void turns_govern(struct turns_device *d, bool unfair, uint64_t now_ns)
{
	if (d->unfair == unfair)
		return;
	d->unfair = unfair;
	turns_device_reckon(d, now_ns);
}
