/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/engine_core.h"

#include <string.h>

#define NOBODY UINT32_MAX

static bool is_link(unsigned lane)
{
	return lane == SEGMENT_HOST_TO_DEVICE || lane == SEGMENT_DEVICE_TO_HOST;
}

static bool waits(const struct segment_ticket *ticket, unsigned lane, uint64_t now_ns)
{
	return ticket->id && ticket->lane == lane && !ticket->done && ticket->ready_ns <= now_ns;
}

/* ---- ledgers ------------------------------------------------------------------------------- */

/* Counts busy time into its sampling periods; those that the ring has lost are lost. */
static void sample(struct segment_sample *samples, uint64_t start_ns, uint64_t end_ns)
{
	if (end_ns - start_ns > ENGINE_CORE_PERIOD_NS * (uint64_t)SEGMENT_SAMPLES_MAX)
		start_ns = end_ns - ENGINE_CORE_PERIOD_NS * (uint64_t)SEGMENT_SAMPLES_MAX;
	while (start_ns < end_ns) {
		uint64_t period = start_ns / ENGINE_CORE_PERIOD_NS;
		uint64_t stop_ns = (period + 1) * ENGINE_CORE_PERIOD_NS;
		size_t i = period % SEGMENT_SAMPLES_MAX;

		if (stop_ns > end_ns)
			stop_ns = end_ns;
		if (samples[i].period < period)
			samples[i] = (struct segment_sample){.period = (uint32_t)period};
		if (samples[i].period == period)
			samples[i].busy_ns += (uint32_t)(stop_ns - start_ns);
		start_ns = stop_ns;
	}
}

static void count_kernel(const struct engine_core_rules *rules, unsigned lane, uint32_t process,
			 int by)
{
	if (rules->processes && lane == SEGMENT_COMPUTE)
		rules->processes[process].usage[rules->device].kernels += (uint64_t)(int64_t)by;
}

static void charge(struct segment_engines *engines, const struct engine_core_rules *rules,
		   unsigned lane, uint32_t process, uint64_t start_ns, uint64_t end_ns)
{
	struct segment_usage *usage;

	if (!rules->processes)
		return;
	usage = &rules->processes[process].usage[rules->device];
	engines->lanes[lane].busy_ns += end_ns - start_ns;
	usage->busy_ns[lane] += end_ns - start_ns;
	if (lane == SEGMENT_COMPUTE) {
		sample(engines->samples, start_ns, end_ns);
		sample(usage->samples, start_ns, end_ns);
	}
}

/* ---- gaps ---------------------------------------------------------------------------------- */

static void gap_insert(struct segment_lane_book *book, uint32_t at, struct segment_gap gap)
{
	if (gap.start_ns >= gap.end_ns)
		return;
	if (book->gap_count == SEGMENT_GAPS_MAX) {
		/* The oldest goes: nobody's work is so late. */
		memmove(&book->gaps[0], &book->gaps[1],
			(SEGMENT_GAPS_MAX - 1) * sizeof(book->gaps[0]));
		book->gap_count--;
		if (at == 0)
			return;
		at--;
	}
	memmove(&book->gaps[at + 1], &book->gaps[at],
		(book->gap_count - at) * sizeof(book->gaps[0]));
	book->gaps[at] = gap;
	book->gap_count++;
}

static void gap_extend(struct segment_lane_book *book, uint64_t start_ns, uint64_t end_ns,
		       uint64_t speed)
{
	struct segment_gap *last = book->gap_count ? &book->gaps[book->gap_count - 1] : NULL;

	if (last && last->end_ns == start_ns && last->speed == speed)
		last->end_ns = end_ns;
	else
		gap_insert(book, book->gap_count, (struct segment_gap){start_ns, end_ns, speed});
}

static uint64_t done_in(uint64_t time_ns, uint64_t speed)
{
	return (uint64_t)((unsigned __int128)time_ns * speed / SETTINGS_FACTOR_ONE);
}

static uint64_t time_for(uint64_t work_ns, uint64_t speed)
{
	unsigned __int128 time_ns =
		((unsigned __int128)work_ns * SETTINGS_FACTOR_ONE + speed - 1) / speed;

	return time_ns > UINT64_MAX ? UINT64_MAX : (uint64_t)time_ns;
}

