/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A seat's charge and its effects on the device's virtual clock, the seat's cap and its guarantee.
 * The clock is the weighted mean of the virtual times of the seats that want to run. A seat behind
 * the clock was therefore given less than it is entitled to, whatever caps and guarantees do to the
 * others.
 */
#include "core/turns/turns_machine.h"

enum {
	FLOOR_TURNS = 25, /* the most of a guarantee that is owed, or was used in advance */
	CAPPED_TURNS = 8,
};

static const uint64_t longest_span =
	1000000000000000; /* a week or so; so that no product overflows */

/* ---- the clock ------------------------------------------------------------------------------- */

static void clock_shift(struct turns_device *d, int64_t weighted)
{
	int64_t weight = (int64_t)d->clock_weight, whole;

	d->clock_rest += weighted;
	if (!weight) {
		d->clock_rest = 0;
		return;
	}
	whole = d->clock_rest / weight - (d->clock_rest % weight < 0);
	d->clock += (uint64_t)whole;
	d->clock_rest -= whole * weight;
}

static int64_t ahead(const struct turns_seat *s)
{
	return (int64_t)(s->virtual_ns - s->device->clock);
}

uint64_t turns_seat_virtual(const struct turns_seat *s, uint64_t ns)
{
	return ns * WEIGHT_UNIT / s->tenant->share.weight;
}

uint64_t turns_seat_real(const struct turns_seat *s, uint64_t virtual_ns)
{
	uint64_t weight = s->tenant->share.weight;

	/* In two parts, so that no product overflows. */
	return virtual_ns / WEIGHT_UNIT * weight + virtual_ns % WEIGHT_UNIT * weight / WEIGHT_UNIT;
}

/* What a division leaves is added to the next amount: so the sum does not depend on into how many
 * amounts it is divided. */
static uint64_t charged_virtual(struct turns_seat *s, uint64_t ns)
{
	uint64_t all = ns * WEIGHT_UNIT + s->virtual_rest, weight = s->tenant->share.weight;

	s->virtual_rest = (uint32_t)(all % weight);
	return all / weight;
}

/* A debt is bounded. After a rest, at most one turn of what it is owed remains, and under a cap
 * a few turns: time that the cap denies is not saved up, but the seat keeps its place in the
 * line. */
static void bound_lag(struct turns_seat *s)
{
	uint64_t kept = s->rested ? turns_line_slice(s) : CAPPED_TURNS * s->device->turn_ns;
	int64_t debt = (int64_t)turns_seat_virtual(s, s->device->turns->tuning.debt_ns);
	int64_t lead = (int64_t)turns_seat_virtual(s, kept);

	if (ahead(s) > debt)
		s->virtual_ns = s->device->clock + (uint64_t)debt;
	if (ahead(s) < -lead)
		s->virtual_ns = s->device->clock - (uint64_t)lead;
}

/* The clock's weights are about to change: what was charged until now counts with those that were.
 */
void turns_seat_activate(struct turns_seat *s, uint64_t now_ns)
{
	struct turns_device *d = s->device;

	if (s->active)
		return;
	turns_device_settle(d, now_ns);
	bound_lag(s);
	s->rested = false;
	s->active = true;
	d->clock_weight += s->tenant->share.weight;
	clock_shift(d, ahead(s) * s->tenant->share.weight);
}

void turns_seat_deactivate(struct turns_seat *s, bool rests, uint64_t now_ns)
{
	struct turns_device *d = s->device;

	s->rested |= rests;
	if (!s->active)
		return;
	turns_device_settle(d, now_ns);
	s->active = false;
	d->clock_weight -= s->tenant->share.weight;
	clock_shift(d, -ahead(s) * s->tenant->share.weight);
}

