/* SPDX-License-Identifier: Apache-2.0 */
#include "core/turns/alike.h"

#include "base/least.h"

#define MS  UINT64_C(1000000)
#define OFF UINT64_MAX

/* Samples are of 1/6 s (some devices: 1 s). Looks come twice as often, so that none is missed. */
static const uint64_t look_ns = 80 * MS;
static const uint64_t blind_ns = 60000 * MS;	  /* until the driver is asked again */
static const uint64_t unused_most_ns = 4000 * MS; /* likewise, where nobody computes */
static const uint64_t hush_ns = 500 * MS;	  /* for all guests to report that they are idle */
static const uint64_t recent_ns = 1500 * MS;	  /* a sample of 1 s that has just ended */
static const uint64_t same_ns = 10 * MS;	  /* timestamps of one sample differ by less */
static const uint64_t enough_ns = 1000 * MS;	  /* to tell that it is fair */
static const uint64_t most_ns = 3000 * MS;	  /* to compare */
static const uint64_t silence_ns = 2000 * MS;	  /* without samples: nobody computes */
static const uint64_t patience_most_ns = 16000 * MS;
static const uint64_t noise_ns = 20 * MS; /* from the kernels that a sample begins and ends with */
static const uint64_t moment_most_ns = 20 * MS; /* may be unfair in a moment, its noise included */

enum {
	TOLERATED = 20,	      /* the part of the time that may be unfair: 5 points */
	SUSPECTED_MILLI = 50, /* more than equal parts */
	SAMPLES_LEAST = 2,    /* one is too little: which kernel it shows is chance */
	WATCHED_MOST = 2,     /* times `most_ns`, by the clock: there may be few samples */
};

#define SEAT_OF(node) list_entry(node, struct alike_seat, link)

void alike_init(struct alike *a)
{
	*a = (struct alike){
		.due_ns = OFF, .span_ns = ALIKE_SPAN_FIRST_NS, .patience_ns = ALIKE_GLANCE_NS};
	list_init(&a->list);
}

/* ---- what each was entitled to --------------------------------------------------------------- */

static void advance(struct alike *a, uint64_t to_ns)
{
	if (to_ns <= a->clock_ns)
		return;
	if (a->wanting)
		a->virtual_ns += (to_ns - a->clock_ns) / a->wanting;
	a->clock_ns = to_ns;
}

static void entitle(struct alike_seat *s)
{
	if (s->counted)
		s->entitled_ns += s->alike->virtual_ns - s->since_ns;
	s->since_ns = s->alike->virtual_ns;
}

static void count(struct alike_seat *s, bool wants)
{
	if (s->counted == wants)
		return;
	entitle(s);
	s->counted = wants;
	s->alike->wanting += wants ? 1u : -1u;
}

static void replay_one(struct alike *a)
{
	const struct alike_event *e = &a->events[a->event];

	a->event = (a->event + 1) % ALIKE_EVENTS;
	a->event_count--;
	advance(a, e->at_ns);
	count(e->seat, e->wants);
}

static void replay(struct alike *a, uint64_t to_ns)
{
	while (a->event_count && a->events[a->event].at_ns <= to_ns)
		replay_one(a);
	advance(a, to_ns);
	list_for_each(node, &a->list) entitle(SEAT_OF(node));
}

/* The comparison begins with the next sample. */
static void compare_anew(struct alike *a, uint64_t now_ns)
{
	a->first_ns = a->last_ns = 0;
	a->period_ns = OFF;
	a->samples = 0;
	a->clock_ns = now_ns;
	a->event_count = 0;
	list_for_each(node, &a->list) count(SEAT_OF(node), SEAT_OF(node)->wants);
}

static void begin_with(struct alike *a, uint64_t sample_ns)
{
	a->first_ns = a->last_ns = sample_ns;
	list_for_each(node, &a->list) SEAT_OF(node)->had_ns = SEAT_OF(node)->entitled_ns = 0;
}

/* A sample covers its own length alone. The time between the one before and it is not known: the
 * device was idle, or a sample was missed. */
static void take_sample(struct alike *a, uint64_t sample_ns)
{
	a->period_ns = least(a->period_ns, sample_ns - a->last_ns);
	a->last_ns = sample_ns;
	a->samples++;
	list_for_each(node, &a->list) SEAT_OF(node)->had_ns +=
		a->period_ns / ALIKE_MILLI * SEAT_OF(node)->seen_milli;
}