/* Work that came late uses time in which the engine was idle. Returns the work that is left. */
static uint64_t gap_claim(struct segment_engines *engines, const struct engine_core_rules *rules,
			  unsigned lane, uint32_t process, uint64_t ready_ns, uint64_t work_ns,
			  uint64_t *ret_end_ns)
{
	struct segment_lane_book *book = &engines->lanes[lane];

	for (uint32_t i = 0; i < book->gap_count && work_ns;) {
		struct segment_gap gap = book->gaps[i];
		uint64_t start_ns = gap.start_ns > ready_ns ? gap.start_ns : ready_ns;
		uint64_t time_ns, part_ns;

		if (gap.end_ns <= start_ns) {
			i++;
			continue;
		}
		time_ns = time_for(work_ns, gap.speed);
		if (time_ns > gap.end_ns - start_ns)
			time_ns = gap.end_ns - start_ns;
		part_ns = done_in(time_ns, gap.speed);
		work_ns -= part_ns < work_ns ? part_ns : work_ns;
		charge(engines, rules, lane, process, start_ns, start_ns + time_ns);
		*ret_end_ns = start_ns + time_ns;
		/* What is left of the gap, before and behind. */
		book->gap_count--;
		memmove(&book->gaps[i], &book->gaps[i + 1],
			(book->gap_count - i) * sizeof(book->gaps[0]));
		if (gap.start_ns < start_ns)
			gap_insert(book, i++,
				   (struct segment_gap){gap.start_ns, start_ns, gap.speed});
		if (start_ns + time_ns < gap.end_ns)
			gap_insert(book, i++,
				   (struct segment_gap){start_ns + time_ns, gap.end_ns, gap.speed});
	}
	return work_ns;
}

/* ---- turns --------------------------------------------------------------------------------- */

/* The holder of slices: a context of a process. Those of one process are neighbours in the round.
 */
static uint64_t owner(const struct segment_ticket *ticket)
{
	return (uint64_t)ticket->process << 32 | ticket->context;
}

/* How far behind the holder of the last slice an owner stands in the round; the holder is last. */
static uint64_t distance(uint64_t owner, uint64_t current)
{
	return owner - current - 1;
}

static void least(uint64_t *value, uint64_t other)
{
	if (other < *value)
		*value = other;
}

struct choice {
	uint32_t index;	     /* of the ticket that the lane works on, or NOBODY */
	bool others;	     /* another context waits for the lane */
	uint64_t arrival_ns; /* when the next ticket gets ready; UINT64_MAX for none */
};

/* Whether ticket `i` comes before `other` (NOBODY: any does) once the current slice has ended. */
static bool is_nearer(const struct segment_engines *engines, uint64_t current, uint32_t i,
		      uint32_t other)
{
	const struct segment_ticket *tickets = engines->tickets;
	uint64_t far, nearest;

	if (other == NOBODY)
		return true;
	far = distance(owner(&tickets[i]), current);
	nearest = distance(owner(&tickets[other]), current);
	return far < nearest || (far == nearest && tickets[i].id < tickets[other].id);
}

/* When a ticket that does not wait yet will; UINT64_MAX: never. */
static uint64_t arrival(const struct segment_ticket *ticket, unsigned lane)
{
	return ticket->id && ticket->lane == lane && !ticket->done ? ticket->ready_ns : UINT64_MAX;
}

/* The oldest ticket of the context whose slice it is, and the next one's; NOBODY: there is none.
 * Fills in the choice but for its index. */
static void survey(const struct segment_engines *engines, unsigned lane, struct choice *choice,
		   uint32_t *ret_own, uint32_t *ret_next)
{
	uint64_t current = engines->lanes[lane].current;

	*ret_own = *ret_next = NOBODY;
	for (uint32_t i = 0; i < engines->tickets_high; i++) {
		const struct segment_ticket *ticket = &engines->tickets[i];

		if (!waits(ticket, lane, engines->at_ns)) {
			least(&choice->arrival_ns, arrival(ticket, lane));
		} else if (owner(ticket) == current) {
			if (*ret_own == NOBODY || ticket->id < engines->tickets[*ret_own].id)
				*ret_own = i;
		} else {
			choice->others = true;
			if (is_nearer(engines, current, i, *ret_next))
				*ret_next = i;
		}
	}
}

/* Whether another context than the ticket's waits. */
static bool others_wait(const struct segment_engines *engines, unsigned lane, uint32_t ticket)
{
	for (uint32_t i = 0; i < engines->tickets_high; i++)
		if (waits(&engines->tickets[i], lane, engines->at_ns) &&
		    owner(&engines->tickets[i]) != owner(&engines->tickets[ticket]))
			return true;
	return false;
}