void turns_seat_excuse(struct turns_seat *s, uint64_t now_ns)
{
	int64_t most_ahead = (int64_t)turns_seat_virtual(s, turns_line_slice(s));
	int64_t beyond = ahead(s) - most_ahead;

	/* Not a seat that is due because it has waited for long. */
	if (beyond <= 0 || !s->active || turns_seat_due(s, now_ns) > now_ns)
		return;
	s->virtual_ns -= (uint64_t)beyond;
	clock_shift(s->device, -beyond * s->tenant->share.weight);
}

/* ---- cap ------------------------------------------------------------------------------------- */

uint32_t turns_cap_milli(const struct turns_seat *s)
{
	const struct turns_share *share = &s->tenant->share;
	uint32_t tenants = s->device->tenants ? s->device->tenants : 1;

	if (share->equal && MILLI / tenants < share->cap_milli)
		return tenants < MILLI ? MILLI / tenants : 1;
	return share->cap_milli;
}

/* What it has beside others may be charged once it has drained: until then what it saves up, or has
 * paid, has no bound, as it may be spent already. */
static bool may_be_charged_later(const struct turns_seat *s)
{
	return s->gate == TURNS_OWING;
}

static void bound_allowance(struct turns_seat *s)
{
	int64_t saved = (int64_t)(s->device->turns->tuning.burst_ns * MILLI);

	if (s->allowance > saved)
		s->allowance = saved;
	if (s->unpaid < 0)
		s->unpaid = 0;
}

/* Running time is subtracted before the saved amount is clamped, so that a long turn loses
 * nothing. */
static void allow(struct turns_seat *s, uint64_t charged_ns, uint64_t now_ns)
{
	uint64_t span = least(now_ns - s->allowance_at_ns, longest_span);

	s->allowance_at_ns = now_ns;
	s->allowance += (int64_t)(span * turns_cap_milli(s)) - (int64_t)(charged_ns * MILLI);
	/* What is charged is added first: however often it is settled meanwhile, the same is left.
	 */
	if (s->opened_owing)
		s->unpaid += (int64_t)(charged_ns * MILLI);
	s->unpaid -= (int64_t)(span * turns_cap_milli(s));
	if (!may_be_charged_later(s))
		bound_allowance(s);
}

void turns_seat_allow(struct turns_seat *s, uint64_t now_ns)
{
	turns_settle(s, now_ns);
	allow(s, 0, now_ns);
}

uint64_t turns_seat_released(struct turns_seat *s, uint64_t now_ns)
{
	const struct turns_tuning *tuning = &s->device->turns->tuning;
	int64_t needed = (int64_t)(least(2 * tuning->shortest_ns, tuning->burst_ns) * MILLI);
	uint32_t cap = turns_cap_milli(s);

	if (cap >= MILLI)
		return 0;
	turns_seat_allow(s, now_ns);
	if (s->allowance >= needed)
		return 0;
	return now_ns + (uint64_t)(needed - s->allowance + cap - 1) / cap;
}

uint64_t turns_seat_exhausted(struct turns_seat *s, uint64_t now_ns)
{
	uint32_t cap = turns_cap_milli(s);

	if (cap >= MILLI)
		return UINT64_MAX;
	turns_seat_allow(s, now_ns);
	if (s->allowance <= 0)
		return now_ns;
	return now_ns + ((uint64_t)s->allowance + MILLI - cap - 1) / (MILLI - cap);
}

/* ---- guarantee ------------------------------------------------------------------------------- */

/* Guarantees that exceed the whole device are scaled down equally. */
static uint64_t floor_rate(const struct turns_seat *s)
{
	uint64_t all = s->device->guarantees, own = s->tenant->share.guarantee_milli;

	return all > MILLI ? own * MILLI / all : own;
}

static int64_t floor_most(const struct turns_seat *s)
{
	return (int64_t)(FLOOR_TURNS * s->device->turns->tuning.turn_ns * MILLI);
}