static void follow(struct alike *a, uint64_t sample_ns)
{
	if (sample_ns < a->began_ns || (a->first_ns && sample_ns < a->last_ns + same_ns))
		return;
	replay(a, sample_ns);
	if (a->first_ns)
		take_sample(a, sample_ns);
	else
		begin_with(a, sample_ns);
}

struct balance {
	uint64_t worst; /* the most that a tenant lacks */
	uint64_t lacks, beyond;
};

static struct balance balance(const struct alike *a)
{
	struct balance b = {0};

	list_for_each(node, (struct list *)&a->list)
	{
		const struct alike_seat *s = SEAT_OF(node);
		uint64_t lacks = beyond(s->entitled_ns, s->had_ns);

		b.lacks += lacks;
		b.beyond += beyond(s->had_ns, s->entitled_ns);
		b.worst = most(b.worst, lacks);
	}
	return b;
}

/* The lack of the tenant that is worst off does not count as far as the device was idle although
 * somebody wanted it: nobody else had that time. (Programs that pause for less than a guest's grace
 * count as wanting the device.) All entitlements add up to the time in which somebody wanted it. */
static uint64_t unfair_ns(const struct alike *a)
{
	struct balance b = balance(a);
	uint64_t idle = beyond(b.lacks, b.beyond);

	return least(beyond(b.worst, idle), b.beyond);
}

/* ---- states ---------------------------------------------------------------------------------- */

static void enter(struct alike *a, enum alike_state state, uint64_t due_ns, uint64_t now_ns)
{
	a->state = state;
	a->began_ns = now_ns;
	a->due_ns = a->applies ? due_ns : OFF;
	a->asks = false;
}

static void leave_open(struct alike *a, uint64_t now_ns)
{
	a->unused_ns = ALIKE_GLANCE_NS;
	enter(a, ALIKE_OPEN, now_ns + ALIKE_GLANCE_NS, now_ns);
}

/* Guests are asked whether they are idle: samples do not tell when somebody begins to compute. */
static void find_unused(struct alike *a, uint64_t now_ns)
{
	enter(a, ALIKE_UNUSED, now_ns + hush_ns, now_ns);
}

static bool anybody_wants(const struct alike *a)
{
	list_for_each(node, (struct list *)&a->list)
	{
		if (SEAT_OF(node)->wants)
			return true;
	}
	return false;
}

/* The guests have had the time to report that they are idle. */
static void end_unused(struct alike *a, uint64_t now_ns)
{
	if (!anybody_wants(a))
		return;
	a->unheard_ns = now_ns + blind_ns;
	enter(a, ALIKE_OPEN, now_ns + unused_most_ns, now_ns);
}

static void govern(struct alike *a, uint64_t now_ns)
{
	enter(a, ALIKE_GOVERNED, now_ns + a->span_ns, now_ns);
}

static void watch(struct alike *a, bool retried, uint64_t now_ns)
{
	enter(a, ALIKE_WATCHED, now_ns + look_ns, now_ns);
	a->retried = retried;
	a->watched_milli = 0;
	compare_anew(a, now_ns);
}

static void find_unfair(struct alike *a, uint64_t now_ns)
{
	bool soon = a->opened_ns && now_ns - a->opened_ns < a->span_ns;

	a->span_ns = soon ? least(2 * a->span_ns, ALIKE_SPAN_MOST_NS) : ALIKE_SPAN_FIRST_NS;
	a->patience_ns = ALIKE_GLANCE_NS;
	a->quiet_ns = 0;
	govern(a, now_ns);
}

static void find_fair(struct alike *a, uint64_t now_ns)
{
	a->fair_milli = a->watched_milli;
	a->quiet_ns = now_ns + a->patience_ns;
	a->patience_ns = least(2 * a->patience_ns, patience_most_ns);
	leave_open(a, now_ns);
}