/* Oldest ticket of the context whose slice it is; at the slice's end the next one's. */
static struct choice choose(struct segment_engines *engines, const struct engine_core_rules *rules,
			    unsigned lane)
{
	struct segment_lane_book *book = &engines->lanes[lane];
	struct choice choice = {.index = NOBODY, .arrival_ns = UINT64_MAX};
	uint32_t own, next;

	survey(engines, lane, &choice, &own, &next);
	if (own != NOBODY && (!choice.others || engines->at_ns < book->slice_end_ns)) {
		choice.index = own;
		return choice;
	}
	if (next == NOBODY)
		return choice;
	/* Is anybody left behind, once it is this one's turn? */
	choice.others = own != NOBODY || others_wait(engines, lane, next);
	book->current = owner(&engines->tickets[next]);
	book->slice_end_ns = engines->at_ns + rules->slice_ns;
	choice.index = next;
	return choice;
}

static void work(struct segment_engines *engines, const struct engine_core_rules *rules,
		 unsigned lane, struct choice choice, uint64_t speed, uint64_t step_ns)
{
	struct segment_lane_book *book = &engines->lanes[lane];
	struct segment_ticket *ticket = &engines->tickets[choice.index];
	uint64_t end_ns = engines->at_ns + step_ns, part_ns = done_in(step_ns, speed);

	if (ticket->left_ns != UINT64_MAX) {
		/* The last step is rounded up to whole nanoseconds. */
		if (time_for(ticket->left_ns, speed) <= step_ns)
			part_ns = ticket->left_ns;
		ticket->left_ns -= part_ns < ticket->left_ns ? part_ns : ticket->left_ns;
	}
	charge(engines, rules, lane, ticket->process, engines->at_ns, end_ns);
	if (!ticket->left_ns) {
		ticket->end_ns = end_ns;
		ticket->done = 1;
		count_kernel(rules, lane, ticket->process, 1);
	}
	/* A context alone gets slice after slice: one that comes waits for the end of the running
	 * slice. */
	if (!choice.others && end_ns > book->slice_end_ns)
		book->slice_end_ns += (end_ns - book->slice_end_ns + rules->slice_ns - 1) /
				      rules->slice_ns * rules->slice_ns;
}

static bool is_busy(const struct choice *choices, unsigned lane)
{
	return choices[lane].index != NOBODY;
}

/* How long it is until a lane's ticket is done, its slice ends with others waiting, or somebody
 * comes. */
static uint64_t lane_step(const struct segment_engines *engines, unsigned lane,
			  const struct choice *choice, uint64_t speed)
{
	uint64_t step_ns = UINT64_MAX;

	if (choice->arrival_ns != UINT64_MAX)
		step_ns = choice->arrival_ns - engines->at_ns;
	if (choice->index == NOBODY)
		return step_ns;
	if (choice->others)
		least(&step_ns, engines->lanes[lane].slice_end_ns - engines->at_ns);
	if (engines->tickets[choice->index].left_ns != UINT64_MAX)
		least(&step_ns, time_for(engines->tickets[choice->index].left_ns, speed));
	return step_ns;
}

/* One step: until a ticket is done, a slice ends while others wait, or a ticket comes. */
static void step(struct segment_engines *engines, const struct engine_core_rules *rules,
		 unsigned lanes, uint64_t now_ns)
{
	struct choice choices[SEGMENT_LANES];
	uint64_t speeds[SEGMENT_LANES], step_ns = now_ns - engines->at_ns;
	bool up, down;

	for (unsigned lane = 0; lane < SEGMENT_LANES; lane++)
		if (lanes >> lane & 1)
			choices[lane] = choose(engines, rules, lane);
		else
			choices[lane] = (struct choice){.index = NOBODY, .arrival_ns = UINT64_MAX};
	up = is_busy(choices, SEGMENT_HOST_TO_DEVICE);
	down = is_busy(choices, SEGMENT_DEVICE_TO_HOST);
	for (unsigned lane = 0; lane < SEGMENT_LANES; lane++) {
		speeds[lane] = is_link(lane) && up && down ? rules->duplex : SETTINGS_FACTOR_ONE;
		least(&step_ns, lane_step(engines, lane, &choices[lane], speeds[lane]));
	}
	for (unsigned lane = 0; lane < SEGMENT_LANES; lane++) {
		if (!(lanes >> lane & 1))
			continue;
		if (is_busy(choices, lane))
			work(engines, rules, lane, choices[lane], speeds[lane], step_ns);
		else if (rules->processes)
			gap_extend(&engines->lanes[lane], engines->at_ns, engines->at_ns + step_ns,
				   is_link(lane) && (up || down) ? rules->duplex
								 : SETTINGS_FACTOR_ONE);
	}
	engines->at_ns += step_ns;
}