static void owe(struct turns_seat *s, uint64_t charged_ns, uint64_t now_ns)
{
	uint64_t span = least(now_ns - s->floor_at_ns, longest_span);
	/* What it has while nobody else wants the device is not held against it. A long kernel is.
	 */
	int64_t debt = floor_most(s) + (int64_t)(s->tenant->overrun_ns * MILLI);

	s->floor_at_ns = now_ns;
	/* Where nothing is gated nothing is owed. */
	if (is_free(s))
		return;
	s->floor += (int64_t)(span * floor_rate(s)) - (int64_t)(charged_ns * MILLI);
	if (s->floor > floor_most(s) && !may_be_charged_later(s))
		s->floor = floor_most(s);
	if (s->floor < -debt && charged_ns)
		s->floor = -debt;
}

void turns_seat_floor(struct turns_seat *s, bool wanted, uint64_t now_ns)
{
	turns_settle(s, now_ns);
	owe(s, 0, now_ns);
	if (!wanted && s->floor > 0)
		s->floor = 0;
}

void turns_device_floors(struct turns_device *d, uint64_t now_ns)
{
	if (!d->guarantees)
		return;
	list_for_each(link, &d->seats) turns_seat_floor(SEAT_OF_DEVICE(link), true, now_ns);
}

uint64_t turns_seat_due(struct turns_seat *s, uint64_t now_ns)
{
	uint64_t rate = floor_rate(s), owed;

	if (!rate)
		return UINT64_MAX;
	turns_seat_floor(s, true, now_ns);
	owed = s->floor > 0 ? least((uint64_t)s->floor, (uint64_t)floor_most(s)) : 0;
	if (s->floor >= 0)
		return now_ns - least(owed / rate, now_ns);
	return now_ns + (uint64_t)-s->floor / rate;
}

/* ---- what is charged ------------------------------------------------------------------------- */

static void charge(struct turns_seat *s, uint64_t ns, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t virtual_ns = charged_virtual(s, ns);

	s->charged_ns += ns;
	if (s->rates)
		turns_rate_add(&s->rates->charged, from_ns, to_ns, ns);
	s->virtual_ns += virtual_ns;
	if (s->active)
		clock_shift(s->device, (int64_t)(virtual_ns * s->tenant->share.weight));
	if (turns_cap_milli(s) < MILLI)
		allow(s, ns, to_ns);
	if (s->tenant->share.guarantee_milli)
		owe(s, ns, to_ns);
}

static bool is_charged(const struct turns_seat *s)
{
	if (is_free(s) || s->gate == TURNS_CLOSED || s->gate == TURNS_OWING)
		return false;
	return s->gate != TURNS_OPENED || !s->tenant->paused;
}

/* The hardware gave it every other slice of others' turns. In between it had the device for itself,
 * or together with other such work. */
static uint64_t had_beside(const struct turns_seat *s, uint64_t now_ns)
{
	const struct turns_device *d = s->device;
	uint64_t span = now_ns - s->owing_ns, turns = least(d->used_ns - s->owing_used_ns, span);

	return turns / TURNS_BESIDE_PART + (span - turns) / (d->beside > 1 ? TURNS_BESIDE_PART : 1);
}

/* The device is settled up to now. */
static void owes_from_now(struct turns_seat *s, uint64_t now_ns)
{
	s->owing_ns = now_ns;
	s->owing_used_ns = s->device->used_ns;
}

void turns_seat_owe(struct turns_seat *s, uint64_t now_ns)
{
	turns_device_settle(s->device, now_ns);
	owes_from_now(s, now_ns);
}

/* Others leave the device idle in parts of their turns, which work that goes on by itself has. How
 * much that is nobody knows: a cap is a ceiling, so it pays for all: decisions/0205. */
static void pay_whole(struct turns_seat *s, uint64_t charged_ns, uint64_t now_ns)
{
	uint64_t span = now_ns - s->owing_ns;

	if (!s->moment && turns_cap_milli(s) < MILLI && span > charged_ns)
		allow(s, span - charged_ns, now_ns);
}