/* The sooner, the worse it is. */
static void judge(struct alike *a, uint64_t now_ns)
{
	uint64_t compared = a->last_ns - a->first_ns, unfair = unfair_ns(a);
	uint64_t tolerated = compared / TOLERATED;
	bool over = compared >= most_ns || now_ns - a->began_ns >= WATCHED_MOST * most_ns;

	a->due_ns = now_ns + look_ns;
	if (a->samples >= SAMPLES_LEAST && unfair > tolerated + noise_ns)
		find_unfair(a, now_ns);
	else if (over || (compared >= enough_ns && unfair <= tolerated))
		find_fair(a, now_ns);
}

/* ---- looks ----------------------------------------------------------------------------------- */

static uint32_t count_active(const struct alike *a)
{
	uint32_t active = 0;

	list_for_each(node, (struct list *)&a->list) active += SEAT_OF(node)->seen_milli > 0;
	return active;
}

/* The sum of what tenants had beyond equal parts. The others may have nothing to run, which only
 * their guests can tell. */
static uint32_t uneven_milli(const struct alike *a)
{
	uint32_t part = ALIKE_MILLI / a->seats, uneven = 0;

	list_for_each(node, (struct list *)&a->list)
	{
		const struct alike_seat *s = SEAT_OF(node);

		uneven += (uint32_t)beyond(s->seen_milli, part);
	}
	return uneven;
}

/* A tenant that only pauses is not asked: it would have to report that again and again. */
static void glance_unused(struct alike *a, uint64_t now_ns)
{
	if (a->unused_ns >= unused_most_ns && now_ns >= a->unheard_ns) {
		find_unused(a, now_ns);
		return;
	}
	a->due_ns = now_ns + a->unused_ns;
	a->unused_ns = least(2 * a->unused_ns, unused_most_ns);
}

static void glance(struct alike *a, uint64_t sample_ns, uint64_t now_ns)
{
	uint32_t active = count_active(a), uneven = uneven_milli(a);
	bool familiar = active <= a->active && uneven <= a->fair_milli + SUSPECTED_MILLI;

	if (!sample_ns || now_ns > sample_ns + recent_ns) {
		glance_unused(a, now_ns);
		return;
	}
	a->due_ns = now_ns + ALIKE_GLANCE_NS;
	a->unused_ns = ALIKE_GLANCE_NS;
	a->unheard_ns = 0;
	if (uneven <= SUSPECTED_MILLI || (now_ns < a->quiet_ns && familiar))
		return;
	if (active > a->active)
		a->patience_ns = ALIKE_GLANCE_NS;
	a->active = active;
	watch(a, false, now_ns);
	a->watched_milli = uneven;
}

static bool is_silent(const struct alike *a, uint64_t sample_ns, uint64_t now_ns)
{
	return now_ns - a->began_ns > silence_ns && (!sample_ns || now_ns > sample_ns + silence_ns);
}

static void open_on_trial(struct alike *a, uint64_t now_ns)
{
	a->opened_ns = now_ns;
	enter(a, ALIKE_TRIED, now_ns + ALIKE_MOMENT_NS, now_ns);
}

/* In a moment each of several tenants is short of little: the sum of their lacks counts. */
static void weigh(struct alike *a, uint64_t now_ns)
{
	struct balance b = balance(a);

	if (least(b.lacks, b.beyond) > moment_most_ns)
		find_unfair(a, now_ns);
	else
		watch(a, true, now_ns);
}

static void look(struct alike *a, uint64_t sample_ns, uint64_t now_ns)
{
	bool weighs = a->state == ALIKE_WEIGHED;

	a->due_ns = now_ns + look_ns;
	if (is_silent(a, sample_ns, now_ns)) {
		a->opened_ns = now_ns;
		leave_open(a, now_ns);
		return;
	}
	if (weighs ? sample_ns < a->last_ns + same_ns : sample_ns < a->began_ns)
		return;
	if (!weighs) {
		follow(a, sample_ns);
		open_on_trial(a, now_ns);
		return;
	}
	replay(a, sample_ns);
	take_sample(a, sample_ns);
	if (sample_ns >= a->began_ns)
		weigh(a, now_ns);
}

void alike_saw(struct alike_seat *s, uint32_t milli)
{
	s->seen_milli = milli;
}