void engine_core_advance(struct segment_engines *engines, const struct engine_core_rules *rules,
			 unsigned lanes, uint64_t now_ns, uint32_t until)
{
	while (engines->at_ns < now_ns) {
		if (until != NOBODY && engines->tickets[until].done)
			return;
		step(engines, rules, lanes, now_ns);
	}
}

/* ---- tickets ------------------------------------------------------------------------------- */

uint32_t engine_core_add(struct segment_engines *engines, const struct engine_core_rules *rules,
			 enum segment_lane lane, uint32_t process, uint32_t context,
			 uint64_t ready_ns, uint64_t work_ns)
{
	struct segment_ticket ticket = {
		.process = process, .context = context, .lane = (uint8_t)lane};
	uint32_t index = 0;

	while (index < SEGMENT_TICKETS_MAX && engines->tickets[index].id)
		index++;
	if (index == SEGMENT_TICKETS_MAX)
		return NOBODY;
	ticket.end_ns = ready_ns;
	ticket.ready_ns = ready_ns;
	ticket.left_ns = work_ns;
	if (work_ns != UINT64_MAX)
		ticket.left_ns =
			gap_claim(engines, rules, lane, process, ready_ns, work_ns, &ticket.end_ns);
	ticket.done = !ticket.left_ns;
	if (ticket.done)
		count_kernel(rules, lane, process, 1);
	engines->tickets[index] = ticket;
	if (index >= engines->tickets_high)
		engines->tickets_high = index + 1;
	/* Counts from here on. */
	engines->tickets[index].id = engines->next_ticket++;
	return index;
}

bool engine_core_correct(struct segment_engines *engines, const struct engine_core_rules *rules,
			 uint32_t index, uint64_t old_ns, uint64_t new_ns)
{
	struct segment_ticket *ticket = &engines->tickets[index];
	uint64_t more_ns;

	if (new_ns == old_ns)
		return false;
	if (new_ns < old_ns) {
		/* What it had too much is lost, as is what the others would have done with it. */
		if (ticket->done)
			return false;
		if (ticket->left_ns > old_ns - new_ns) {
			ticket->left_ns -= old_ns - new_ns;
		} else {
			ticket->left_ns = 0;
			ticket->end_ns = engines->at_ns;
			ticket->done = 1;
			count_kernel(rules, ticket->lane, ticket->process, 1);
		}
		return true;
	}
	if (ticket->done)
		count_kernel(rules, ticket->lane, ticket->process, -1);
	if (new_ns == UINT64_MAX) {
		ticket->left_ns = new_ns;
		ticket->done = 0;
		return false;
	}
	more_ns = new_ns - old_ns;
	if (ticket->done) {
		more_ns = gap_claim(engines, rules, ticket->lane, ticket->process, ticket->end_ns,
				    more_ns, &ticket->end_ns);
		ticket->done = !more_ns;
		ticket->left_ns = more_ns;
		if (ticket->done)
			count_kernel(rules, ticket->lane, ticket->process, 1);
	} else {
		ticket->left_ns += more_ns;
	}
	return false;
}

void engine_core_remove(struct segment_engines *engines, uint32_t index)
{
	engines->tickets[index].id = 0;
	while (engines->tickets_high && !engines->tickets[engines->tickets_high - 1].id)
		engines->tickets_high--;
}

uint32_t engine_core_find(const struct segment_engines *engines, uint64_t id)
{
	for (uint32_t i = 0; i < engines->tickets_high; i++)
		if (engines->tickets[i].id == id)
			return i;
	return NOBODY;
}

bool engine_core_contended(const struct segment_engines *engines, enum segment_lane lane,
			   uint32_t process)
{
	for (uint32_t i = 0; i < engines->tickets_high; i++) {
		const struct segment_ticket *ticket = &engines->tickets[i];

		if (ticket->id && ticket->lane == lane && !ticket->done &&
		    ticket->process != process)
			return true;
	}
	return false;
}

uint64_t engine_core_predict(const struct segment_engines *engines,
			     const struct engine_core_rules *rules, uint32_t index,
			     uint64_t horizon_ns)
{
	struct engine_core_rules what_if = *rules;
	unsigned lane = engines->tickets[index].lane;
	struct segment_engines copy;

	what_if.processes = NULL;
	memcpy(&copy, engines,
	       offsetof(struct segment_engines, tickets) +
		       engines->tickets_high * sizeof(engines->tickets[0]));
	engine_core_advance(&copy, &what_if,
			    is_link(lane)
				    ? 1u << SEGMENT_HOST_TO_DEVICE | 1u << SEGMENT_DEVICE_TO_HOST
				    : 1u << lane,
			    horizon_ns, index);
	return copy.tickets[index].done ? copy.tickets[index].end_ns : horizon_ns;
}