void turns_seat_pay(struct turns_seat *s, uint64_t now_ns)
{
	bool owes = s->gate == TURNS_OWING && !is_free(s) && now_ns > s->owing_ns;
	uint64_t ns;

	turns_device_settle(s->device, now_ns);
	if (owes) {
		/* What was held may have had the device whenever it was not. */
		ns = s->tenant->holds ? now_ns - s->owing_ns : had_beside(s, now_ns);
		charge(s, ns, s->owing_ns, now_ns);
		pay_whole(s, ns, now_ns);
	}
	owes_from_now(s, now_ns);
}

void turns_seat_bound(struct turns_seat *s, uint64_t now_ns)
{
	turns_seat_allow(s, now_ns);
	bound_allowance(s);
	turns_seat_floor(s, true, now_ns);
	if (s->floor > floor_most(s))
		s->floor = floor_most(s);
}

void turns_seat_forgive(struct turns_seat *s, uint64_t now_ns)
{
	turns_seat_bound(s, now_ns);
	turns_seat_owe(s, now_ns);
}

/* With a cap it would never have a turn before the stopped process goes on: turns_last_stopped().
 */
static bool pays_before(const struct turns_seat *s)
{
	if (s->stopped && turns_cap_milli(s) < MILLI)
		return s->tenant->lasts;
	return s->tenant->lasts || s->moment || s->held;
}

void turns_seat_pay_before(struct turns_seat *s, uint64_t now_ns)
{
	if (s->gate == TURNS_OWING && pays_before(s))
		turns_seat_pay(s, now_ns);
}

void turns_seat_pay_stopped(struct turns_seat *s, uint64_t now_ns)
{
	if (s->gate == TURNS_OWING && s->stopped)
		turns_seat_pay(s, now_ns);
}

void turns_seat_entitle(struct turns_seat *s, bool from_now_on, uint64_t now_ns)
{
	uint64_t span = now_ns - s->entitled_at_ns, ns = 0;
	int64_t clock = (int64_t)(s->device->clock - s->entitled_clock);

	if (s->entitling && !s->rests && span > 0) {
		if (clock > 0)
			ns = turns_seat_real(s, (uint64_t)clock);
		ns = most(ns, span / MILLI * floor_rate(s));
		ns = least(least(ns, span), span * turns_cap_milli(s) / MILLI);
		s->entitled_ns += ns;
		if (s->rates)
			turns_rate_add(&s->rates->entitled, s->entitled_at_ns, now_ns, ns);
	}
	s->entitling = from_now_on;
	s->entitled_at_ns = now_ns;
	s->entitled_clock = s->device->clock;
}

/* Charges a seat that has come along in another tenant's turn. */
static void spend(struct turns_seat *s, uint64_t ns, uint64_t now_ns)
{
	if (turns_cap_milli(s) < MILLI)
		allow(s, ns, now_ns);
}

static void charge_turn(struct turns_seat *s, uint64_t now_ns)
{
	s->device->used_ns += now_ns - s->settled_ns;
	charge(s, now_ns - s->settled_ns, s->settled_ns, now_ns);
}

void turns_settle(struct turns_seat *s, uint64_t now_ns)
{
	if (now_ns > s->settled_ns && is_charged(s) && s->leader)
		spend(s, now_ns - s->settled_ns, now_ns);
	else if (now_ns > s->settled_ns && is_charged(s))
		charge_turn(s, now_ns);
	if (now_ns > s->settled_ns)
		s->settled_ns = now_ns;
	if (s->entitling && now_ns - s->entitled_at_ns >= TURNS_RATE_SLOT_NS)
		turns_seat_entitle(s, true, now_ns);
}

const struct turns_rates *turns_rates_of(const struct turns_seat *s)
{
	static const struct turns_rates nothing;

	return s->rates ? s->rates : &nothing;
}