void alike_looked(struct alike *a, uint64_t sample_ns, uint64_t now_ns)
{
	if (a->asks) {
		a->asks = false;
		switch (a->state) {
		case ALIKE_OPEN:
			glance(a, sample_ns, now_ns);
			break;
		case ALIKE_WATCHED:
			a->watched_milli = (uint32_t)most(a->watched_milli, uneven_milli(a));
			follow(a, sample_ns);
			judge(a, now_ns);
			break;
		case ALIKE_POISED:
		case ALIKE_WEIGHED:
			look(a, sample_ns, now_ns);
			break;
		case ALIKE_UNUSED:
		case ALIKE_GOVERNED:
		case ALIKE_TRIED:
			break;
		}
	}
	list_for_each(node, &a->list) SEAT_OF(node)->seen_milli = 0;
}

void alike_blind(struct alike *a, uint64_t now_ns)
{
	if (!a->asks)
		return;
	enter(a, ALIKE_OPEN, now_ns + blind_ns, now_ns);
}

void alike_tick(struct alike *a, uint64_t now_ns)
{
	if (now_ns < a->due_ns)
		return;
	a->due_ns = OFF;
	if (a->state == ALIKE_UNUSED) {
		end_unused(a, now_ns);
		return;
	}
	if (a->state == ALIKE_TRIED) {
		enter(a, ALIKE_WEIGHED, now_ns + look_ns, now_ns);
		return;
	}
	if (a->state == ALIKE_GOVERNED) {
		enter(a, ALIKE_POISED, OFF, now_ns);
		compare_anew(a, now_ns);
	}
	a->asks = true;
}

/* ---- who is there ---------------------------------------------------------------------------- */

/* The comparison is void, and with it the events of tenants that have left. */
static void start_over(struct alike *a, uint64_t now_ns)
{
	if (a->state == ALIKE_WATCHED)
		watch(a, a->retried, now_ns);
	else if (a->state != ALIKE_UNUSED && alike_listens(a))
		govern(a, now_ns);
}

void alike_join(struct alike *a, struct alike_seat *s, uint64_t now_ns)
{
	*s = (struct alike_seat){.alike = a, .wants = true, .since_ns = a->virtual_ns};
	list_append(&a->list, &s->link);
	a->seats++;
	count(s, true);
	start_over(a, now_ns);
	if (a->state == ALIKE_UNUSED)
		leave_open(a, now_ns);
	a->unused_ns = ALIKE_GLANCE_NS;
	if (a->state == ALIKE_OPEN && a->applies && !a->asks)
		a->due_ns = least(a->due_ns, now_ns + ALIKE_GLANCE_NS);
}

void alike_leave(struct alike_seat *s, uint64_t now_ns)
{
	struct alike *a = s->alike;

	if (!a)
		return;
	count(s, false);
	list_remove(&s->link);
	a->seats--;
	*s = (struct alike_seat){0};
	a->active = 0;
	start_over(a, now_ns);
	/* The tenants that are left may be alike in their kernels, too. */
	a->span_ns = ALIKE_SPAN_FIRST_NS;
	if (a->state == ALIKE_GOVERNED && a->applies)
		a->due_ns = least(a->due_ns, now_ns + a->span_ns);
	if (a->seats < 2)
		alike_apply(a, false, now_ns);
}

/* A device that is no longer shared has no use for former findings. */
void alike_apply(struct alike *a, bool applies, uint64_t now_ns)
{
	bool governs = alike_governs(a) || a->state == ALIKE_TRIED;

	if (a->seats < 2) {
		a->span_ns = ALIKE_SPAN_FIRST_NS;
		a->patience_ns = ALIKE_GLANCE_NS;
		a->quiet_ns = a->opened_ns = 0;
		applies = governs = false;
	} else if (applies == a->applies) {
		return;
	}
	a->applies = applies;
	if (governs)
		govern(a, now_ns);
	else
		leave_open(a, now_ns);
}

void alike_wants(struct alike_seat *s, bool wants, uint64_t now_ns)
{
	struct alike *a = s->alike;

	if (!a || s->wants == wants)
		return;
	s->wants = wants;
	if (wants && alike_sleeps(a))
		leave_open(a, now_ns);
	if (a->state == ALIKE_UNUSED || !alike_listens(a))
		return;
	if (a->event_count == ALIKE_EVENTS)
		replay_one(a);
	a->events[(a->event + a->event_count++) % ALIKE_EVENTS] =
		(struct alike_event){now_ns, s, wants};
}
